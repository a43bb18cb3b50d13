"""Boxes: anchors, encoding, overlap, assignment, non-maximum suppression, sampling.

A box is (left, top, right, bottom) in pixels along the last axis. Result shapes depend only on
argument shapes: nothing waits for the GPU, and meta tensors work. Masks mark missing entries.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

# Limit of predicted growth as in Detectron, so that exp() cannot overflow.
_LARGEST_LOG_SCALE = math.log(1000 / 16)


def grid_anchors(
    rows: int, columns: int, stride: int, sizes: Sequence[float], ratios: Sequence[float]
) -> Tensor:
    """Return the anchors (rows x columns x sizes x ratios, 4), centred on a feature map's cells.

    ``stride`` is pixels per cell, ``sizes`` are square roots of areas, ``ratios`` height / width.
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
    """Return the regression targets (..., 4) of boxes at anchors (Girshick et al. 2014).

    ``weights`` multiply the shift of the centre and the logarithm of the growth.
    """
    centre, size = centre_and_size(boxes)
    anchor_centre, anchor_size = centre_and_size(anchors)
    anchor_size = anchor_size.clamp(min=1e-3)
    shift = (centre - anchor_centre) / anchor_size
    growth = torch.log(size.clamp(min=1e-3) / anchor_size)
    return torch.cat([shift * weights[0], growth * weights[1]], -1)


def decode(deltas: Tensor, anchors: Tensor, weights: tuple[float, float] = (1, 1)) -> Tensor:
    """Return the boxes predicted at the anchors: the inverse of ``encode``."""
    anchor_centre, anchor_size = centre_and_size(anchors)
    centre = anchor_centre + deltas[..., :2] / weights[0] * anchor_size
    growth = (deltas[..., 2:] / weights[1]).clamp(max=_LARGEST_LOG_SCALE)
    half = anchor_size * torch.exp(growth) / 2
    return torch.cat([centre - half, centre + half], -1)


def clip(boxes: Tensor, height: int, width: int) -> Tensor:
    """Return the boxes clipped to the image."""
    x, y = boxes[..., 0::2].clamp(0, width), boxes[..., 1::2].clamp(0, height)
    return torch.stack([x, y], -1).flatten(-2)


def area(boxes: Tensor) -> Tensor:
    """Return the area of each box in square pixels."""
    return (boxes[..., 2:] - boxes[..., :2]).prod(-1)


def iou(first: Tensor, second: Tensor) -> Tensor:
    """Return intersection over union (..., A, B) of boxes (..., A, 4) and (..., B, 4)."""
    a, b = first[..., :, None, :], second[..., None, :, :]
    # One axis at a time: for thousands of proposals these arrays are large.
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
    """Assign to each anchor the object with the largest overlap.

    Args:
        overlap: intersection over union (N, A, G) of anchors and objects.
        present: valid objects (N, G).
        positive: minimum overlap of a positive anchor.
        negative: overlap below which an anchor is background.
        force: also count each object's best anchors as positive.

    Returns:
        Objects (N, A), and kinds (N, A): 1 positive, 0 background, -1 neither.
    """
    overlap = torch.where(present[:, None], overlap, -1.0)
    best, matched = overlap.max(-1)
    kind = torch.where(best >= positive, 1, torch.where(best < negative, 0, -1))
    if force:
        is_best = (overlap == overlap.amax(1, keepdim=True)) & (overlap > 0)
        kind = torch.where(is_best.any(-1), 1, kind)
    return matched, kind


def sample(kind: Tensor, count: int, positives: int) -> tuple[Tensor, Tensor, Tensor]:
    """Sample ``count`` anchors of the kinds that ``assign`` returns, at most ``positives`` of 1.

    Returns:
        Anchors (N, count), whether each is positive (only the first ``positives`` can be), and
        whether to use it: not all are if there is too little background.
    """
    draw = torch.rand(kind.shape, device=kind.device)
    highest = torch.where(kind == 1, draw, -1.0).topk(min(positives, kind.shape[1]))
    chosen = torch.zeros_like(kind, dtype=torch.bool)
    chosen = chosen.scatter(1, highest.indices, highest.values >= 0)
    # Sort the chosen positives before background, and both before the rest.
    priority = torch.where(chosen, 2 + draw, torch.where(kind == 0, draw, -1.0))
    drawn = priority.topk(count)
    return drawn.indices, drawn.values >= 2, drawn.values >= 0


def keep_mask(boxes: Tensor, valid: Tensor, threshold: float) -> Tensor:
    """Return which boxes (..., K, 4), best score first, non-maximum suppression keeps.

    ``valid`` (..., K) masks the boxes; one is suppressed if its intersection over union with a
    better kept box exceeds ``threshold``.
    """
    # A kept box has no kept better box above the threshold. Iterating this from all boxes fixes
    # at least box n in round n; a few rounds suffice unless suppressors form long chains. Each
    # round waits once for the GPU, to see whether it was the last.
    number = torch.arange(boxes.shape[-2], device=boxes.device)
    overlapped = (iou(boxes, boxes) > threshold) & (number[:, None] < number)
    kept = valid
    while True:
        now = valid & ~(overlapped & kept[..., :, None]).any(-2)
        if now.is_meta or torch.equal(now, kept):
            return now
        kept = now


def take(values: Tensor, index: Tensor) -> Tensor:
    """Return rows (N, K, ...) of values (N, A, ...) at an index (N, K)."""
    shape = index.shape + (1,) * (values.dim() - 2)
    return values.gather(1, index.view(shape).expand(-1, -1, *values.shape[2:]))
