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
            nn.Conv2D(width, 1, first, use_bias=False, in_channels=in_channels),
            nn.BatchNorm(),
            nn.Activation("relu"),
            nn.Conv2D(width, 3, second, padding=1, use_bias=False, in_channels=width),
            nn.BatchNorm(),
            nn.Activation("relu"),
            nn.Conv2D(channels, 1, use_bias=False, in_channels=width),
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


def workload(d: Dimensions) -> Workload:
    """Return the workload with these dimensions."""
    # ResNetV1 constructs the blocks itself, so the options become class attributes.
    block = type(
        "Bottleneck", (Bottleneck,), {"stride_in_3x3": d.stride_in_3x3, "expansion": d.expansion}
    )
    outputs = [d.expansion * width for width in d.widths]
    model = ResNetV1(block, list(d.blocks), [d.stem_width, *outputs], classes=d.classes)
    return image_classification(model, d.image_size, d.classes)
