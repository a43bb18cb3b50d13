"""Mask R-CNN in PyTorch: network, losses and training."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from tbd_models.maskrcnn import Dimensions
from tbd_models.maskrcnn.rois_pytorch import (
    BoxTargets,
    MaskTargets,
    Pyramid,
    PyramidTable,
    RoIAlign,
)
from tbd_models.maskrcnn.rpn_pytorch import RegionProposals, RPNTargets, Term
from tbd_models.padded import scenes
from tbd_models.pytorch.boxes import take
from tbd_models.pytorch.workload import Batch, Workload, as_tensors
from tbd_models.resnet50.pytorch import Bottleneck, ResNet
from tbd_models.synthetic import scene_batch


class FrozenBatchNorm2d(nn.Module):
    """Batch normalization with constant statistics and weights: a scale and a shift."""

    def __init__(self, channels: int, scale: float) -> None:
        super().__init__()
        self.scale: Tensor
        self.shift: Tensor
        self.register_buffer("scale", torch.full((1, channels, 1, 1), scale))
        self.register_buffer("shift", torch.zeros(1, channels, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        return torch.addcmul(self.shift.to(x.dtype), x, self.scale.to(x.dtype))


def _freeze_normalization(module: nn.Module) -> None:
    for name, child in module.named_children():
        if isinstance(child, nn.BatchNorm2d):
            # Random weights have no statistics. A scale of 0.25 at the end of each block keeps
            # the sum of 16 blocks in the range of float16.
            scale = 0.25 if isinstance(module, Bottleneck) and name == "bn3" else 1.0
            setattr(module, name, FrozenBatchNorm2d(child.num_features, scale))
        else:
            _freeze_normalization(child)


class Backbone(nn.Module):
    """A residual network with frozen normalization and frozen first stages."""

    def __init__(self, d: Dimensions) -> None:
        super().__init__()
        self.body = ResNet(d.backbone)
        del self.body.avgpool, self.body.fc
        _freeze_normalization(self.body)
        for frozen in (self.body.conv1, *self.body.stages[: d.frozen_stages]):
            frozen.requires_grad_(False)

    def forward(self, image: Tensor) -> list[Tensor]:
        # Returns C2 to C5 of images (N, 3, H, W).
        return self.body.features(image)


class FeaturePyramid(nn.Module):
    """Feature pyramid network from C2..C5 to P2..P6 (Lin et al. 2017)."""

    def __init__(self, d: Dimensions) -> None:
        super().__init__()
        inputs = [width * d.backbone.expansion for width in d.backbone.widths]
        self.lateral = nn.ModuleList(nn.Conv2d(i, d.width_fpn, 1) for i in inputs)
        self.output = nn.ModuleList(
            nn.Conv2d(d.width_fpn, d.width_fpn, 3, padding=1) for _ in inputs
        )
        self.upsample = nn.Upsample(scale_factor=2, mode="nearest")
        self.coarsest = nn.MaxPool2d(1, 2)

    def forward(self, features: list[Tensor]) -> list[Tensor]:
        merged: Tensor = self.lateral[-1](features[-1])
        levels = [merged]
        for lateral, feature in zip(self.lateral[-2::-1], features[-2::-1], strict=True):
            merged = lateral(feature) + self.upsample(merged)
            levels.insert(0, merged)
        pyramid = [output(level) for output, level in zip(self.output, levels, strict=True)]
        return [*pyramid, self.coarsest(pyramid[-1])]


def _initialize(module: nn.Conv2d | nn.ConvTranspose2d | nn.Linear, std: float = 0.0) -> None:
    # With std 0: He initialization, for layers before a ReLU.
    if std:
        nn.init.normal_(module.weight, std=std)
    else:
        nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    if module.bias is not None:
        nn.init.zeros_(module.bias)


class RPNHead(nn.Module):
    """Objectness and box of each anchor; all levels share the layers."""

    def __init__(self, d: Dimensions) -> None:
        super().__init__()
        anchors = len(d.anchor_ratios)
        self.conv = nn.Conv2d(d.width_fpn, d.width_fpn, 3, padding=1)
        self.relu = nn.ReLU(inplace=True)
        self.objectness = nn.Conv2d(d.width_fpn, anchors, 1)
        self.delta = nn.Conv2d(d.width_fpn, 4 * anchors, 1)
        for module in (self.conv, self.objectness, self.delta):
            _initialize(module, 0.01)

    def forward(self, pyramid: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        # Scores (N, anchors) and deltas (N, anchors, 4) per level; float32 for sorting and exp().
        scores, deltas = [], []
        for level in pyramid:
            x = self.relu(self.conv(level))
            scores.append(self.objectness(x).permute(0, 2, 3, 1).flatten(1).float())
            deltas.append(self.delta(x).permute(0, 2, 3, 1).reshape(len(x), -1, 4).float())
        return scores, deltas


class BoxHead(nn.Module):
    """Class scores and box deltas of regions."""

    def __init__(self, d: Dimensions) -> None:
        super().__init__()
        self.align = RoIAlign(d, d.box_bins)
        self.fc = nn.Sequential(
            nn.Linear(d.width_fpn * d.box_bins**2, d.width_box),
            nn.ReLU(inplace=True),
            nn.Linear(d.width_box, d.width_box),
            nn.ReLU(inplace=True),
        )
        self.score = nn.Linear(d.width_box, d.classes)
        self.delta = nn.Linear(d.width_box, 4 * d.classes)
        _initialize(self.score, 0.01)
        _initialize(self.delta, 0.001)

    def forward(self, pyramid: Pyramid, boxes: Tensor) -> tuple[Tensor, Tensor]:
        # boxes: (N, R, 4); returns scores (N, R, classes) and deltas (N, R, classes, 4).
        x = self.fc(self.align(pyramid, boxes).flatten(1))
        leading = boxes.shape[:2]
        return self.score(x).unflatten(0, leading), self.delta(x).view(*leading, -1, 4)


class MaskHead(nn.Module):
    """Mask of a region for each class."""

    def __init__(self, d: Dimensions) -> None:
        super().__init__()
        self.align = RoIAlign(d, d.mask_bins)
        self.convolutions = nn.Sequential()
        for _ in range(4):
            conv = nn.Conv2d(d.width_fpn, d.width_fpn, 3, padding=1)
            self.convolutions.extend([conv, nn.ReLU(inplace=True)])
        self.upsample = nn.ConvTranspose2d(d.width_fpn, d.width_fpn, 2, 2)
        self.relu = nn.ReLU(inplace=True)
        self.mask = nn.Conv2d(d.width_fpn, d.classes, 1)
        for module in self.modules():
            if isinstance(module, (nn.Conv2d, nn.ConvTranspose2d)):
                _initialize(module)

    def forward(self, pyramid: Pyramid, boxes: Tensor) -> Tensor:
        # boxes: (N, R, 4); returns scores (N, R, classes, 2 x bins, 2 x bins).
        x = self.convolutions(self.align(pyramid, boxes))
        scores: Tensor = self.mask(self.relu(self.upsample(x)))
        return scores.unflatten(0, boxes.shape[:2])


class OfClass(nn.Module):
    """Select the prediction for one class."""

    def forward(self, predictions: Tensor, label: Tensor) -> Tensor:
        # predictions: (N, R, classes, ...), label: (N, R); returns (N, R, ...).
        flat = predictions.flatten(0, 1)
        return take(flat, label.flatten()[:, None]).view(*label.shape, *predictions.shape[3:])


class MaskRCNN(nn.Module):
    """Mask R-CNN in training."""

    def __init__(self, d: Dimensions) -> None:
        super().__init__()
        self.dimensions = d
        self.backbone = Backbone(d)
        self.fpn = FeaturePyramid(d)
        self.rpn = RPNHead(d)
        self.rpn_targets = RPNTargets(d)
        self.proposals = RegionProposals(d)
        self.box_targets = BoxTargets(d)
        self.table = PyramidTable()
        self.box_head = BoxHead(d)
        self.mask_targets = MaskTargets(d)
        self.mask_head = MaskHead(d)
        self.of_class = OfClass()

    def forward(self, image: Tensor, box: Tensor, label: Tensor, mask: Tensor) -> dict[str, Term]:
        """Return prediction and target of each term of the loss.

        ``image`` is (N, 3, H, W), ``box`` (N, G, 4), ``label`` (N, G) with 0 for no object, and
        ``mask`` (N, G, H, W).
        """
        self._fit(image)
        pyramid = self.fpn(self.backbone(image))
        scores, deltas = self.rpn(pyramid)
        objectness, anchor_box = self.rpn_targets(scores, deltas, box, label)
        proposals = self.proposals(scores, deltas)
        rois = self.box_targets(*proposals, box, label)
        rows = self.table(pyramid[:-1])
        class_score, delta = self.box_head(rows, rois.boxes)
        # Regions with objects come first; only they train the mask head.
        with_object = slice(0, self.dimensions.positive_rois)
        mask_score = self.mask_head(rows, rois.boxes[:, with_object])
        mask_label = rois.label[:, with_object]
        return {
            "objectness": objectness,
            "anchor_box": anchor_box,
            "class": Term(class_score, rois.label, rois.used),
            "box": Term(self.of_class(delta, rois.label), rois.delta, rois.positive),
            "mask": Term(
                self.of_class(mask_score, mask_label),
                self.mask_targets(mask, rois.boxes[:, with_object], rois.matched[:, with_object]),
                rois.positive[:, with_object],
            ),
        }

    def _fit(self, image: Tensor) -> None:
        # Anchors and levels depend on the size of the padded images.
        height, width = image.shape[-2:]
        if (height, width) == (self.dimensions.height, self.dimensions.width):
            return
        self.dimensions = replace(self.dimensions, height=height, width=width)
        with image.device:
            for module in self.modules():
                if isinstance(module, (RPNTargets, RegionProposals, RoIAlign)):
                    module.fit(self.dimensions)


def _mean(losses: Tensor, used: Tensor) -> Tensor:
    # Mean of losses (N, R, ...) over the entries (N, R) that are used.
    total = (losses.flatten(2).mean(2) if losses.dim() > 2 else losses) * used
    return total.sum() / used.sum().clamp(min=1)


def detection_loss(terms: dict[str, Term], _batch: Batch) -> Tensor:
    """Return the sum of the five losses of Mask R-CNN, computed in float32."""
    objectness, anchor, kind, box, mask = (
        Term(terms[name].prediction.float(), terms[name].target, terms[name].used)
        for name in ("objectness", "anchor_box", "class", "box", "mask")
    )
    functional = nn.functional
    binary = functional.binary_cross_entropy_with_logits
    class_loss = functional.cross_entropy(
        kind.prediction.flatten(0, 1), kind.target.flatten(), reduction="none"
    ).view_as(kind.target)
    anchor_loss = functional.smooth_l1_loss(
        anchor.prediction, anchor.target, reduction="none", beta=1 / 9
    )
    box_loss = functional.smooth_l1_loss(box.prediction, box.target, reduction="none")
    # As in Fast R-CNN, box losses are divided by the number of all regions, not of positive ones.
    return (
        _mean(binary(objectness.prediction, objectness.target, reduction="none"), objectness.used)
        + (anchor_loss.sum(-1) * anchor.used).sum() / objectness.used.sum().clamp(min=1)
        + _mean(class_loss, kind.used)
        + (box_loss.sum(-1) * box.used).sum() / kind.used.sum().clamp(min=1)
        + _mean(binary(mask.prediction, mask.target, reduction="none"), mask.used)
    )


def workload(d: Dimensions) -> Workload:
    """Return the workload with these dimensions."""
    return Workload(
        model=MaskRCNN(d),
        batch=lambda size, rng: as_tensors(
            scene_batch(size, (d.height, d.width), d.classes - 1, d.objects, rng, masks=True)
        ),
        forward=lambda model, batch: model(
            batch["image"], batch["box"], batch["label"], batch["mask"]
        ),
        loss=detection_loss,
        optimizer=lambda parameters: torch.optim.SGD(
            (p for p in parameters if p.requires_grad),
            lr=d.learning_rate,
            momentum=0.9,
            weight_decay=1e-4,
        ),
        sized=lambda planned, rng: as_tensors(
            scenes(planned, d.classes - 1, d.objects, rng, masks=True)
        ),
    )
