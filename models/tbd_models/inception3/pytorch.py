"""Inception-v3 in PyTorch."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from tbd_models.inception3 import Conv, Dimensions, Pool, Step, network
from tbd_models.pytorch.workload import Workload, image_classification


class ConvBlock(nn.Module):
    """Convolution, batch normalization and ReLU."""

    def __init__(self, inputs: int, spec: Conv) -> None:
        super().__init__()
        height, width = spec.kernel
        padding = (height // 2, width // 2) if spec.same else (0, 0)
        self.conv = nn.Conv2d(inputs, spec.channels, spec.kernel, spec.stride, padding, bias=False)
        self.bn = nn.BatchNorm2d(spec.channels, eps=0.001)
        self.relu = nn.ReLU(inplace=True)
        nn.init.kaiming_normal_(self.conv.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        return self.relu(self.bn(self.conv(x)))


class InceptionBlock(nn.Module):
    """Branches over one input, concatenated along the channels."""

    def __init__(self, branches: Iterable[nn.Module]) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([branch(x) for branch in self.branches], 1)


def _build(step: Step, inputs: int) -> tuple[nn.Module, int]:
    # Returns the module of a step and its output channels.
    if isinstance(step, Conv):
        return ConvBlock(inputs, step), step.channels
    if isinstance(step, Pool):
        pool = nn.MaxPool2d(3, 2) if step.kind == "max" else nn.AvgPool2d(3, 1, padding=1)
        return pool, inputs
    branches, outputs = [], 0
    for steps in step.branches:
        branch, channels = nn.Sequential(), inputs
        for inner in steps:
            module, channels = _build(inner, channels)
            branch.append(module)
        branches.append(branch)
        outputs += channels
    return InceptionBlock(branches), outputs


class InceptionV3(nn.Module):
    """Inception-v3 for images of shape (N, 3, H, W)."""

    def __init__(self, d: Dimensions) -> None:
        super().__init__()
        self.features = nn.Sequential()
        channels = 3
        for name, step in network(d).items():
            module, channels = _build(step, channels)
            self.features.add_module(name, module)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.dropout = nn.Dropout(d.dropout)
        self.fc = nn.Linear(channels, d.classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.dropout(self.avgpool(self.features(x)).flatten(1)))


def workload(d: Dimensions) -> Workload:
    """Return the workload with these dimensions."""
    return image_classification(InceptionV3(d), d.image_size, d.classes)
