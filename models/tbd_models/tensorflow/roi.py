"""RoIAlign: features of boxes, by bilinear interpolation. The same as in PyTorch."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf


class Maps(NamedTuple):
    """Maps of several sizes, one looked at for each of R boxes.

    Whole numbers are int64: TensorFlow takes int32 for shapes and computes it on the host.

    Attributes:
        rows: pixels (P, C) of all maps one after the other, each row by row.
        start: first pixel (R) of the map looked at.
        height: rows (R) of that map.
        width: columns (R) of that map.
    """

    rows: Any
    start: Any
    height: Any
    width: Any


def bilinear(maps: Maps, y: Any, x: Any) -> Any:
    """Return the values of maps at fractional positions.

    Args:
        maps: which maps.
        y: rows (R, points, points); outside the map its nearest pixel counts.
        x: columns (R, points, points).

    Returns:
        Values (R, points, points, C) in the type of the pixels, in float32 for whole numbers.
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
            found = tf.gather(maps.rows, start + row * width + column)
            terms.append(tf.cast(found, dtype) * tf.cast(weight[..., None], dtype))
    return tf.add_n(terms)


def grid(boxes: Any, points: int) -> tuple[Any, Any]:
    """Return rows (R, points, 1) and columns (R, 1, points) of evenly spread points.

    Args:
        boxes: boxes (R, 4) in pixels of the map; smaller ones are taken as one pixel large.
        points: points in each direction.
    """
    fraction = (np.arange(points, dtype=np.float32) + np.float32(0.5)) / np.float32(points)
    size = tf.maximum(boxes[:, 2:] - boxes[:, :2], 1)
    x = boxes[:, 0, None] + fraction * size[:, 0, None]
    y = boxes[:, 1, None] + fraction * size[:, 1, None]
    return y[:, :, None], x[:, None, :]


def roi_align(maps: Maps, boxes: Any, bins: int, samples: int) -> Any:
    """Return the features (R, bins, bins, C) of boxes, as Mask R-CNN defines them.

    Args:
        maps: which maps the boxes are taken from.
        boxes: boxes (R, 4) in pixels of their maps.
        bins: bins in each direction.
        samples: points in each direction of a bin, over which the features are averaged.
    """
    y, x = grid(boxes, bins * samples)
    # Every bin's first point, then every bin's second: all at once would take far more memory.
    parts = [
        bilinear(maps, y[:, down::samples], x[:, :, across::samples])
        for down in range(samples)
        for across in range(samples)
    ]
    return tf.add_n(parts) / samples**2
