"""Train Mask R-CNN's region proposal network and turn its output into proposals, in TensorFlow."""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf
from keras import layers

from tbd_models.maskrcnn import Dimensions
from tbd_models.tensorflow import boxes as box_math


class Term(NamedTuple):
    """A term of the loss."""

    prediction: Any  # (N, R, ...)
    target: Any
    used: Any  # (N, R): entries that count


def sides(images: Any, axis: int = 1) -> tuple[Any, Any]:
    """Return height and width, which begin at an axis: numbers if they are known in the graph."""
    known = images.shape[axis : axis + 2]
    return tuple(tf.unstack(tf.shape(images)[axis : axis + 2]) if None in known else known)


def level_sizes(d: Dimensions, image: Any) -> list[tuple[Any, Any]]:
    """Return height and width of P2 to P6 for images (N, H, W, 3)."""
    height, width = sides(image)
    return [(-(-height // stride), -(-width // stride)) for stride in d.strides]


class Anchors:
    """The anchors of images of any size, as parts of those of the largest one."""

    def __init__(self, d: Dimensions) -> None:
        self._d = d
        longest = max(d.height, d.width, -(-d.longest // 32) * 32)  # padded
        self._grids = []
        for stride, anchor in zip(d.strides, d.anchor_sizes, strict=True):
            side = -(-longest // stride)
            grid = box_math.grid_anchors(side, side, stride, [anchor], d.anchor_ratios)
            self._grids.append(grid.reshape(side, side, -1))

    def levels(self, image: Any) -> list[Any]:
        """Return the anchors (A, 4) of P2 to P6: arrays if the size of images is known."""
        anchors = []
        for grid, size in zip(self._grids, level_sizes(self._d, image), strict=True):
            rows, columns = size
            if tf.is_tensor(rows):
                anchors.append(tf.reshape(tf.constant(grid)[:rows, :columns], [-1, 4]))
            else:
                anchors.append(grid[:rows, :columns].reshape(-1, 4))
        return anchors


class RPNTargets(layers.Layer):
    """Sample the anchors that train the region proposal network, and compute their targets."""

    def __init__(self, d: Dimensions, name: str) -> None:
        super().__init__(dtype="float32", name=name)
        self.count = d.rpn_samples
        self.anchors = Anchors(d)
        self.seed = keras.random.SeedGenerator()

    def call(
        self, image: Any, scores: list[Any], deltas: list[Any], box: Any, label: Any
    ) -> tuple[Term, Term]:
        # image: (N, H, W, 3), read for its size; scores: (N, A) and deltas: (N, A, 4) per level;
        # box: (N, G, 4); label: (N, G), 0 is none. Returns the terms of objectness and of boxes.
        anchors = tf.concat(self.anchors.levels(image), 0)
        # As published, anchors that cross the image border do not train the network.
        inside = tf.reduce_all(box_math.clip(anchors, *sides(image)) == anchors, -1)
        overlap = tf.where(inside[:, None], box_math.iou(anchors, box), 0.0)
        matched, kind = box_math.assign(overlap, label > 0, 0.7, 0.3, force=True)
        kind = tf.where(inside, kind, -1)
        draw = keras.random.uniform(tf.shape(kind), seed=self.seed)
        index, positive, used = box_math.sample(kind, draw, self.count, self.count // 2)
        aim = box_math.take(box, box_math.take(matched, index))
        target = box_math.encode(aim, tf.gather(anchors, index))
        return (
            Term(box_math.take(tf.concat(scores, 1), index), tf.cast(positive, tf.float32), used),
            Term(box_math.take(tf.concat(deltas, 1), index), target, positive),
        )


class RegionProposals(layers.Layer):
    """Select the best boxes per image from the output of the region proposal network."""

    def __init__(self, d: Dimensions, name: str) -> None:
        super().__init__(dtype="float32", name=name)
        self.before, self.after = d.proposals_before, d.proposals_after
        self.anchors = Anchors(d)

    def call(self, image: Any, scores: list[Any], deltas: list[Any]) -> tuple[Any, Any]:
        # image: (N, H, W, 3), read for its size; scores: (N, A) and deltas: (N, A, 4) per level.
        # Returns boxes (N, proposals, 4), best first, and which of them are valid.
        size = sides(image)
        per_level = [
            self._best(*level, size)
            for level in zip(self.anchors.levels(image), scores, deltas, strict=True)
        ]
        score = tf.stack([score for score, _ in per_level], 1)
        boxes = tf.stack([boxes for _, boxes in per_level], 1)
        kept = box_math.keep_mask(boxes, score > -np.inf, 0.7)
        count = len(per_level) * self.before
        score = tf.reshape(tf.where(kept, score, -np.inf), [-1, count])
        best = tf.math.top_k(score, min(self.after, count))
        boxes = box_math.take(tf.reshape(boxes, [-1, count, 4]), best.indices)
        return boxes, best.values > -np.inf

    def _best(self, anchors: Any, scores: Any, deltas: Any, size: tuple[Any, Any]) -> Any:
        # Padded to equal length, so that all levels can be stacked.
        count = box_math.at_most(self.before, scores)
        best = tf.math.top_k(scores, count)
        boxes = box_math.decode(
            box_math.take(deltas, best.indices), tf.gather(anchors, best.indices)
        )
        missing = [0, self.before - count]
        values = tf.pad(best.values, [[0, 0], missing], constant_values=-np.inf)
        boxes = tf.pad(box_math.clip(boxes, *size), [[0, 0], missing, [0, 0]])
        return (
            tf.ensure_shape(values, [None, self.before]),
            tf.ensure_shape(boxes, [None, self.before, 4]),
        )
