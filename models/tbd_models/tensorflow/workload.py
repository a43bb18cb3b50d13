"""Define a TensorFlow workload: model, data, losses and optimizers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tbd_models.data import Sized
from tbd_models.instrument.tensorflow import input_gradients_only
from tbd_models.synthetic import Batch, image_batch

Tensors = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Turn:
    """One kind of weight update in an iteration; most models have a single one."""

    forward: Callable[[Tensors], Any]
    loss: Callable[[Any, Tensors], Any]  # scalar loss of the result of `forward`
    weights: Callable[[], list[keras.Variable]]  # weights to update
    optimizer: keras.optimizers.Optimizer
    times: int = 1  # repetitions before the next turn


@dataclass(frozen=True, slots=True)
class Workload:
    """A model and how to train it."""

    model: keras.Model  # adversarial models are layers of one model
    batch: Callable[[int, np.random.Generator], Batch]  # makes N synthetic samples
    turns: tuple[Turn, ...]  # updates of an iteration
    convert: Callable[[Batch], Batch] = dict  # to the array layout of `forward`
    # Generates a step's batch as part of the training (self-play), None for prepared batches.
    generate: Callable[[int, np.random.Generator], Batch] | None = None
    image: tuple[int, int] | None = None  # size and classes of images that files can replace
    sized: Sized | None = None  # makes samples of unequal size; None if all have the same
    unrolled: bool = False  # its graph has an operation per step, so a graph has one length


def one_turn(
    model: keras.Model,
    forward: Callable[[Tensors], Any],
    loss: Callable[[Any, Tensors], Any],
    optimizer: keras.optimizers.Optimizer,
) -> tuple[Turn, ...]:
    """Return the turns of a model whose weights are all updated together."""
    return (Turn(forward, loss, lambda: model.trainable_weights, optimizer),)


def label_loss(scores: Any, batch: Tensors) -> Any:
    """Return the mean cross entropy of a batch's labels."""
    return cross_entropy(scores, batch["label"])


def image_classification(
    model: keras.Model,
    image_size: int,
    classes: int,
    loss: Callable[[Any, Tensors], Any] = label_loss,
) -> Workload:
    """Return the workload of a model from images (N, H, W, 3) to class scores."""
    return Workload(
        model=model,
        batch=lambda size, rng: image_batch(size, image_size, classes, rng),
        convert=channels_last,
        image=(image_size, classes),
        turns=one_turn(
            model,
            forward=lambda batch: model(batch["image"], training=True),
            loss=loss,
            # Without momentum, as the suite in TensorFlow.
            optimizer=keras.optimizers.SGD(0.1, weight_decay=1e-4),
        ),
    )


def cross_entropy(scores: Any, label: Any, *, padded: bool = False) -> Any:
    """Return the mean cross entropy of scores (..., classes); padding has labels below 0."""
    # In float32, as float16 is too coarse for sums of exponentials.
    scores = tf.cast(scores, tf.float32)
    if not padded:
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(label, scores))
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(tf.maximum(label, 0), scores)
    return real_mean(losses, label)


def real_mean(values: Any, label: Any) -> Any:
    """Return the mean of values without those of padding, whose labels are below 0."""
    real = tf.cast(label >= 0, values.dtype)
    return tf.reduce_sum(values * real) / tf.reduce_sum(real)


def slope(function: Callable[[Any], Any], value: Any) -> Any:
    """Return the gradient of a function's sum at a value; it is differentiable again."""
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(value)
        result = function(value)
    # The gradient penalty needs no weight gradients in this first pass.
    with input_gradients_only():
        return tape.gradient(result, value)


def channels_last(batch: Batch) -> Batch:
    """Return a batch with images as (N, H, W, 3): TensorFlow on a CPU has no other layout."""
    return batch | {"image": np.ascontiguousarray(batch["image"].transpose(0, 2, 3, 1))}
