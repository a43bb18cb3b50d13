"""Select and pool the regions that Mask R-CNN's heads are trained on, in TensorFlow."""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf
from keras import layers

from tbd_models.maskrcnn import Dimensions
from tbd_models.maskrcnn.rpn_tensorflow import level_sizes, sides
from tbd_models.tensorflow import boxes as box_math
from tbd_models.tensorflow.roi import Maps, bilinear, grid, roi_align

# Scale deltas to about unit variance, as in Fast R-CNN.
DELTA_WEIGHTS = (10.0, 5.0)


class PyramidTable(layers.Layer):
    """Concatenate the maps of a pyramid, to pool boxes of all levels at once."""

    def call(self, maps: list[Any]) -> Any:
        # maps: (N, H, W, C), finest first; returns (cells, C).
        return tf.concat([tf.reshape(level, [-1, level.shape[-1]]) for level in maps], 0)


class RoIAlign(layers.Layer):
    """Pool features of boxes, each from the pyramid level for its size."""

    def __init__(self, d: Dimensions, bins: int, name: str) -> None:
        super().__init__(autocast=False, name=name)  # float16 is too coarse for positions
        self.bins, self.samples, self.canonical_size = bins, d.samples, d.canonical_size
        self.dimensions = d
        self.scales = 1 / np.array(d.strides[:-1], np.float32)

    def call(self, image: Any, rows: Any, boxes: Any) -> Any:
        # image: (N, H, W, 3), read for its size; boxes: (N, R, 4) in image pixels.
        # Returns (N x R, bins, bins, C).
        images = tf.shape(boxes, tf.int64)[0]
        level = self._level(boxes)
        sizes = tf.cast(tf.stack(level_sizes(self.dimensions, image)[:-1]), tf.int64)
        cells = tf.reduce_prod(sizes, 1)
        before = tf.cumsum(cells, exclusive=True)  # cells of an image on finer levels
        height, width = tf.unstack(tf.gather(sizes, level), axis=-1)
        start = tf.gather(before, level) * images
        start += tf.range(images)[:, None] * height * width
        maps = Maps(rows, *(tf.reshape(value, [-1]) for value in (start, height, width)))
        scaled = boxes * tf.gather(self.scales, level)[..., None]
        return roi_align(maps, tf.reshape(scaled, [-1, 4]), self.bins, self.samples)

    def _level(self, boxes: Any) -> Any:
        # Lin et al. 2017, equation 1: 0 is P2, 3 is P5.
        size = tf.sqrt(tf.maximum(box_math.area(boxes), 1e-6))
        level = 2 + tf.floor(tf.math.log(size / self.canonical_size + 1e-6) / np.log(2.0))
        return tf.cast(tf.clip_by_value(level, 0, len(self.scales) - 1), tf.int64)


class Regions(NamedTuple):
    """The R regions per image that the heads are trained on."""

    boxes: Any  # (N, R, 4)
    label: Any  # class (N, R), 0 for the background
    delta: Any  # target of the box head (N, R, 4)
    matched: Any  # object (N, R)
    positive: Any  # (N, R): holds an object; possible for the first positive_rois only
    used: Any  # (N, R): counts in the loss


class BoxTargets(layers.Layer):
    """Sample the regions that train the heads, and compute their targets."""

    def __init__(self, d: Dimensions, name: str) -> None:
        super().__init__(dtype="float32", name=name)
        self.rois, self.positive_rois = d.rois, d.positive_rois
        self.seed = keras.random.SeedGenerator()

    def call(self, proposals: Any, valid: Any, box: Any, label: Any) -> Regions:
        """Return regions sampled from proposals (N, P, 4) and from the objects themselves.

        ``valid`` (N, P) masks the proposals; ``box`` is (N, G, 4), ``label`` (N, G) with 0 for no
        object.
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
    """Crop the masks of objects to their regions."""

    def __init__(self, d: Dimensions, name: str) -> None:
        super().__init__(dtype="float32", name=name)
        self.bins = 2 * d.mask_bins

    def call(self, mask: Any, boxes: Any, matched: Any) -> Any:
        # mask: (N, G, H, W), boxes: (N, R, 4), matched: object (N, R) of each region.
        # Returns masks of 0 and 1 (N, R, bins, bins).
        objects = mask.shape[1]
        height, width = (tf.cast(side, tf.int64) for side in sides(mask, 2))
        image = tf.range(tf.shape(mask, tf.int64)[0])[:, None]
        start = tf.reshape((image * objects + matched) * (height * width), [-1])
        size = [tf.fill(tf.shape(start), pixels) for pixels in (height, width)]
        # Pixel values are at pixel centres.
        y, x = grid(tf.reshape(boxes, [-1, 4]) - 0.5, self.bins)
        values = bilinear(Maps(tf.reshape(mask, [-1, 1]), start, *size), y, x)
        inside = tf.cast(values >= 0.5, tf.float32)
        return tf.reshape(inside, [-1, matched.shape[1], self.bins, self.bins])


class OfClass(layers.Layer):
    """Select the prediction for one class."""

    def __init__(self, axis: int, name: str) -> None:
        """Make a layer for predictions that have the classes along ``axis``."""
        super().__init__(name=name)
        self.axis = axis

    def call(self, predictions: Any, label: Any) -> Any:
        # predictions: (N x R, ...), label: (N, R); returns (N, R, ...).
        selected = tf.gather(predictions, tf.reshape(label, [-1]), axis=self.axis, batch_dims=1)
        return tf.reshape(selected, [-1, label.shape[1], *selected.shape[1:]])
