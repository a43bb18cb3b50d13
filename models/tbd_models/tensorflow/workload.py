"""What a TensorFlow workload is: a model, its data, its losses and its optimizers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tbd_models.instrument.tensorflow import inputs_alone
from tbd_models.synthetic import Batch, image_batch

Tensors = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Turn:
    """One update of weights. Most models take one in an iteration.

    Attributes:
        forward: runs the model on a batch.
        loss: returns the scalar loss of what ``forward`` returned.
        weights: returns the weights to update.
        optimizer: the published optimizer.
        times: how often it is taken before the next one.
    """

    forward: Callable[[Tensors], Any]
    loss: Callable[[Any, Tensors], Any]
    weights: Callable[[], list[keras.Variable]]
    optimizer: keras.optimizers.Optimizer
    times: int = 1


@dataclass(frozen=True, slots=True)
class Workload:
    """A model and how it is trained.

    Attributes:
        model: the layers; models that play against each other are layers of one.
        batch: makes a batch of so many synthetic samples (``tbd_models.synthetic``).
        turns: the updates of an iteration.
        convert: brings the arrays of a batch into the layout that ``forward`` takes.
        earn: makes the batch of a step where that is part of the training, as by playing games;
            None where synthetic batches are ready before.
    """

    model: keras.Model
    batch: Callable[[int, np.random.Generator], Batch]
    turns: tuple[Turn, ...]
    convert: Callable[[Batch], Batch] = dict
    earn: Callable[[int, np.random.Generator], Batch] | None = None


def one_turn(
    model: keras.Model,
    forward: Callable[[Tensors], Any],
    loss: Callable[[Any, Tensors], Any],
    optimizer: keras.optimizers.Optimizer,
) -> tuple[Turn, ...]:
    """Return the turns of a model all of whose weights are updated together."""
    return (Turn(forward, loss, lambda: model.trainable_weights, optimizer),)


def image_classification(model: keras.Model, image_size: int, classes: int) -> Workload:
    """Return how a model that gives class scores of images (N, H, W, 3) is trained."""
    return Workload(
        model=model,
        batch=lambda size, rng: image_batch(size, image_size, classes, rng),
        convert=channels_last,
        turns=one_turn(
            model,
            forward=lambda batch: model(batch["image"], training=True),
            loss=lambda scores, batch: cross_entropy(scores, batch["label"]),
            optimizer=keras.optimizers.SGD(0.01, momentum=0.9, weight_decay=1e-4),
        ),
    )


def cross_entropy(scores: Any, label: Any) -> Any:
    """Return the mean cross entropy, computed in float32 whatever the scores are in.

    Args:
        scores: class scores, classes last.
        label: class per sample.
    """
    return tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(label, tf.cast(scores, tf.float32))
    )


def slope(function: Callable[[Any], Any], value: Any) -> Any:
    """Return the gradient of a function's sum at a value; it can be differentiated in its turn."""
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(value)
        result = function(value)
    with inputs_alone():
        return tape.gradient(result, value)


def channels_last(batch: Batch) -> Batch:
    """Return a batch with its images as (N, H, W, 3), which TensorFlow needs on a CPU."""
    return batch | {"image": np.ascontiguousarray(batch["image"].transpose(0, 2, 3, 1))}
