"""ResNet-50 in PyTorch."""

from __future__ import annotations

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


class ResNet(nn.Module):
    """A residual network for images of shape (N, 3, H, W)."""

    def __init__(self, d: Dimensions) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, d.stem_width, 7, 2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(d.stem_width)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, padding=1)
        self.stages = nn.ModuleList()
        inputs = d.stem_width
        for number, (width, blocks) in enumerate(zip(d.widths, d.blocks, strict=True)):
            outputs = width * d.expansion
            strides = [1 if number == 0 else 2] + [1] * (blocks - 1)
            stage = nn.Sequential()
            for stride in strides:
                stage.append(Bottleneck(inputs, width, outputs, stride, d.stride_in_3x3))
                inputs = outputs
            self.stages.append(stage)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(inputs, d.classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def features(self, x: Tensor) -> list[Tensor]:
        """Return the outputs of all stages, finest first."""
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        found = []
        for stage in self.stages:
            x = stage(x)
            found.append(x)
        return found

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.avgpool(self.features(x)[-1]).flatten(1))


def workload(d: Dimensions) -> Workload:
    """Return the workload with these dimensions."""
    return image_classification(ResNet(d), d.image_size, d.classes)
