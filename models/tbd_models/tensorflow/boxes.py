"""Boxes: anchors, coding, overlap, assignment of targets, non-maximum suppression, sampling.

The same as in ``tbd_models.pytorch.boxes``. A box is (left, top, right, bottom) in pixels, along
the last axis. Every result has a shape that depends on the shapes of the arguments alone, as graphs
and XLA want it; what is missing is marked instead of left out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

# Widest growth of a box that may be predicted, as in Detectron: exp() must not overflow.
_LARGEST_LOG_SCALE = math.log(1000 / 16)


def grid_anchors(
    rows: int, columns: int, stride: int, sizes: Sequence[float], ratios: Sequence[float]
) -> NDArray[np.float32]:
    """Return the anchors (rows x columns x sizes x ratios, 4) of a feature map.

    Args:
        rows: height of the feature map.
        columns: width of the feature map.
        stride: pixels from one cell of the map to the next; anchors are centred on the cells.
        sizes: square roots of the areas of the anchors.
        ratios: heights divided by widths.
    """
    half = np.array(
        [
            (size / math.sqrt(ratio) / 2, size * math.sqrt(ratio) / 2)
            for size in sizes
            for ratio in ratios
        ],
        np.float32,
    )
    y = (np.arange(rows, dtype=np.float32) + np.float32(0.5)) * stride
    x = (np.arange(columns, dtype=np.float32) + np.float32(0.5)) * stride
    y, x = np.meshgrid(y, x, indexing="ij")
    centre = np.stack([x, y], -1)[:, :, None]
    return np.concatenate([centre - half, centre + half], -1).reshape(-1, 4).astype(np.float32)


def centre_and_size(boxes: Any) -> tuple[Any, Any]:
    """Return the centres (..., 2) and the widths and heights (..., 2)."""
    start, end = boxes[..., :2], boxes[..., 2:]
    return (start + end) / 2, end - start


def encode(boxes: Any, anchors: Any, weights: tuple[float, float] = (1, 1)) -> Any:
    """Return what has to be predicted at the anchors to get the boxes, (..., 4).

    Args:
        boxes: boxes aimed at.
        anchors: where they are predicted.
        weights: factors of the shift of the centre and of the logarithm of the growth.
    """
    centre, size = centre_and_size(boxes)
    anchor_centre, anchor_size = centre_and_size(anchors)
    anchor_size = tf.maximum(anchor_size, 1e-3)
    shift = (centre - anchor_centre) / anchor_size
    growth = tf.math.log(tf.maximum(size, 1e-3) / anchor_size)
    return tf.concat([shift * weights[0], growth * weights[1]], -1)


def decode(deltas: Any, anchors: Any, weights: tuple[float, float] = (1, 1)) -> Any:
    """Return the boxes that were predicted at the anchors: the inverse of ``encode``."""
    anchor_centre, anchor_size = centre_and_size(anchors)
    centre = anchor_centre + deltas[..., :2] / weights[0] * anchor_size
    growth = tf.minimum(deltas[..., 2:] / weights[1], _LARGEST_LOG_SCALE)
    half = anchor_size * tf.exp(growth) / 2
    return tf.concat([centre - half, centre + half], -1)


def clip(boxes: Any, height: int, width: int) -> Any:
    """Return the parts of the boxes that are inside the image."""
    limit = tf.constant([width, height, width, height], boxes.dtype)
    return tf.clip_by_value(boxes, 0, limit)


def area(boxes: Any) -> Any:
    """Return the area of every box in square pixels."""
    return (boxes[..., 2] - boxes[..., 0]) * (boxes[..., 3] - boxes[..., 1])


def iou(first: Any, second: Any) -> Any:
    """Return intersection over union of all pairs, (..., A, B), of (..., A, 4) and (..., B, 4)."""
    a, b = first[..., :, None, :], second[..., None, :, :]
    wide, high = (
        tf.minimum(a[..., end], b[..., end]) - tf.maximum(a[..., start], b[..., start])
        for start, end in ((0, 2), (1, 3))
    )
    common = tf.nn.relu(wide) * tf.nn.relu(high)
    union = area(a) + area(b) - common
    return common / tf.maximum(union, 1e-9)


def assign(
    overlap: Any, present: Any, positive: float, negative: float, force: bool
) -> tuple[Any, Any]:
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
    overlap = tf.where(present[:, None], overlap, -1.0)
    best, matched = tf.reduce_max(overlap, -1), tf.argmax(overlap, -1)
    kind = tf.where(best >= positive, 1, tf.where(best < negative, 0, -1))
    if force:
        is_best = (overlap == tf.reduce_max(overlap, 1, keepdims=True)) & (overlap > 0)
        kind = tf.where(tf.reduce_any(is_best, -1), 1, kind)
    return matched, kind


def sample(kind: Any, draw: Any, count: int, positives: int) -> tuple[Any, Any, Any]:
    """Draw anchors at random: positives up to a limit, and background for the rest.

    Args:
        kind: 1, 0 or -1 for each anchor (N, A), as ``assign`` returns it.
        draw: random numbers (N, A) from 0 to 1.
        count: how many to draw.
        positives: most positives among them.

    Returns:
        The anchors drawn (N, count), whether they are positive (only the first ``positives`` are),
        and whether they are to be used: where there is too little background they are not.
    """
    highest = tf.math.top_k(tf.where(kind == 1, draw, -1.0), min(positives, kind.shape[1]))
    chosen = (kind == 1) & (draw >= highest.values[:, -1:])
    # Positives drawn come first, then background, then all the rest.
    priority = tf.where(chosen, 2 + draw, tf.where(kind == 0, draw, -1.0))
    drawn = tf.math.top_k(priority, count)
    return drawn.indices, drawn.values >= 2, drawn.values >= 0


def keep_mask(boxes: Any, valid: Any, threshold: float) -> Any:
    """Tell which boxes greedy non-maximum suppression keeps.

    A box is kept if no kept box before it overlaps it by more than the threshold. Starting from all
    boxes this is repeated until nothing changes: after n rounds the first n boxes at the least are
    right, and a few rounds are enough unless suppressors hang together in long chains.

    Args:
        boxes: boxes (..., K, 4), best score first; each leading index is a problem of its own.
        valid: which boxes (..., K) there are.
        threshold: intersection over union above which a box is suppressed.
    """
    number = tf.range(boxes.shape[-2])
    overlapped = (iou(boxes, boxes) > threshold) & (number[:, None] < number)

    def suppress(kept: Any) -> Any:
        return valid & ~tf.reduce_any(overlapped & kept[..., :, None], -2)

    kept, _ = tf.while_loop(
        lambda before, now: tf.reduce_any(before != now),
        lambda _before, now: (now, suppress(now)),
        (valid, suppress(valid)),
    )
    return kept


def take(values: Any, index: Any) -> Any:
    """Return the rows (N, K, ...) of values (N, A, ...) at an index (N, K)."""
    return tf.gather(values, index, batch_dims=1)
