"""Average gradients over the ranks of a job with TensorFlow's MultiWorkerMirroredStrategy."""

from __future__ import annotations

import json
import math
import os
from typing import Any

import keras
import tensorflow as tf

from tbd_models.instrument.tensorflow import GraphMarks, wait_for
from tbd_models.settings import Settings


def world_size(settings: Settings) -> int:
    """Return the number of ranks as torchrun sets it, 1 without it or with another scheme."""
    return int(os.environ.get("WORLD_SIZE", "1")) if settings.scheme == "serial" else 1


def rank(settings: Settings) -> int:
    """Return this process's rank as torchrun sets it, 0 for one alone."""
    return int(os.environ["RANK"]) if world_size(settings) > 1 else 0


class Workers:
    """The workers of ``TF_CONFIG``, of which this process is one.

    Variables belong to a worker alone; workers keep them equal by equal updates.
    """

    def __init__(self) -> None:
        """Join the other workers; raise RuntimeError if this one cannot serve at its address."""
        try:
            self._strategy = tf.distribute.MultiWorkerMirroredStrategy()
        except tf.errors.UnknownError as error:
            raise RuntimeError(
                f"{_own_address()} cannot be used ({error.message}); another program may have "
                "taken the port, so try again"
            ) from error
        # A function also in eager execution, where the strategy reduces tensors one by one.
        self._sums = tf.function(self._reduced)
        self._is_first = self._strategy.cluster_resolver.task_id == 0

    def _reduced(self, tensors: list[Any]) -> list[Any]:
        def replica() -> list[Any]:
            # Copies are on the strategy's device, which a reduction of several tensors needs.
            own = [tf.identity(tensor) for tensor in tensors]
            context = tf.distribute.get_replica_context()
            sums: list[Any] = context.all_reduce(tf.distribute.ReduceOp.SUM, own)
            return sums

        sums: list[Any] = self._strategy.run(replica)
        return sums

    def share(self, weights: list[keras.Variable]) -> None:
        """Give the weights of all workers the values of the first one."""
        scale = float(self._is_first)
        given = [scale * weight.value for weight in weights]
        for weight, value in zip(weights, self._sums(given), strict=True):
            weight.assign(value)

    def average(self, gradients: list[Any], bucket: int, marks: GraphMarks) -> list[Any]:
        """Return the means of gradients over the workers, in one all-reduce with a range.

        Sparse gradients become dense; gradients that are None stay None.
        """
        places = [place for place, gradient in enumerate(gradients) if gradient is not None]
        own = [tf.convert_to_tensor(gradients[place]) for place in places]
        size = sum(math.prod(tensor.shape) * tensor.dtype.size for tensor in own)
        begun = marks.push(f"all_reduce, bytes = {size}, bucket = {bucket}", own)
        sums = self._sums(wait_for(own, begun))
        ranks = self._strategy.num_replicas_in_sync
        means = [tensor / ranks for tensor in wait_for(sums, marks.pop(sums))]
        by_place = dict(zip(places, means, strict=True))
        return [by_place.get(place) for place in range(len(gradients))]

    def same_on_all(self, flag: bool) -> bool:
        """Return the first worker's flag on every worker."""
        (count,) = self._sums([tf.constant(float(flag and self._is_first))])
        return float(count) > 0

    def wait_for_all(self) -> None:
        """Wait until all workers are here."""
        self.same_on_all(True)


def _own_address() -> str:
    config = json.loads(os.environ["TF_CONFIG"])
    address: str = config["cluster"]["worker"][config["task"]["index"]]
    return address
