"""Inception-v3 in MXNet."""

from __future__ import annotations

from typing import Any

from mxnet.gluon import HybridBlock, nn

from tbd_models.inception3 import Conv, Dimensions, Pool, Step, network
from tbd_models.mxnet.workload import Workload, image_classification


def _conv_block(inputs: int, spec: Conv) -> HybridBlock:
    height, width = spec.kernel
    padding = (height // 2, width // 2) if spec.same else (0, 0)
    block = nn.HybridSequential()
    block.add(
        nn.Conv2D(
            spec.channels, spec.kernel, spec.stride, padding, use_bias=False, in_channels=inputs
        ),
        nn.BatchNorm(epsilon=0.001),
        nn.Activation("relu"),
    )
    return block


class InceptionBlock(HybridBlock):
    """Branches over one input, concatenated along the channels."""

    def __init__(self, branches: list[HybridBlock]) -> None:
        super().__init__()
        for number, branch in enumerate(branches):
            self.register_child(branch, str(number))

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.concat(*(branch(x) for branch in self._children.values()), dim=1)


def _build(step: Step, inputs: int) -> tuple[HybridBlock, int]:
    # Returns the block of a step and its output channels.
    if isinstance(step, Conv):
        return _conv_block(inputs, step), step.channels
    if isinstance(step, Pool):
        return nn.MaxPool2D(3, 2) if step.kind == "max" else nn.AvgPool2D(3, 1, 1), inputs
    branches, outputs = [], 0
    for steps in step.branches:
        branch, channels = nn.HybridSequential(), inputs
        for inner in steps:
            block, channels = _build(inner, channels)
            branch.add(block)
        branches.append(branch)
        outputs += channels
    return InceptionBlock(branches), outputs


class InceptionV3(HybridBlock):
    """Inception-v3 for images of shape (N, 3, H, W)."""

    def __init__(self, d: Dimensions) -> None:
        super().__init__()
        self.features = nn.HybridSequential()
        channels = 3
        for name, step in network(d).items():
            block, channels = _build(step, channels)
            self.features.register_child(block, name)
        self.avgpool = nn.GlobalAvgPool2D()
        self.dropout = nn.Dropout(d.dropout)
        self.fc = nn.Dense(d.classes, in_units=channels)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return self.fc(self.dropout(F.flatten(self.avgpool(self.features(x)))))


def workload(d: Dimensions) -> Workload:
    """Return the workload with these dimensions."""
    return image_classification(InceptionV3(d), d.image_size, d.classes)
