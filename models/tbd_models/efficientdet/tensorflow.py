"""EfficientDet in TensorFlow."""

from __future__ import annotations

import math
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers
from numpy.typing import NDArray

from tbd_models.efficientdet import Dimensions
from tbd_models.efficientdet.backbone_tensorflow import backbone, norm, swish
from tbd_models.padded import scenes
from tbd_models.synthetic import scene_batch
from tbd_models.tensorflow import boxes
from tbd_models.tensorflow.workload import Tensors, Workload, channels_last, one_turn


class PaddedMaxPooling2D(layers.Layer):
    """3x3 max pooling with stride 2, padded on both sides like PyTorch's."""

    def call(self, x: Any) -> Any:
        beside = [[0, 0], [1, 1], [1, 1], [0, 0]]
        # Padded with the smallest value, which is never the maximum.
        return tf.nn.max_pool2d(tf.pad(x, beside, constant_values=x.dtype.min), 3, 2, "VALID")


class Fusion(layers.Layer):
    """Weighted mean of feature maps (fast normalized fusion)."""

    def build(self, shapes: list[Any]) -> None:
        self.share = self.add_weight((len(shapes),), initializer="ones", name="share")

    def call(self, maps: list[Any]) -> Any:
        # Tan et al. 2020, section 3.3; 1e-4 avoids a division by 0.
        share = tf.nn.relu(self.share)
        share = tf.unstack(share / (tf.reduce_sum(share) + 1e-4))
        return tf.add_n([x * weight for x, weight in zip(maps, share, strict=True)])


def _separable(channels: int, name: str, **options: Any) -> layers.Layer:
    # 3x3 depthwise convolution without bias, then a 1x1 convolution with bias.
    scaling = keras.initializers.VarianceScaling
    initial = {
        "depthwise_initializer": scaling(1.0, "fan_out", "untruncated_normal"),
        "pointwise_initializer": scaling(1.0, "fan_in", "untruncated_normal"),
    }
    return layers.SeparableConv2D(channels, 3, padding="same", name=name, **(initial | options))


def _resampled(x: Any, width: int, step: int, name: str) -> Any:
    # step: 1 for the next coarser level, -1 for the next finer one, 0 for the same.
    if x.shape[-1] != width:
        x = norm(layers.Conv2D(width, 1, name=f"{name}_conv")(x), f"{name}_bn")
    if step > 0:
        return PaddedMaxPooling2D(name=f"{name}_pool")(x)
    return layers.UpSampling2D(2, name=f"{name}_upsample")(x) if step < 0 else x


def _node(inputs: list[tuple[Any, int]], width: int, name: str) -> Any:
    # inputs: maps with their step (see _resampled).
    maps = [
        _resampled(x, width, step, f"{name}_input{number}")
        for number, (x, step) in enumerate(inputs)
    ]
    x = swish(Fusion(name=f"{name}_fusion")(maps), f"{name}_swish")
    return norm(_separable(width, f"{name}_conv")(x), f"{name}_bn")


def _bifpn(maps: list[Any], width: int, name: str) -> list[Any]:
    # A top-down and a bottom-up path; maps are ordered from finest to coarsest.
    last = len(maps) - 1
    between = [maps[last]]
    for level in range(last - 1, -1, -1):
        inputs = [(maps[level], 0), (between[0], -1)]
        between.insert(0, _node(inputs, width, f"{name}_down{level}"))
    out = [between[0]]
    for level in range(1, last + 1):
        middle = [(between[level], 0)] if level < last else []
        inputs = [(maps[level], 0), *middle, (out[-1], 1)]
        out.append(_node(inputs, width, f"{name}_up{level}"))
    return out


def _head(maps: list[Any], d: Dimensions, outputs: int, bias: float, name: str) -> Any:
    # Levels share the convolutions, not the normalization.
    convolutions = [_separable(d.width, f"{name}_conv{n}") for n in range(d.head_repeats)]
    predict = _separable(
        outputs * d.anchors_per_cell,
        f"{name}_predict",
        pointwise_initializer=keras.initializers.RandomNormal(stddev=0.01),
        bias_initializer=keras.initializers.Constant(bias),
    )
    predictions = []
    for level, given in enumerate(maps):
        x = given
        for number, conv in enumerate(convolutions):
            x = norm(conv(x), f"{name}_level{level}_bn{number}")
            x = swish(x, f"{name}_level{level}_swish{number}")
        predictions.append(layers.Reshape((-1, outputs), name=f"{name}_level{level}")(predict(x)))
    return layers.Concatenate(axis=1, name=f"{name}_levels")(predictions)


def network(d: Dimensions) -> keras.Model:
    """Return EfficientDet for images (N, H, W, 3).

    Outputs are scores (N, A, classes) and encoded boxes (N, A, 4) at A anchors.
    """
    image = keras.Input((d.image_size, d.image_size, 3))
    maps = backbone(image, d)
    p6 = _resampled(maps[-1], d.width, 1, "p6")
    maps = [*maps, p6, _resampled(p6, d.width, 1, "p7")]
    for number in range(d.pyramid_repeats):
        maps = _bifpn(maps, d.width, f"pyramid{number}")
    # Bias for an initial class probability of 0.01, as objects are rare (Lin et al. 2017).
    score = _head(maps, d, d.classes, -math.log(99), "class")
    return keras.Model(image, [score, _head(maps, d, 4, 0.0, "box")])


def _anchors(d: Dimensions) -> NDArray[np.float32]:
    return np.concatenate(
        [
            boxes.grid_anchors(
                d.image_size // stride,
                d.image_size // stride,
                stride,
                [d.anchor_scale * stride * 2**octave for octave in d.octave],
                d.anchor_ratios,
            )
            for stride in d.strides
        ]
    )


def focal_loss(score: Any, target: Any, alpha: float = 0.25, gamma: float = 1.5) -> Any:
    """Return the focal loss of each score (Lin et al. 2017) for targets 0 and 1."""
    plain = tf.nn.sigmoid_cross_entropy_with_logits(target, score)
    wrong = 1 - tf.exp(-plain)  # probability of the wrong answer
    weight = alpha * target + (1 - alpha) * (1 - target)
    return weight * wrong**gamma * plain


def huber_loss(error: Any, delta: float = 0.1) -> Any:
    """Return the Huber loss of each error: quadratic up to ``delta``, then linear."""
    size = tf.abs(error)
    return tf.where(size < delta, size**2 / 2, delta * (size - delta / 2))


def detection_loss(outputs: list[Any], batch: Tensors, anchors: NDArray[np.float32]) -> Any:
    """Return the focal loss of classes plus 50 times the Huber loss of boxes, in float32.

    ``outputs`` has scores (N, A, classes) and encoded boxes (N, A, 4) for ``anchors`` (A, 4).
    """
    score, delta = (tf.cast(prediction, tf.float32) for prediction in outputs)
    label, box = batch["label"], batch["box"]
    matched, kind = boxes.assign(boxes.iou(anchors, box), label > 0, 0.5, 0.5, force=True)
    positive = tf.cast(kind == 1, tf.float32)
    count = tf.reduce_sum(positive) + 1  # +1 as in the authors' code: avoids a division by 0
    aim = tf.where(kind == 1, boxes.take(label, matched), 0)
    target = tf.one_hot(aim - 1, score.shape[-1])  # all 0 for class 0, the background
    huber = huber_loss(delta - boxes.encode(boxes.take(box, matched), anchors))
    class_loss = tf.reduce_sum(focal_loss(score, target)) / count
    return class_loss + 50 * tf.reduce_sum(tf.reduce_mean(huber, -1) * positive) / count


def workload(d: Dimensions) -> Workload:
    """Return the workload with these dimensions."""
    model, anchors, size = network(d), _anchors(d), (d.image_size, d.image_size)
    return Workload(
        model=model,
        batch=lambda count, rng: scene_batch(count, size, d.classes, d.objects, rng),
        convert=channels_last,
        turns=one_turn(
            model,
            forward=lambda batch: model(batch["image"], training=True),
            loss=lambda outputs, batch: detection_loss(outputs, batch, anchors),
            optimizer=keras.optimizers.SGD(
                d.learning_rate, 0.9, weight_decay=4e-5, global_clipnorm=10.0
            ),
        ),
        sized=lambda planned, rng: scenes(planned, d.classes, d.objects, rng),
    )
