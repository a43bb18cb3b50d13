"""Train Mask R-CNN's region proposal network and turn its output into proposals, in TensorFlow."""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf
from keras import layers
from numpy.typing import NDArray

from tbd_models.maskrcnn import Dimensions
from tbd_models.tensorflow import boxes as box_math


class Term(NamedTuple):
    """A term of the loss."""

    prediction: Any  # (N, R, ...)
    target: Any
    used: Any  # (N, R): entries that count


def level_anchors(d: Dimensions) -> list[NDArray[np.float32]]:
    """Return the anchors (A, 4) of P2 to P6."""
    return [
        box_math.grid_anchors(*size, stride, [anchor], d.anchor_ratios)
        for size, stride, anchor in zip(d.maps, d.strides, d.anchor_sizes, strict=True)
    ]


class RPNTargets(layers.Layer):
    """Sample the anchors that train the region proposal network, and compute their targets."""

    def __init__(self, d: Dimensions, name: str) -> None:
        super().__init__(dtype="float32", name=name)
        self.count = d.rpn_samples
        self.anchors = np.concatenate(level_anchors(d))
        start, end = self.anchors[:, :2], self.anchors[:, 2:]
        inside = (start >= 0) & (end <= np.array([d.width, d.height]))
        self.inside: NDArray[np.bool_] = np.all(inside, -1)
        self.seed = keras.random.SeedGenerator()

    def call(self, scores: list[Any], deltas: list[Any], box: Any, label: Any) -> tuple[Term, Term]:
        # scores: (N, A) and deltas: (N, A, 4) per level; box: (N, G, 4); label: (N, G), 0 is none.
        # Returns the terms of objectness and of boxes.
        # As published, anchors that cross the image border do not train the network.
        overlap = tf.where(self.inside[:, None], box_math.iou(self.anchors, box), 0.0)
        matched, kind = box_math.assign(overlap, label > 0, 0.7, 0.3, force=True)
        kind = tf.where(self.inside, kind, -1)
        draw = keras.random.uniform(tf.shape(kind), seed=self.seed)
        index, positive, used = box_math.sample(kind, draw, self.count, self.count // 2)
        aim = box_math.take(box, box_math.take(matched, index))
        target = box_math.encode(aim, tf.gather(self.anchors, index))
        return (
            Term(box_math.take(tf.concat(scores, 1), index), tf.cast(positive, tf.float32), used),
            Term(box_math.take(tf.concat(deltas, 1), index), target, positive),
        )


class RegionProposals(layers.Layer):
    """Select the best boxes per image from the output of the region proposal network."""

    def __init__(self, d: Dimensions, name: str) -> None:
        super().__init__(dtype="float32", name=name)
        self.image = (d.height, d.width)
        self.before, self.after = d.proposals_before, d.proposals_after
        self.anchors = tuple(level_anchors(d))

    def call(self, scores: list[Any], deltas: list[Any]) -> tuple[Any, Any]:
        # scores: (N, A) and deltas: (N, A, 4) per level.
        # Returns boxes (N, proposals, 4), best first, and which of them are valid.
        found = [self._best(*level) for level in zip(self.anchors, scores, deltas, strict=True)]
        score = tf.stack([score for score, _ in found], 1)
        boxes = tf.stack([boxes for _, boxes in found], 1)
        kept = box_math.keep_mask(boxes, score > -np.inf, 0.7)
        count = len(found) * self.before
        score = tf.reshape(tf.where(kept, score, -np.inf), [-1, count])
        best = tf.math.top_k(score, min(self.after, count))
        boxes = box_math.take(tf.reshape(boxes, [-1, count, 4]), best.indices)
        return boxes, best.values > -np.inf

    def _best(self, anchors: Any, scores: Any, deltas: Any) -> tuple[Any, Any]:
        # Padded to equal length, so that all levels can be stacked.
        count = min(self.before, len(anchors))
        best = tf.math.top_k(scores, count)
        boxes = box_math.decode(
            box_math.take(deltas, best.indices), tf.gather(anchors, best.indices)
        )
        missing = [0, self.before - count]
        return (
            tf.pad(best.values, [[0, 0], missing], constant_values=-np.inf),
            tf.pad(box_math.clip(boxes, *self.image), [[0, 0], missing, [0, 0]]),
        )
