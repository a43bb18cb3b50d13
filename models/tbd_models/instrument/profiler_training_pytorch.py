"""Record iterations of a user's own PyTorch training loop with torch.profiler."""

from __future__ import annotations

import atexit
import json
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from tbd_models.instrument.auto_report import change_report
from tbd_models.instrument.first_process import is_recorded
from tbd_models.instrument.marks import TRACE_VARIABLE
from tbd_models.instrument.profiler_pytorch import RecordFunctionMarks, TraceRecorder
from tbd_models.instrument.program_profilers_pytorch import ProgramProfilers
from tbd_models.instrument.progress import WARMUP, Progress, warmup_of_command
from tbd_models.instrument.training_marks_pytorch import TrainingMarks

TRACE = "train.pt.trace.json.gz"
ITERATIONS = 12
_OTHER = "the program profiles itself with torch.profiler"


@dataclass(frozen=True, slots=True)
class TraceRequest:
    """What to record, and where to write it."""

    trace: Path
    warmup: int = WARMUP  # iterations before the recorded ones; the first is never recorded
    iterations: int = ITERATIONS
    memory: bool = False  # also record allocations
    report: Path | None = None  # JSON file about the recording, for capture.json

    def __post_init__(self) -> None:
        """Raise ValueError for an empty window."""
        if self.warmup < 1 or self.iterations < 1:
            raise ValueError("warmup and iterations must be at least 1")


def requested() -> TraceRequest | None:
    """Return the request of ``tbd-trace collect --profiler torch``, None without one."""
    text = os.environ.get(TRACE_VARIABLE)
    if not text:
        return None
    asked = json.loads(text)
    # All processes that a program starts inherit the variable.
    if not is_recorded(asked["trace"]):
        return None
    return TraceRequest(
        Path(asked["trace"]),
        warmup_of_command(asked["warmup"]),
        asked["iterations"],
        asked["memory"],
        Path(asked["report"]),
    )


class TrainingTrace:
    """Mark a training loop, and record a window of its iterations, until ``remove``.

    The trace is written after the last iteration of the window, or at the end of a shorter loop.
    While the program profiles itself with PyTorch, nothing is recorded: the window begins later, or
    ends early.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        request: TraceRequest,
        *,
        batch_size: int | None = None,
        layers_file: Path | None = None,
        first: int = 0,
        called: Sequence[nn.Module] = (),
        progress: Progress | None = None,
    ) -> None:
        """Mark from now on; ``first``, ``called`` and ``progress`` as of TrainingMarks."""
        self._request = request
        self._begin = max(first, request.warmup)
        self._batch_size = batch_size
        self._iteration = 0
        self._is_late = False  # as the program profiled itself
        self._is_over = False
        self._progress = Progress(None) if progress is None else progress
        device = next((p.device.type for p in model.parameters()), "cpu")
        self._recorder = TraceRecorder(request.trace, device, memory=request.memory)
        self._others = ProgramProfilers(lambda: self._recorder.is_recording, self._other_begins)
        self._marks = TrainingMarks(
            model,
            optimizer,
            RecordFunctionMarks(self._recorder),
            batch_size=batch_size,
            layers_file=layers_file,
            between=self._between,
            first=first,
            called=called,
            progress=self._progress,
            window=self._begin,
        )
        atexit.register(self.remove)

    def remove(self) -> None:
        """Write the trace of an open window, and remove all marks."""
        atexit.unregister(self.remove)
        if self._recorder.is_recording:
            self._stop()
        elif not self._is_over and self._request.report is None:  # collect says it
            why = f"the loop ended before iteration {self._begin}; a smaller warmup records it"
            if self._is_late:
                why = _OTHER
            warnings.warn(f"no {self._request.trace.name} was written: {why}", stacklevel=2)
        self._others.remove()
        self._marks.remove()

    def _between(self, iteration: int) -> None:
        # Before the iteration begins.
        self._iteration = iteration
        if self._is_over:
            self._marks.remove_layers()
            return
        if iteration == self._begin:
            if self._others.is_any_running():
                self._postpone()
                return
            if self._is_late:
                self._others.end_open_ranges()
                change_report(problem=None)
            self._recorder.start()
        elif iteration == self._begin + self._request.iterations:
            self._stop()
            self._marks.remove_layers()

    def _other_begins(self) -> None:
        # Before a profiler of the program, in the middle of an iteration.
        recorded = self._iteration - self._begin
        if not recorded:
            self._recorder.discard()
            self._postpone()
            return
        self._stop()
        self._progress.interrupt()
        change_report(
            problem=f"{_OTHER}, which ended the recording after {recorded} iterations; "
            "--profiler nsys records more"
        )

    def _postpone(self) -> None:
        self._is_late = True
        self._begin = self._iteration + 1
        self._progress.postpone(self._begin)
        change_report(problem=f"{_OTHER}; use --profiler nsys")

    def _stop(self) -> None:
        self._is_over = True
        try:
            self._recorder.stop()
        except OSError as error:  # a full disk must not stop the training
            warnings.warn(f"{self._request.trace} was not written ({error})", stacklevel=2)
            return
        if self._request.report is not None:
            report = {
                **self._recorder.describe(),
                "batch_size": self._batch_size,
                "warmup": self._begin,
                "iterations": self._iteration - self._begin,
            }
            self._request.report.write_text(json.dumps(report), encoding="utf-8")
