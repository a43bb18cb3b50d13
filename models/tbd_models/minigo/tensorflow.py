"""MiniGo in TensorFlow."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf
from keras import layers

from tbd_models.minigo import PLANES, Dimensions
from tbd_models.minigo.selfplay import Array, Players
from tbd_models.synthetic import Batch, go_batch
from tbd_models.tensorflow.workload import Tensors, Workload, one_turn


def _convolution(x: Any, width: int, size: int, name: str, *, scaled: bool = True) -> Any:
    # The normalization of the heads has no scale and offset, as in MLPerf's code.
    x = layers.Conv2D(width, size, padding="same", name=f"{name}_conv")(x)
    return layers.BatchNormalization(
        momentum=0.997, epsilon=1e-5, center=scaled, scale=scaled, name=f"{name}_bn"
    )(x)


def _block(x: Any, width: int, name: str) -> Any:
    y = layers.ReLU(name=f"{name}_relu1")(_convolution(x, width, 3, f"{name}_1"))
    y = _convolution(y, width, 3, f"{name}_2")
    return layers.ReLU(name=f"{name}_relu2")(layers.Add(name=f"{name}_add")([x, y]))


def network(d: Dimensions) -> keras.Model:
    """Return a network from positions (N, board, board, 17) to move scores and a value."""
    position = keras.Input((d.board, d.board, PLANES))
    x = layers.ReLU(name="stem_relu")(_convolution(position, d.width, 3, "stem"))
    for block in range(d.blocks):
        x = _block(x, d.width, f"block{block}")
    policy = _convolution(x, 2, 1, "policy", scaled=False)
    policy = layers.Flatten(name="policy_flatten")(layers.ReLU(name="policy_relu")(policy))
    policy = layers.Dense(d.moves, dtype="float32", name="policy")(policy)
    value = _convolution(x, 1, 1, "value", scaled=False)
    value = layers.Flatten(name="value_flatten")(layers.ReLU(name="value_relu")(value))
    value = layers.Dense(d.value_width, activation="relu", name="value_hidden")(value)
    value = layers.Dense(1, activation="tanh", dtype="float32", name="value")(value)
    return keras.Model(position, [policy, value])


def loss(model: keras.Model, outputs: Any, batch: Tensors, weight_decay: float) -> Any:
    """Return the policy loss, value loss and weight penalty of a batch as one sum."""
    policy, value = outputs
    missed = tf.nn.softmax_cross_entropy_with_logits(batch["policy"], policy)
    squared = tf.square(value[:, 0] - batch["value"])
    decaying = [w.value for w in model.trainable_weights if w.name != "bias"]
    decay = weight_decay * tf.add_n([tf.nn.l2_loss(weight) for weight in decaying])
    return tf.reduce_mean(missed) + tf.reduce_mean(squared) + decay


def channels_last(batch: Batch) -> Batch:
    """Return a batch with its positions as (N, board, board, 17)."""
    return batch | {"position": batch["position"].transpose(0, 2, 3, 1).copy()}


def players(d: Dimensions, model: keras.Model) -> Players:
    """Return self-play games of a network."""

    # A graph, as the search calls the network for each of its many positions.
    @tf.function
    def compiled(position: Any) -> Any:
        policy, value = model(tf.transpose(position, (0, 2, 3, 1)), training=False)
        return tf.nn.softmax(policy), value[:, 0]

    def evaluate(positions: Array) -> tuple[Array, Array]:
        policy, value = compiled(tf.constant(positions))
        return policy.numpy(), value.numpy()

    return Players(d, evaluate)


def workload(d: Dimensions) -> Workload:
    """Return the workload with these dimensions."""
    model = network(d)
    return Workload(
        model=model,
        batch=lambda size, rng: go_batch(size, d.board, rng),
        generate=players(d, model).batch if d.self_play else None,
        convert=channels_last,
        turns=one_turn(
            model,
            forward=lambda batch: model(batch["position"], training=True),
            loss=lambda outputs, batch: loss(model, outputs, batch, d.weight_decay),
            optimizer=keras.optimizers.SGD(d.learning_rate, momentum=0.9),
        ),
    )
