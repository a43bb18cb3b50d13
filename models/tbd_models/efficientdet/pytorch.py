"""EfficientDet in PyTorch."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from tbd_models.efficientdet import Dimensions
from tbd_models.efficientdet.backbone_pytorch import EfficientNet, norm
from tbd_models.padded import scenes
from tbd_models.pytorch import boxes
from tbd_models.pytorch.workload import Batch, Workload, as_tensors
from tbd_models.synthetic import scene_batch


class SeparableConv(nn.Sequential):
    """3x3 depthwise convolution without bias, then 1x1 convolution with bias."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(
            nn.Conv2d(inputs, inputs, 3, padding=1, groups=inputs, bias=False),
            nn.Conv2d(inputs, outputs, 1),
        )


class Resample(nn.Sequential):
    """Adapt a map's channels to the pyramid and its resolution to a neighbouring level.

    ``step`` is 1 for the next coarser level, -1 for the next finer one, 0 for the same.
    """

    def __init__(self, inputs: int, outputs: int, step: int) -> None:
        super().__init__()
        if inputs != outputs:
            self.extend([nn.Conv2d(inputs, outputs, 1), norm(outputs)])
        if step > 0:
            self.append(nn.MaxPool2d(3, 2, padding=1))
        elif step < 0:
            self.append(nn.Upsample(scale_factor=2, mode="nearest"))


class FusionNode(nn.Module):
    """Weighted mean of feature maps (fast normalized fusion), swish and separable convolution."""

    def __init__(self, inputs: list[tuple[int, int]], width: int) -> None:
        """Make a node over maps given as (channels, step of :class:`Resample`)."""
        super().__init__()
        self.resample = nn.ModuleList(Resample(channels, width, step) for channels, step in inputs)
        self.weight = nn.Parameter(torch.ones(len(inputs)))
        self.swish = nn.SiLU(inplace=True)
        self.conv = SeparableConv(width, width)
        self.bn = norm(width)

    def forward(self, *maps: Tensor) -> Tensor:
        # Tan et al. 2020, section 3.3; 1e-4 avoids a division by 0.
        weight = self.weight.relu()
        weight = (weight / (weight.sum() + 1e-4)).to(maps[0].dtype)
        terms = [
            resample(x) * share
            for resample, x, share in zip(self.resample, maps, weight.unbind(), strict=True)
        ]
        return self.bn(self.conv(self.swish(sum(terms[1:], terms[0]))))


class BiFPN(nn.Module):
    """Bidirectional feature pyramid: a top-down and a bottom-up path."""

    def __init__(self, channels: list[int], width: int) -> None:
        """Make a pyramid over levels with these channels; the coarsest has ``width``."""
        super().__init__()
        last = len(channels) - 1
        self.down = nn.ModuleList(
            FusionNode([(channels[level], 0), (width, -1)], width) for level in range(last)
        )
        self.up = nn.ModuleList(
            FusionNode(
                [(channels[level], 0), *([(width, 0)] if level < last else []), (width, 1)], width
            )
            for level in range(1, last + 1)
        )

    def forward(self, maps: list[Tensor]) -> list[Tensor]:
        # Levels are ordered from finest to coarsest.
        last = len(maps) - 1
        between = [maps[last]]
        for level in range(last - 1, -1, -1):
            between.insert(0, self.down[level](maps[level], between[0]))
        out = [between[0]]
        for level in range(1, last + 1):
            middle = [between[level]] if level < last else []
            out.append(self.up[level - 1](maps[level], *middle, out[-1]))
        return out


class Head(nn.Module):
    """Predictions at each anchor; levels share the convolutions, not the normalization."""

    def __init__(self, d: Dimensions, outputs: int, bias: float) -> None:
        super().__init__()
        self.outputs = outputs
        self.convolutions = nn.ModuleList(
            SeparableConv(d.width, d.width) for _ in range(d.head_repeats)
        )
        self.norms = nn.ModuleList(
            nn.ModuleList(norm(d.width) for _ in d.strides) for _ in range(d.head_repeats)
        )
        self.swish = nn.SiLU(inplace=True)
        self.predict = SeparableConv(d.width, outputs * d.anchors_per_cell)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                spread = math.sqrt(1 / module.weight[0].numel())
                nn.init.normal_(module.weight, std=spread)
        last = self.predict[1]
        assert isinstance(last, nn.Conv2d) and last.bias is not None
        nn.init.normal_(last.weight, std=0.01)
        nn.init.constant_(last.bias, bias)

    def forward(self, maps: list[Tensor]) -> Tensor:
        # Returns predictions (N, anchors of all levels, outputs).
        return torch.cat([self._level(number, x) for number, x in enumerate(maps)], 1)

    def _level(self, number: int, x: Tensor) -> Tensor:
        for conv, norms in zip(self.convolutions, self.norms, strict=True):
            assert isinstance(norms, nn.ModuleList)
            x = self.swish(norms[number](conv(x)))
        predicted: Tensor = self.predict(x)
        return predicted.permute(0, 2, 3, 1).reshape(len(x), -1, self.outputs)


class Detections(NamedTuple):
    """Predictions at all A anchors."""

    score: Tensor  # (N, A, classes)
    delta: Tensor  # encoded boxes (N, A, 4)
    anchors: Tensor  # (A, 4)


class EfficientDet(nn.Module):
    """EfficientDet for images of shape (N, 3, H, W)."""

    def __init__(self, d: Dimensions) -> None:
        super().__init__()
        self.backbone = EfficientNet(d)
        tapped = [d.stages[number].channels for number in d.tapped]
        self.p6 = Resample(tapped[-1], d.width, 1)
        self.p7 = Resample(d.width, d.width, 1)
        channels = [*tapped, d.width, d.width]
        self.pyramids = nn.Sequential()
        for _ in range(d.pyramid_repeats):
            self.pyramids.append(BiFPN(channels, d.width))
            channels = [d.width] * len(channels)
        # Bias for an initial class probability of 0.01, as objects are rare (Lin et al. 2017).
        self.class_head = Head(d, d.classes, -math.log(99))
        self.box_head = Head(d, 4, 0.0)
        self.anchors: Tensor
        self.register_buffer("anchors", _anchors(d), persistent=False)

    def forward(self, x: Tensor) -> Detections:
        maps: list[Tensor] = self.backbone(x)
        p6 = self.p6(maps[-1])
        maps = self.pyramids([*maps, p6, self.p7(p6)])
        return Detections(self.class_head(maps), self.box_head(maps), self.anchors)


def _anchors(d: Dimensions) -> Tensor:
    return torch.cat(
        [
            boxes.grid_anchors(
                d.image_size // stride,
                d.image_size // stride,
                stride,
                [d.anchor_scale * stride * 2**octave for octave in d.octave],
                d.anchor_ratios,
            )
            for stride in d.strides
        ]
    )


def focal_loss(score: Tensor, target: Tensor, alpha: float = 0.25, gamma: float = 1.5) -> Tensor:
    """Return the focal loss of each score (Lin et al. 2017) for targets 0 and 1."""
    plain = nn.functional.binary_cross_entropy_with_logits(score, target, reduction="none")
    wrong = 1 - torch.exp(-plain)  # probability of the wrong answer
    weight = alpha * target + (1 - alpha) * (1 - target)
    return weight * wrong**gamma * plain


def detection_loss(detections: Detections, batch: Batch) -> Tensor:
    """Return the focal loss of classes plus 50 times the Huber loss of boxes, in float32."""
    label, box = batch["label"], batch["box"]
    with torch.no_grad():
        overlap = boxes.iou(detections.anchors, box)
        matched, kind = boxes.assign(overlap, label > 0, 0.5, 0.5, force=True)
        positive = kind == 1
        count = positive.sum() + 1  # +1 as in the authors' code: avoids a division by 0
        aim = torch.where(positive, boxes.take(label, matched), 0)
        number = torch.arange(1, detections.score.shape[-1] + 1, device=label.device)
        target = (aim[..., None] == number).float()
        delta = boxes.encode(boxes.take(box, matched), detections.anchors)
    huber = nn.functional.huber_loss(detections.delta.float(), delta, reduction="none", delta=0.1)
    class_loss = focal_loss(detections.score.float(), target).sum() / count
    return class_loss + 50 * (huber.mean(-1) * positive).sum() / count


def workload(d: Dimensions) -> Workload:
    """Return the workload with these dimensions."""
    return Workload(
        model=EfficientDet(d),
        batch=lambda size, rng: as_tensors(
            scene_batch(size, (d.image_size, d.image_size), d.classes, d.objects, rng)
        ),
        forward=lambda model, batch: model(batch["image"]),
        loss=detection_loss,
        optimizer=lambda parameters: torch.optim.SGD(
            parameters, lr=d.learning_rate, momentum=0.9, weight_decay=4e-5
        ),
        clip_norm=10.0,
        sized=lambda planned, rng: as_tensors(scenes(planned, d.classes, d.objects, rng)),
    )
