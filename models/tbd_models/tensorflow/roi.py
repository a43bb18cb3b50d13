"""RoIAlign in TensorFlow: pool features of boxes by bilinear interpolation."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf


class Maps(NamedTuple):
    """Maps of different sizes; box r of R reads from one of them."""

    # Integers are int64: TensorFlow keeps int32 on the host, for shapes.
    rows: Any  # pixels (P, C) of all maps, map by map and row by row
    start: Any  # first pixel (R) of the map of each box
    height: Any  # (R), of that map
    width: Any  # (R), of that map


def bilinear(maps: Maps, y: Any, x: Any) -> Any:
    """Return map values (R, points, points, C) at fractional rows ``y`` and columns ``x``.

    Positions outside a map read its nearest pixel. Integer pixels give float32.
    """
    dtype = maps.rows.dtype if maps.rows.dtype.is_floating else tf.float32
    start, height, width = (value[:, None, None] for value in maps[1:])
    last_row, last_column = tf.cast(height - 1, y.dtype), tf.cast(width - 1, x.dtype)
    y = tf.minimum(tf.nn.relu(y), last_row)
    x = tf.minimum(tf.nn.relu(x), last_column)
    top, left = tf.floor(y), tf.floor(x)
    terms = []
    for below in (0, 1):
        for right in (0, 1):
            row = tf.cast(tf.minimum(top + below, last_row), tf.int64)
            column = tf.cast(tf.minimum(left + right, last_column), tf.int64)
            weight = (1 - tf.abs(y - top - below)) * (1 - tf.abs(x - left - right))
            pixels = tf.gather(maps.rows, start + row * width + column)
            terms.append(tf.cast(pixels, dtype) * tf.cast(weight[..., None], dtype))
    return tf.add_n(terms)


def grid(boxes: Any, points: int) -> tuple[Any, Any]:
    """Return rows (R, points, 1) and columns (R, 1, points) of evenly spaced points in boxes."""
    fraction = (np.arange(points, dtype=np.float32) + np.float32(0.5)) / np.float32(points)
    size = tf.maximum(boxes[:, 2:] - boxes[:, :2], 1)  # a minimum of one pixel, as published
    x = boxes[:, 0, None] + fraction * size[:, 0, None]
    y = boxes[:, 1, None] + fraction * size[:, 1, None]
    return y[:, :, None], x[:, None, :]


def roi_align(maps: Maps, boxes: Any, bins: int, samples: int) -> Any:
    """Return features (R, bins, bins, C) of boxes (R, 4) in pixels of their maps.

    Each bin is the mean of ``samples`` x ``samples`` points (He et al. 2017).
    """
    y, x = grid(boxes, bins * samples)
    # Point by point of all bins: reading all points at once would take samples² times the memory.
    parts = [
        bilinear(maps, y[:, down::samples], x[:, :, across::samples])
        for down in range(samples)
        for across in range(samples)
    ]
    return tf.add_n(parts) / samples**2
