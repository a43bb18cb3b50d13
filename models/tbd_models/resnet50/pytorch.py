"""ResNet-50 in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from torch import Tensor, nn

from tbd_models.pytorch.workload import Workload, image_classification
from tbd_models.resnet50 import Dimensions


class Bottleneck(nn.Module):
    """1x1, 3x3 and 1x1 convolution with a shortcut."""

    def __init__(self, inputs: int, width: int, outputs: int, stride: int, in_3x3: bool) -> None:
        super().__init__()
        first, second = (1, stride) if in_3x3 else (stride, 1)
        self.conv1 = nn.Conv2d(inputs, width, 1, first, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, second, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, outputs, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = (
            nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )
            if stride != 1 or inputs != outputs
            else nn.Identity()
        )

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        y += self.downsample(x)
        return self.relu(y)


class PreActivation(nn.Module):
    """A bottleneck that normalizes before each convolution (He et al. 2016, version 2)."""

    def __init__(self, inputs: int, width: int, outputs: int, stride: int, bias: bool) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(inputs)
        self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, padding=1, bias=False)
        self.bn3 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, outputs, 1, bias=bias)
        self.relu = nn.ReLU(inplace=True)
        self.widens = inputs != outputs
        if self.widens:
            self.shortcut: nn.Module = nn.Conv2d(inputs, outputs, 1, stride, bias=bias)
        else:
            self.shortcut = nn.MaxPool2d(1, stride) if stride > 1 else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        active = self.relu(self.bn1(x))
        y = self.relu(self.bn2(self.conv1(active)))
        y = self.relu(self.bn3(self.conv2(y)))
        y = self.conv3(y)
        y += self.shortcut(active if self.widens else x)
        return y


def _stages(d: Dimensions, block: Callable[[int, int, int, int], nn.Module]) -> nn.ModuleList:
    # `block` takes channels of the input, inside and of the output, and the stride.
    stages = nn.ModuleList()
    inputs = d.stem_width
    for number, width in enumerate(d.widths):
        stage = nn.Sequential()
        for stride in d.strides(number):
            stage.append(block(inputs, width, width * d.expansion, stride))
            inputs = width * d.expansion
        stages.append(stage)
    return stages


def _initialize(model: nn.Module) -> None:
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")


class ResNet(nn.Module):
    """A residual network (versions 1 and 1.5) for images of shape (N, 3, H, W)."""

    def __init__(self, d: Dimensions) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, d.stem_width, 7, 2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(d.stem_width)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, padding=1)
        in_3x3 = d.version == "v1.5"
        self.stages = _stages(d, partial(Bottleneck, in_3x3=in_3x3))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(d.widths[-1] * d.expansion, d.classes)
        _initialize(self)

    def features(self, x: Tensor) -> list[Tensor]:
        """Return the outputs of all stages, finest first."""
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        outputs = []
        for stage in self.stages:
            x = stage(x)
            outputs.append(x)
        return outputs

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.avgpool(self.features(x)[-1]).flatten(1))


class PreActivationResNet(nn.Module):
    """A residual network of version 2 for images of shape (N, 3, H, W)."""

    def __init__(self, d: Dimensions) -> None:
        super().__init__()
        width, slim = d.stem_width, d.is_slim
        self.bn_data = nn.Identity() if slim else nn.BatchNorm2d(3)
        self.conv1 = nn.Conv2d(3, width, 7, 2, padding=3, bias=slim)
        self.bn1 = nn.Identity() if slim else nn.BatchNorm2d(width)
        self.relu1 = nn.Identity() if slim else nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, padding=1)
        self.stages = _stages(d, partial(PreActivation, bias=slim))
        outputs = d.widths[-1] * d.expansion
        self.bn2 = nn.BatchNorm2d(outputs)
        self.relu2 = nn.ReLU(inplace=True)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(outputs, d.classes)
        _initialize(self)

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.relu1(self.bn1(self.conv1(self.bn_data(x)))))
        for stage in self.stages:
            x = stage(x)
        return self.fc(self.avgpool(self.relu2(self.bn2(x))).flatten(1))


def workload(d: Dimensions) -> Workload:
    """Return the workload with these dimensions."""
    model = PreActivationResNet(d) if d.version.startswith("v2") else ResNet(d)
    return image_classification(model, d.image_size, d.classes)
