"""Mark the iterations of ``fit`` of Keras, with any backend."""

from __future__ import annotations

from typing import Any

import keras

from tbd_models.instrument.marks import Marks, NoMarks, NvtxMarks, iteration_text
from tbd_models.instrument.progress import Progress, requested


class IterationMarks(keras.callbacks.Callback):
    """Mark iterations as a callback of ``fit``.

    An iteration is a batch of ``fit``, without the time between batches; those before the window
    that ``tbd-trace collect`` asks for are marked as its warm-up. ``marks`` defaults to
    NVTX, which raises ImportError without the package ``nvtx``.
    """

    def __init__(self, marks: Marks | None = None) -> None:
        super().__init__()
        self._marks = NvtxMarks() if marks is None else marks
        self._number = 0
        self._progress = Progress(requested())

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        if self._progress.ends_window(self._number):
            self._marks = NoMarks()
        self._progress.iteration_begins(self._number)
        self._marks.push(iteration_text(self._number, self._progress.window))
        self._number += 1

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._marks.pop()
        self._progress.iteration_ends()
