"""What Mask R-CNN does with the regions that its heads look at, in TensorFlow."""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf
from keras import layers

from tbd_models.maskrcnn import Dimensions
from tbd_models.tensorflow import boxes as box_math
from tbd_models.tensorflow.roi import Maps, bilinear, grid, roi_align

# Deltas of boxes are scaled to about unit variance, as in Fast R-CNN.
DELTA_WEIGHTS = (10.0, 5.0)


class PyramidTable(layers.Layer):
    """Lays the maps of a pyramid out as one table, for boxes of all levels at once."""

    def call(self, maps: list[Any]) -> Any:
        """Return cells (cells, C): of the finest map (N, H, W, C) image by image, then the next."""
        return tf.concat([tf.reshape(level, [-1, level.shape[-1]]) for level in maps], 0)


class RoIAlign(layers.Layer):
    """Features of boxes, each from the level of the pyramid that suits its size."""

    def __init__(self, d: Dimensions, bins: int, name: str) -> None:
        super().__init__(autocast=False, name=name)  # positions need float32
        self.bins, self.samples, self.canonical_size = bins, d.samples, d.canonical_size
        sizes = d.maps[:-1]
        self.heights, self.widths = np.array(sizes, np.int64).T
        cells = self.heights * self.widths
        self.before = np.cumsum(cells) - cells  # cells of an image on finer levels
        self.scales = 1 / np.array(d.strides[:-1], np.float32)

    def call(self, rows: Any, boxes: Any) -> Any:
        """Return features (N x R, bins, bins, C) of boxes (N, R, 4) in pixels of the image."""
        images = tf.shape(boxes, tf.int64)[0]
        level = self._level(boxes)
        height, width = tf.gather(self.heights, level), tf.gather(self.widths, level)
        start = tf.gather(self.before, level) * images
        start += tf.range(images)[:, None] * height * width
        maps = Maps(rows, *(tf.reshape(value, [-1]) for value in (start, height, width)))
        scaled = boxes * tf.gather(self.scales, level)[..., None]
        return roi_align(maps, tf.reshape(scaled, [-1, 4]), self.bins, self.samples)

    def _level(self, boxes: Any) -> Any:
        """Return 0 for boxes that belong to P2, to 3 for those that belong to P5."""
        size = tf.sqrt(tf.maximum(box_math.area(boxes), 1e-6))
        level = 2 + tf.floor(tf.math.log(size / self.canonical_size + 1e-6) / np.log(2.0))
        return tf.cast(tf.clip_by_value(level, 0, len(self.scales) - 1), tf.int64)


class Regions(NamedTuple):
    """The regions that the heads are trained on.

    Attributes:
        boxes: where they are (N, R, 4).
        label: class (N, R), 0 for the background.
        delta: what the box head should predict (N, R, 4).
        matched: object (N, R) that each belongs to.
        positive: which (N, R) hold an object: only the first ``positive_rois`` do.
        used: which (N, R) are trained on.
    """

    boxes: Any
    label: Any
    delta: Any
    matched: Any
    positive: Any
    used: Any


class BoxTargets(layers.Layer):
    """Draws the regions that the heads are trained on, with their targets."""

    def __init__(self, d: Dimensions, name: str) -> None:
        super().__init__(dtype="float32", name=name)
        self.rois, self.positive_rois = d.rois, d.positive_rois
        self.seed = keras.random.SeedGenerator()

    def call(self, proposals: Any, valid: Any, box: Any, label: Any) -> Regions:
        """Return the regions, drawn from the proposals and the objects themselves.

        Args:
            proposals: proposed boxes (N, P, 4).
            valid: which of them there are.
            box: boxes (N, G, 4) of the objects.
            label: their classes (N, G), 0 where there is no object.
        """
        present = label > 0
        candidates = tf.concat([proposals, box], 1)
        valid = tf.concat([valid, present], 1)
        overlap = box_math.iou(candidates, box)
        matched, kind = box_math.assign(overlap, present, 0.5, 0.5, force=False)
        kind = tf.where(valid, kind, -1)
        draw = keras.random.uniform(tf.shape(kind), seed=self.seed)
        index, positive, used = box_math.sample(kind, draw, self.rois, self.positive_rois)
        boxes = box_math.take(candidates, index)
        matched = box_math.take(matched, index)
        return Regions(
            boxes=boxes,
            label=tf.where(positive, box_math.take(label, matched), 0),
            delta=box_math.encode(box_math.take(box, matched), boxes, DELTA_WEIGHTS),
            matched=matched,
            positive=positive,
            used=used,
        )


class MaskTargets(layers.Layer):
    """Cuts the masks of objects out at the regions that hold them."""

    def __init__(self, d: Dimensions, name: str) -> None:
        super().__init__(dtype="float32", name=name)
        self.bins = 2 * d.mask_bins

    def call(self, mask: Any, boxes: Any, matched: Any) -> Any:
        """Return masks of 0 and 1 (N, R, bins, bins).

        Args:
            mask: masks (N, G, H, W) of the objects.
            boxes: regions (N, R, 4).
            matched: object (N, R) that each belongs to.
        """
        objects, height, width = mask.shape[1:]
        image = tf.range(tf.shape(mask, tf.int64)[0])[:, None]
        start = tf.reshape((image * objects + matched) * (height * width), [-1])
        size = [tf.fill(tf.shape(start), np.int64(pixels)) for pixels in (height, width)]
        # The value of a pixel is that of its centre.
        y, x = grid(tf.reshape(boxes, [-1, 4]) - 0.5, self.bins)
        values = bilinear(Maps(tf.reshape(mask, [-1, 1]), start, *size), y, x)
        inside = tf.cast(values >= 0.5, tf.float32)
        return tf.reshape(inside, [-1, matched.shape[1], self.bins, self.bins])


class OfClass(layers.Layer):
    """Picks what was predicted for a class out of what was predicted for all."""

    def __init__(self, axis: int, name: str) -> None:
        """Make a layer for predictions with the classes along an axis."""
        super().__init__(name=name)
        self.axis = axis

    def call(self, predictions: Any, label: Any) -> Any:
        """Return predictions (N, R, ...) of predictions (N x R, ...) and labels (N, R)."""
        found = tf.gather(predictions, tf.reshape(label, [-1]), axis=self.axis, batch_dims=1)
        return tf.reshape(found, [-1, label.shape[1], *found.shape[1:]])
