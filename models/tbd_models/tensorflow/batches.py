"""Provide the batches of a workload as tensors."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import tensorflow as tf

from tbd_models.data import batches
from tbd_models.definition import UnsupportedError
from tbd_models.settings import Settings
from tbd_models.synthetic import Batch
from tbd_models.tensorflow.images import decoded_batches
from tbd_models.tensorflow.workload import Tensors, Workload


def tensor_batches(workload: Workload, settings: Settings) -> Callable[[int], Tensors]:
    """Return a function from a step number to its batch.

    Raises UnsupportedError if the workload has no such batches.
    """
    if settings.input == "synthetic":
        return batches(workload.batch, settings, partial(tensors, workload), workload.sized)
    if workload.image is None:
        raise UnsupportedError("--input decode is for resnet50 and inception3 in TensorFlow")
    return decoded_batches(*workload.image, settings)


def tensors(workload: Workload, batch: Batch) -> Tensors:
    """Return a batch of arrays as tensors, in the layout of the workload."""
    return {name: tf.constant(value) for name, value in workload.convert(batch).items()}


def signature(made: list[Tensors]) -> dict[str, Any]:
    """Return the types of batches; sizes that differ between them are unknown."""

    def joint(values: list[Any]) -> Any:
        sizes = zip(*(value.shape for value in values), strict=True)
        return tf.TensorSpec(
            [each[0] if len(set(each)) == 1 else None for each in sizes], values[0].dtype
        )

    return {name: joint([batch[name] for batch in made]) for name in made[0]}
