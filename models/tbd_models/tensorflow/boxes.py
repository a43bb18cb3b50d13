"""Boxes in TensorFlow, with the functions of ``tbd_models.pytorch.boxes``.

A box is (left, top, right, bottom) in pixels along the last axis. Result shapes depend only on
argument shapes, as graphs and XLA require; masks mark missing entries.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

# Limit of predicted growth as in Detectron, so that exp() cannot overflow.
_LARGEST_LOG_SCALE = math.log(1000 / 16)


def grid_anchors(
    rows: int, columns: int, stride: int, sizes: Sequence[float], ratios: Sequence[float]
) -> NDArray[np.float32]:
    """Return the anchors (rows x columns x sizes x ratios, 4), centred on a feature map's cells.

    ``stride`` is pixels per cell, ``sizes`` are square roots of areas, ``ratios`` height / width.
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
    """Return the regression targets (..., 4) of boxes at anchors (Girshick et al. 2014).

    ``weights`` multiply the shift of the centre and the logarithm of the growth.
    """
    centre, size = centre_and_size(boxes)
    anchor_centre, anchor_size = centre_and_size(anchors)
    anchor_size = tf.maximum(anchor_size, 1e-3)
    shift = (centre - anchor_centre) / anchor_size
    growth = tf.math.log(tf.maximum(size, 1e-3) / anchor_size)
    return tf.concat([shift * weights[0], growth * weights[1]], -1)


def decode(deltas: Any, anchors: Any, weights: tuple[float, float] = (1, 1)) -> Any:
    """Return the boxes predicted at the anchors: the inverse of ``encode``."""
    anchor_centre, anchor_size = centre_and_size(anchors)
    centre = anchor_centre + deltas[..., :2] / weights[0] * anchor_size
    growth = tf.minimum(deltas[..., 2:] / weights[1], _LARGEST_LOG_SCALE)
    half = anchor_size * tf.exp(growth) / 2
    return tf.concat([centre - half, centre + half], -1)


def clip(boxes: Any, height: Any, width: Any) -> Any:
    """Return the boxes clipped to the image."""
    limit = tf.cast(tf.stack([width, height, width, height]), boxes.dtype)
    return tf.clip_by_value(boxes, 0, limit)


def area(boxes: Any) -> Any:
    """Return the area of each box in square pixels."""
    return (boxes[..., 2] - boxes[..., 0]) * (boxes[..., 3] - boxes[..., 1])


def iou(first: Any, second: Any) -> Any:
    """Return intersection over union (..., A, B) of boxes (..., A, 4) and (..., B, 4)."""
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
    """Assign to each anchor the object with the largest overlap.

    Arguments and results are those of :func:`tbd_models.pytorch.boxes.assign`.
    """
    overlap = tf.where(present[:, None], overlap, -1.0)
    best, matched = tf.reduce_max(overlap, -1), tf.argmax(overlap, -1)
    kind = tf.where(best >= positive, 1, tf.where(best < negative, 0, -1))
    if force:
        is_best = (overlap == tf.reduce_max(overlap, 1, keepdims=True)) & (overlap > 0)
        kind = tf.where(tf.reduce_any(is_best, -1), 1, kind)
    return matched, kind


def sample(kind: Any, draw: Any, count: int, positives: int) -> tuple[Any, Any, Any]:
    """Sample ``count`` anchors of the kinds that ``assign`` returns, at most ``positives`` of 1.

    ``draw`` are random numbers (N, A) from 0 to 1; results are those of
    :func:`tbd_models.pytorch.boxes.sample`.
    """
    highest = tf.math.top_k(tf.where(kind == 1, draw, -1.0), at_most(positives, kind))
    chosen = (kind == 1) & (draw >= highest.values[:, -1:])
    # Sort the chosen positives before background, and both before the rest.
    priority = tf.where(chosen, 2 + draw, tf.where(kind == 0, draw, -1.0))
    drawn = tf.math.top_k(priority, count)
    return drawn.indices, drawn.values >= 2, drawn.values >= 0


def keep_mask(boxes: Any, valid: Any, threshold: float) -> Any:
    """Return which boxes (..., K, 4), best score first, non-maximum suppression keeps.

    ``valid`` (..., K) masks the boxes; one is suppressed if its intersection over union with a
    better kept box exceeds ``threshold``.
    """
    # A kept box has no kept better box above the threshold. Iterating this from all boxes fixes
    # at least box n in round n; a few rounds suffice unless suppressors form long chains.
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


def at_most(count: int, values: Any) -> Any:
    """Return a count, or the rows A of values (N, A, ...) if they are fewer."""
    if values.shape[1] is None:
        return tf.minimum(count, tf.shape(values)[1])
    return min(count, values.shape[1])


def take(values: Any, index: Any) -> Any:
    """Return rows (N, K, ...) of values (N, A, ...) at an index (N, K)."""
    return tf.gather(values, index, batch_dims=1)
