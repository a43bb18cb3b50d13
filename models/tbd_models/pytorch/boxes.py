"""Boxes: anchors, coding, overlap, assignment of targets, non-maximum suppression, sampling.

A box is (left, top, right, bottom) in pixels, along the last axis. Every result has a shape that
depends on the shapes of the arguments alone, so that nothing waits for a GPU and tensors without
data will do; what is missing is marked instead of left out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

# Widest growth of a box that may be predicted, as in Detectron: exp() must not overflow.
_LARGEST_LOG_SCALE = math.log(1000 / 16)


def grid_anchors(
    rows: int, columns: int, stride: int, sizes: Sequence[float], ratios: Sequence[float]
) -> Tensor:
    """Return the anchors (rows x columns x sizes x ratios, 4) of a feature map.

    Args:
        rows: height of the feature map.
        columns: width of the feature map.
        stride: pixels from one cell of the map to the next; anchors are centred on the cells.
        sizes: square roots of the areas of the anchors.
        ratios: heights divided by widths.
    """
    half = torch.tensor(
        [
            (size / math.sqrt(ratio) / 2, size * math.sqrt(ratio) / 2)
            for size in sizes
            for ratio in ratios
        ]
    )
    y = (torch.arange(rows) + 0.5) * stride
    x = (torch.arange(columns) + 0.5) * stride
    y, x = torch.meshgrid(y, x, indexing="ij")
    centre = torch.stack([x, y], -1)[:, :, None]
    return torch.cat([centre - half, centre + half], -1).flatten(0, 2)


def centre_and_size(boxes: Tensor) -> tuple[Tensor, Tensor]:
    """Return the centres (..., 2) and the widths and heights (..., 2)."""
    start, end = boxes[..., :2], boxes[..., 2:]
    return (start + end) / 2, end - start


def encode(boxes: Tensor, anchors: Tensor, weights: tuple[float, float] = (1, 1)) -> Tensor:
    """Return what has to be predicted at the anchors to get the boxes, (..., 4).

    Args:
        boxes: boxes aimed at.
        anchors: where they are predicted.
        weights: factors of the shift of the centre and of the logarithm of the growth.
    """
    centre, size = centre_and_size(boxes)
    anchor_centre, anchor_size = centre_and_size(anchors)
    anchor_size = anchor_size.clamp(min=1e-3)
    shift = (centre - anchor_centre) / anchor_size
    growth = torch.log(size.clamp(min=1e-3) / anchor_size)
    return torch.cat([shift * weights[0], growth * weights[1]], -1)


def decode(deltas: Tensor, anchors: Tensor, weights: tuple[float, float] = (1, 1)) -> Tensor:
    """Return the boxes that were predicted at the anchors: the inverse of ``encode``."""
    anchor_centre, anchor_size = centre_and_size(anchors)
    centre = anchor_centre + deltas[..., :2] / weights[0] * anchor_size
    growth = (deltas[..., 2:] / weights[1]).clamp(max=_LARGEST_LOG_SCALE)
    half = anchor_size * torch.exp(growth) / 2
    return torch.cat([centre - half, centre + half], -1)


def clip(boxes: Tensor, height: int, width: int) -> Tensor:
    """Return the parts of the boxes that are inside the image."""
    x, y = boxes[..., 0::2].clamp(0, width), boxes[..., 1::2].clamp(0, height)
    return torch.stack([x, y], -1).flatten(-2)


def area(boxes: Tensor) -> Tensor:
    """Return the area of every box in square pixels."""
    return (boxes[..., 2:] - boxes[..., :2]).prod(-1)


def iou(first: Tensor, second: Tensor) -> Tensor:
    """Return intersection over union of all pairs, (..., A, B), of (..., A, 4) and (..., B, 4)."""
    a, b = first[..., :, None, :], second[..., None, :, :]
    # Side by side, not both at once: for thousands of proposals these are large.
    wide, high = (
        (torch.minimum(a[..., end], b[..., end]) - torch.maximum(a[..., start], b[..., start]))
        for start, end in ((0, 2), (1, 3))
    )
    common = wide.clamp_(min=0) * high.clamp_(min=0)
    union = area(a) + area(b) - common
    return common / union.clamp_(min=1e-9)


def assign(
    overlap: Tensor, present: Tensor, positive: float, negative: float, force: bool
) -> tuple[Tensor, Tensor]:
    """Assign to every anchor the object it overlaps most.

    Args:
        overlap: intersection over union (N, A, G) of anchors and objects.
        present: which objects (N, G) there are.
        positive: overlap from which an anchor counts as the object.
        negative: overlap below which it counts as background.
        force: whether the anchors that overlap an object most count as it whatever their overlap.

    Returns:
        The objects (N, A), and for each anchor 1 if it counts as the object, 0 as background and -1
        as neither.
    """
    overlap = torch.where(present[:, None], overlap, -1.0)
    best, matched = overlap.max(-1)
    kind = torch.where(best >= positive, 1, torch.where(best < negative, 0, -1))
    if force:
        is_best = (overlap == overlap.amax(1, keepdim=True)) & (overlap > 0)
        kind = torch.where(is_best.any(-1), 1, kind)
    return matched, kind


def sample(kind: Tensor, count: int, positives: int) -> tuple[Tensor, Tensor, Tensor]:
    """Draw anchors at random: positives up to a limit, and background for the rest.

    Args:
        kind: 1, 0 or -1 for each anchor (N, A), as ``assign`` returns it.
        count: how many to draw.
        positives: most positives among them.

    Returns:
        The anchors drawn (N, count), whether they are positive (only the first ``positives`` are),
        and whether they are to be used: where there is too little background they are not.
    """
    draw = torch.rand(kind.shape, device=kind.device)
    highest = torch.where(kind == 1, draw, -1.0).topk(min(positives, kind.shape[1]))
    chosen = torch.zeros_like(kind, dtype=torch.bool)
    chosen = chosen.scatter(1, highest.indices, highest.values >= 0)
    # Positives drawn come first, then background, then all the rest.
    priority = torch.where(chosen, 2 + draw, torch.where(kind == 0, draw, -1.0))
    drawn = priority.topk(count)
    return drawn.indices, drawn.values >= 2, drawn.values >= 0


def keep_mask(boxes: Tensor, valid: Tensor, threshold: float) -> Tensor:
    """Tell which boxes greedy non-maximum suppression keeps.

    A box is kept if no kept box before it overlaps it by more than the threshold. Starting from all
    boxes this is repeated until nothing changes: after n rounds the first n boxes at the least are
    right, and a few rounds are enough unless suppressors hang together in long chains. Each round
    asks the GPU once whether it was the last.

    Args:
        boxes: boxes (..., K, 4), best score first; each leading index is a problem of its own.
        valid: which boxes (..., K) there are.
        threshold: intersection over union above which a box is suppressed.
    """
    number = torch.arange(boxes.shape[-2], device=boxes.device)
    overlapped = (iou(boxes, boxes) > threshold) & (number[:, None] < number)
    kept = valid
    while True:
        now = valid & ~(overlapped & kept[..., :, None]).any(-2)
        if now.is_meta or torch.equal(now, kept):
            return now
        kept = now


def take(values: Tensor, index: Tensor) -> Tensor:
    """Return the rows (N, K, ...) of values (N, A, ...) at an index (N, K)."""
    shape = index.shape + (1,) * (values.dim() - 2)
    return values.gather(1, index.view(shape).expand(-1, -1, *values.shape[2:]))
