"""Mark a user's own training of a Keras model with one line of code."""

from __future__ import annotations

import os

import keras
import tensorflow as tf

from tbd_models.instrument.iterations_keras import IterationMarks
from tbd_models.instrument.marks import Marks
from tbd_models.instrument.tensorflow import GraphMarks, LayerMarks

_THREADS = "TF_NUM_INTEROP_THREADS"


class TrainingMarks(IterationMarks):
    """Mark layers of a built model, and, as a callback of ``fit``, iterations.

    Only functions traced afterwards mark layers. ``marks`` defaults to NVTX.

    Raises:
        ImportError: the package ``nvtx`` is missing.
        RuntimeError: TensorFlow already uses several inter-operation threads.
    """

    def __init__(self, model: keras.Model, marks: Marks | None = None) -> None:
        super().__init__(marks)
        keep_order()
        self._layers = LayerMarks(model, GraphMarks(self._marks))

    def remove(self) -> None:
        """Restore the layers; functions traced before keep their marks."""
        self._layers.remove()


def keep_order() -> None:
    """Make TensorFlow run marks and the enclosed operations in order on one thread.

    Raises RuntimeError if it already uses several inter-operation threads.
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
    # This optimizer was seen to drop control dependencies of marks next to constants.
    tf.config.optimizer.set_experimental_options({"dependency_optimization": False})
