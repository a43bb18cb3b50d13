"""ResNet-50 in MXNet."""

from __future__ import annotations

from typing import Any

from mxnet.gluon import HybridBlock, nn
from mxnet.gluon.model_zoo.vision import ResNetV1

from tbd_models.mxnet.workload import Workload, image_classification
from tbd_models.resnet50 import Dimensions


class Bottleneck(HybridBlock):
    """1x1, 3x3 and 1x1 convolution with a shortcut, without biases."""

    # The model zoo's block has biases in its 1x1 convolutions and no stride in the 3x3.

    stride_in_3x3 = False
    expansion = 4

    def __init__(
        self, channels: int, stride: int, downsample: bool, in_channels: int, **options: Any
    ) -> None:
        super().__init__(**options)
        width = channels // self.expansion
        first, second = (1, stride) if self.stride_in_3x3 else (stride, 1)
        self.body = nn.HybridSequential(prefix="")
        self.body.add(
            *_convolutions(in_channels, width, channels, strides=(first, second), bias=False),
            nn.BatchNorm(),
        )
        self.shortcut = nn.HybridSequential(prefix="")
        if downsample:
            self.shortcut.add(
                nn.Conv2D(channels, 1, stride, use_bias=False, in_channels=in_channels),
                nn.BatchNorm(),
            )

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.relu(self.body(x) + self.shortcut(x))


def _convolutions(
    inputs: int, width: int, outputs: int, *, strides: tuple[int, int], bias: bool
) -> list[HybridBlock]:
    # The three convolutions of a bottleneck: 1x1, 3x3 and 1x1, of which the last may have a bias.
    first, second = strides
    return [
        nn.Conv2D(width, 1, first, use_bias=False, in_channels=inputs),
        nn.BatchNorm(),
        nn.Activation("relu"),
        nn.Conv2D(width, 3, second, padding=1, use_bias=False, in_channels=width),
        nn.BatchNorm(),
        nn.Activation("relu"),
        nn.Conv2D(outputs, 1, use_bias=bias, in_channels=width),
    ]


class PreActivation(HybridBlock):
    """A bottleneck that normalizes before each convolution (He et al. 2016, version 2)."""

    def __init__(self, inputs: int, width: int, outputs: int, stride: int, bias: bool) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm(in_channels=inputs)
        self.body = nn.HybridSequential()
        self.body.add(*_convolutions(inputs, width, outputs, strides=(1, stride), bias=bias))
        self._widens = inputs != outputs
        self.shortcut = nn.HybridSequential()
        if self._widens:
            self.shortcut.add(nn.Conv2D(outputs, 1, stride, use_bias=bias, in_channels=inputs))
        elif stride > 1:
            self.shortcut.add(nn.MaxPool2D(1, stride))

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        active = F.relu(self.bn1(x))
        return self.body(active) + self.shortcut(active if self._widens else x)


def _version_1(d: Dimensions) -> HybridBlock:
    # ResNetV1 constructs the blocks itself, so the options become class attributes.
    in_3x3 = d.version == "v1.5"
    block = type("Bottleneck", (Bottleneck,), {"stride_in_3x3": in_3x3, "expansion": d.expansion})
    outputs = [d.expansion * width for width in d.widths]
    return ResNetV1(block, list(d.blocks), [d.stem_width, *outputs], classes=d.classes)


class PreActivationResNet(HybridBlock):
    """A residual network of version 2 for images of shape (N, 3, H, W)."""

    # The model zoo's ResNetV2 has neither a scale nor an offset in its first normalization.

    def __init__(self, d: Dimensions) -> None:
        super().__init__()
        self.features = nn.HybridSequential()
        if not d.is_slim:
            self.features.add(nn.BatchNorm(in_channels=3))
        self.features.add(nn.Conv2D(d.stem_width, 7, 2, 3, use_bias=d.is_slim, in_channels=3))
        if not d.is_slim:
            self.features.add(nn.BatchNorm(), nn.Activation("relu"))
        self.features.add(nn.MaxPool2D(3, 2, 1))
        inputs = d.stem_width
        for number, width in enumerate(d.widths):
            for stride in d.strides(number):
                outputs = width * d.expansion
                self.features.add(PreActivation(inputs, width, outputs, stride, d.is_slim))
                inputs = outputs
        self.features.add(nn.BatchNorm(), nn.Activation("relu"), nn.GlobalAvgPool2D(), nn.Flatten())
        self.output = nn.Dense(d.classes, in_units=inputs)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return self.output(self.features(x))


def workload(d: Dimensions) -> Workload:
    """Return the workload with these dimensions."""
    model = PreActivationResNet(d) if d.version.startswith("v2") else _version_1(d)
    return image_classification(model, d.image_size, d.classes)
