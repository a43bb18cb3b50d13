"""The backbone of EfficientDet in PyTorch: EfficientNet without its classifier."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tbd_models.efficientdet import Dimensions, Stage


def norm(channels: int) -> nn.BatchNorm2d:
    """Return batch normalization with the constants of EfficientNet and EfficientDet."""
    return nn.BatchNorm2d(channels, eps=1e-3, momentum=0.01)


class ConvBlock(nn.Sequential):
    """Convolution without bias, batch normalization and an optional swish."""

    def __init__(
        self,
        inputs: int,
        outputs: int,
        *,
        kernel: int = 1,
        stride: int = 1,
        groups: int = 1,
        activation: bool = True,
    ) -> None:
        conv = nn.Conv2d(
            inputs, outputs, kernel, stride, padding=kernel // 2, groups=groups, bias=False
        )
        # PyTorch's fan-out ignores groups; that of a depthwise convolution equals its fan-in.
        nn.init.kaiming_normal_(conv.weight, mode="fan_out" if groups == 1 else "fan_in")
        super().__init__(conv, norm(outputs))
        if activation:
            self.append(nn.SiLU(inplace=True))


class SqueezeExcite(nn.Module):
    """Scale each channel by a gate computed from the averages of all channels."""

    def __init__(self, channels: int, squeezed: int) -> None:
        super().__init__()
        self.gate = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(channels, squeezed, 1),
            nn.SiLU(inplace=True),
            nn.Conv2d(squeezed, channels, 1),
            nn.Sigmoid(),
        )

    def forward(self, x: Tensor) -> Tensor:
        return x * self.gate(x)


class StochasticDepth(nn.Module):
    """Drop a whole sample at random in training and scale up the others (stochastic depth)."""

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.probability = probability

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.probability == 0:
            return x
        kept = 1 - self.probability
        draw = torch.rand((len(x), 1, 1, 1), device=x.device)
        return x * ((draw < kept).to(x.dtype) / kept)


class MBConv(nn.Module):
    """Inverted bottleneck: expand, depthwise convolution, squeeze-and-excitation, project."""

    def __init__(self, inputs: int, stage: Stage, first: bool, squeeze: float, drop: float) -> None:
        super().__init__()
        inner = inputs * stage.expansion
        stride = stage.stride if first else 1
        self.expand = ConvBlock(inputs, inner) if stage.expansion != 1 else nn.Identity()
        self.depthwise = ConvBlock(inner, inner, kernel=stage.kernel, stride=stride, groups=inner)
        self.excite = SqueezeExcite(inner, max(1, int(inputs * squeeze)))
        self.project = ConvBlock(inner, stage.channels, activation=False)
        self.depth = StochasticDepth(drop)
        self.residual = stride == 1 and inputs == stage.channels

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.project(self.excite(self.depthwise(self.expand(x))))
        if self.residual:
            y = self.depth(y) + x
        return y


class EfficientNet(nn.Module):
    """EfficientNet for images of shape (N, 3, H, W)."""

    def __init__(self, d: Dimensions) -> None:
        super().__init__()
        self.tapped = d.tapped
        self.stem = ConvBlock(3, d.stem, kernel=3, stride=2)
        self.stages = nn.ModuleList()
        total = sum(stage.blocks for stage in d.stages)
        channels, done = d.stem, 0
        for spec in d.stages:
            stage = nn.Sequential()
            for number in range(spec.blocks):
                drop = d.drop * done / total
                stage.append(MBConv(channels, spec, number == 0, d.squeeze, drop))
                channels, done = spec.channels, done + 1
            self.stages.append(stage)

    def forward(self, x: Tensor) -> list[Tensor]:
        # Returns the outputs of the tapped stages: P3, P4 and P5.
        x = self.stem(x)
        maps = []
        for number, stage in enumerate(self.stages):
            x = stage(x)
            if number in self.tapped:
                maps.append(x)
        return maps
