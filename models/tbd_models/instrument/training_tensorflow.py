"""One line that marks the training of a Keras model of one's own."""

from __future__ import annotations

import os
from typing import Any

import keras
import tensorflow as tf

from tbd_models.instrument.marks import Marks, NvtxMarks
from tbd_models.instrument.tensorflow import GraphMarks, LayerMarks

_THREADS = "TF_NUM_INTEROP_THREADS"


class TrainingMarks(keras.callbacks.Callback):
    """Marks the layers of a model, and, as a callback of ``fit``, iterations.

    An iteration is a batch of ``fit``; what comes between two batches is in none.

    Args:
        model: the model, built: its layers are marked in functions that are traced from now on.
        marks: where the ranges go; NVTX by default.

    Raises:
        ImportError: the package ``nvtx`` is missing.
        RuntimeError: TensorFlow has begun to work with several inter-operation threads; the
            message says how to choose one.
    """

    def __init__(self, model: keras.Model, marks: Marks | None = None) -> None:
        super().__init__()
        keep_order()
        self._marks = NvtxMarks() if marks is None else marks
        self._layers = LayerMarks(model, GraphMarks(self._marks))
        self._number = 0

    def remove(self) -> None:
        """Take the marks off the layers; functions that were traced meanwhile keep theirs."""
        self._layers.remove()

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Begin an iteration."""
        self._marks.push(f"iteration {self._number}")
        self._number += 1

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """End an iteration."""
        self._marks.pop()


def keep_order() -> None:
    """Make TensorFlow run marks, and what they enclose, on one thread and in their order.

    Raises:
        RuntimeError: it has begun to work with several inter-operation threads.
    """
    if (
        os.environ.get(_THREADS) != "1"
        and tf.config.threading.get_inter_op_parallelism_threads() != 1
    ):
        try:
            tf.config.threading.set_inter_op_parallelism_threads(1)
        except RuntimeError as error:
            raise RuntimeError(
                f"layers are marked on one inter-operation thread: set {_THREADS}=1, or call "
                "tf.config.threading.set_inter_op_parallelism_threads(1) before the model is made"
            ) from error
    # Seen to drop what a mark waits for, where a constant is near.
    tf.config.optimizer.set_experimental_options({"dependency_optimization": False})
