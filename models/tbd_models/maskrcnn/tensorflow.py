"""Mask R-CNN in TensorFlow: network, losses and training."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf
from keras import layers, ops

from tbd_models.maskrcnn import Dimensions
from tbd_models.maskrcnn.rois_tensorflow import (
    BoxTargets,
    MaskTargets,
    OfClass,
    PyramidTable,
    RoIAlign,
)
from tbd_models.maskrcnn.rpn_tensorflow import RegionProposals, RPNTargets, Term
from tbd_models.padded import scenes
from tbd_models.resnet50.tensorflow import stage, stem
from tbd_models.synthetic import scene_batch
from tbd_models.tensorflow.workload import Tensors, Workload, channels_last, one_turn


class FrozenBatchNormalization(layers.Layer):
    """Batch normalization with constant statistics and weights: a scale and a shift."""

    def __init__(self, scale: float, name: str) -> None:
        super().__init__(name=name)
        self._scale = keras.initializers.Constant(scale)

    def build(self, shape: Any) -> None:
        width = (shape[-1],)
        self.scale = self.add_weight(width, self._scale, trainable=False, name="scale")
        self.shift = self.add_weight(width, "zeros", trainable=False, name="shift")

    def call(self, x: Any) -> Any:
        return x * self.scale + self.shift


def _frozen_normalization(x: Any, name: str) -> Any:
    # Random weights have no statistics. A scale of 0.25 at the end of each block keeps the sum of
    # 16 blocks in the range of float16.
    return FrozenBatchNormalization(0.25 if name.endswith("_bn3") else 1.0, name)(x)


def _backbone(image: Any, d: Dimensions) -> list[Any]:
    # Returns C2 to C5 of images (N, H, W, 3); gradients stop at the frozen layers.
    x = ops.stop_gradient(stem(image, d.backbone, _frozen_normalization))
    features = []
    for number in range(len(d.backbone.widths)):
        x = stage(x, number, d.backbone, _frozen_normalization)
        if number < d.frozen_stages:
            x = ops.stop_gradient(x)
        features.append(x)
    return features


def _freeze(model: keras.Model, d: Dimensions) -> None:
    frozen = ("conv1", *(f"stage{number}_" for number in range(d.frozen_stages)))
    for layer in model.layers:
        if layer.name.startswith(frozen):
            layer.trainable = False


def _pyramid(features: list[Any], width: int) -> list[Any]:
    # From C2..C5 to P2..P6.
    lateral = [layers.Conv2D(width, 1, name=f"fpn_lateral{n}")(x) for n, x in enumerate(features)]
    levels = [lateral.pop()]
    for number in range(len(lateral) - 1, -1, -1):
        coarser = layers.UpSampling2D(2, name=f"fpn_upsample{number}")(levels[0])
        levels.insert(0, layers.Add(name=f"fpn_add{number}")([lateral[number], coarser]))
    pyramid = [
        layers.Conv2D(width, 3, padding="same", name=f"fpn_output{number}")(level)
        for number, level in enumerate(levels)
    ]
    return [*pyramid, layers.MaxPooling2D(1, 2, name="fpn_coarsest")(pyramid[-1])]


def _normal(std: float) -> keras.initializers.Initializer:
    return keras.initializers.RandomNormal(stddev=std)


def _rpn(pyramid: list[Any], d: Dimensions) -> tuple[list[Any], list[Any]]:
    # Scores (N, anchors) and deltas (N, anchors, 4) per level; all levels share the layers.

    def convolution(width: int, size: int, name: str, **options: Any) -> layers.Layer:
        return layers.Conv2D(width, size, kernel_initializer=_normal(0.01), name=name, **options)

    anchors = len(d.anchor_ratios)
    conv = convolution(d.width_fpn, 3, "rpn_conv", padding="same", activation="relu")
    objectness = convolution(anchors, 1, "rpn_objectness")
    delta = convolution(4 * anchors, 1, "rpn_delta")
    scores, deltas = [], []
    for number, level in enumerate(pyramid):
        x = conv(level)
        name = f"rpn_level{number}"
        scores.append(
            layers.Reshape((-1,), dtype="float32", name=f"{name}_objectness")(objectness(x))
        )
        deltas.append(layers.Reshape((-1, 4), dtype="float32", name=f"{name}_delta")(delta(x)))
    return scores, deltas


def _box_head(image: Any, rows: Any, boxes: Any, d: Dimensions) -> tuple[Any, Any]:
    # boxes: (N, R, 4); returns scores (N x R, classes) and deltas (N x R, classes, 4).
    x = RoIAlign(d, d.box_bins, "box_align")(image, rows, boxes)
    x = layers.Flatten(name="box_flatten")(x)
    for number in range(2):
        x = layers.Dense(d.width_box, activation="relu", name=f"box_fc{number}")(x)
    score = layers.Dense(d.classes, kernel_initializer=_normal(0.01), name="box_score")
    delta = layers.Dense(4 * d.classes, kernel_initializer=_normal(0.001), name="box_delta")
    return score(x), layers.Reshape((d.classes, 4), name="box_deltas")(delta(x))


def _mask_head(image: Any, rows: Any, boxes: Any, d: Dimensions) -> Any:
    # boxes: (N, R, 4); returns scores (N x R, 2 x bins, 2 x bins, classes).

    def initial() -> keras.initializers.Initializer:
        return keras.initializers.VarianceScaling(2.0, "fan_out", "untruncated_normal")

    x = RoIAlign(d, d.mask_bins, "mask_align")(image, rows, boxes)
    for number in range(4):
        x = layers.Conv2D(
            d.width_fpn,
            3,
            padding="same",
            activation="relu",
            kernel_initializer=initial(),
            name=f"mask_conv{number}",
        )(x)
    x = layers.Conv2DTranspose(
        d.width_fpn,
        2,
        2,
        activation="relu",
        kernel_initializer=initial(),
        name="mask_upsample",
    )(x)
    return layers.Conv2D(d.classes, 1, kernel_initializer=initial(), name="mask_score")(x)


def network(d: Dimensions) -> keras.Model:
    """Return Mask R-CNN in training, with prediction and target of each loss term as outputs.

    Inputs are images (N, H, W, 3), boxes (N, G, 4), classes (N, G), 0 for no object, and masks
    (N, G, H, W).
    """
    # Images of any size: with --lengths, batches have different ones.
    image = keras.Input((None, None, 3), name="image")
    box = keras.Input((d.objects, 4), name="box")
    label = keras.Input((d.objects,), dtype="int64", name="label")
    mask = keras.Input((d.objects, None, None), dtype="uint8", name="mask")
    pyramid = _pyramid(_backbone(image, d), d.width_fpn)
    scores, deltas = _rpn(pyramid, d)
    objectness, anchor_box = RPNTargets(d, "rpn_targets")(image, scores, deltas, box, label)
    proposals = RegionProposals(d, "proposals")(
        image,
        [ops.stop_gradient(score) for score in scores],
        [ops.stop_gradient(delta) for delta in deltas],
    )
    rois = BoxTargets(d, "box_targets")(*proposals, box, label)
    rows = PyramidTable(name="table")(pyramid[:-1])
    class_score, delta = _box_head(image, rows, rois.boxes, d)
    # Regions with objects come first; only they train the mask head.
    positive = [value[:, : d.positive_rois] for value in rois]
    with_object = type(rois)(*positive)
    mask_score = _mask_head(image, rows, with_object.boxes, d)
    terms = {
        "objectness": objectness,
        "anchor_box": anchor_box,
        "class": Term(class_score, rois.label, rois.used),
        "box": Term(OfClass(1, "box_of_class")(delta, rois.label), rois.delta, rois.positive),
        "mask": Term(
            OfClass(3, "mask_of_class")(mask_score, with_object.label),
            MaskTargets(d, "mask_targets")(mask, with_object.boxes, with_object.matched),
            with_object.positive,
        ),
    }
    model = keras.Model({"image": image, "box": box, "label": label, "mask": mask}, terms)
    _freeze(model, d)
    return model


def _count(used: Any) -> Any:
    return tf.maximum(tf.reduce_sum(tf.cast(used, tf.float32)), 1)


def _mean(losses: Any, used: Any) -> Any:
    # Mean of losses (N, R, ...) over the entries (N, R) that are used.
    each = tf.reduce_mean(losses, list(range(2, len(losses.shape))))
    return tf.reduce_sum(each * tf.cast(used, tf.float32)) / _count(used)


def _box_loss(term: Term, regions: Any, beta: float) -> Any:
    # Smooth L1, divided as in Fast R-CNN by the number of all regions, not of positive ones.
    size = tf.abs(tf.cast(term.prediction, tf.float32) - term.target)
    losses = tf.where(size < beta, size**2 / (2 * beta), size - beta / 2)
    used = tf.cast(term.used, tf.float32)
    return tf.reduce_sum(tf.reduce_sum(losses, -1) * used) / _count(regions)


def _binary_loss(term: Term) -> Any:
    score = tf.cast(term.prediction, tf.float32)
    return _mean(tf.nn.sigmoid_cross_entropy_with_logits(term.target, score), term.used)


def detection_loss(terms: dict[str, Term], _batch: Tensors) -> Any:
    """Return the sum of the five losses of Mask R-CNN, computed in float32."""
    objectness, kind = terms["objectness"], terms["class"]
    class_loss = tf.nn.sparse_softmax_cross_entropy_with_logits(
        tf.reshape(kind.target, [-1]), tf.cast(kind.prediction, tf.float32)
    )
    return (
        _binary_loss(objectness)
        + _box_loss(terms["anchor_box"], objectness.used, 1 / 9)
        + _mean(tf.reshape(class_loss, tf.shape(kind.used)), kind.used)
        + _box_loss(terms["box"], kind.used, 1.0)
        + _binary_loss(terms["mask"])
    )


def workload(d: Dimensions) -> Workload:
    """Return the workload with these dimensions."""
    model, size = network(d), (d.height, d.width)
    return Workload(
        model=model,
        batch=lambda count, rng: scene_batch(
            count, size, d.classes - 1, d.objects, rng, masks=True
        ),
        convert=channels_last,
        turns=one_turn(
            model,
            forward=lambda batch: model(dict(batch), training=True),
            loss=detection_loss,
            optimizer=keras.optimizers.SGD(d.learning_rate, momentum=0.9, weight_decay=1e-4),
        ),
        sized=lambda planned, rng: scenes(planned, d.classes - 1, d.objects, rng, masks=True),
    )
