"""Mark a user's own PyTorch training loop with two lines of code."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import nn

from tbd_models.instrument.marks import LAYERS_VARIABLE, MEMORY_VARIABLE, NoMarks
from tbd_models.instrument.memory_training_pytorch import TrainingMemory
from tbd_models.instrument.profiler_training_pytorch import (
    ITERATIONS,
    TRACE,
    TraceRequest,
    TrainingTrace,
    requested,
)
from tbd_models.instrument.progress import WARMUP, Progress
from tbd_models.instrument.progress import requested as requested_progress
from tbd_models.instrument.training_marks_pytorch import TrainingMarks
from tbd_models.instrument.trial_request import requested as requested_trial

__all__ = ["TrainingMarks", "instrument"]

Marked = TrainingMarks | TrainingTrace


class _Both:
    # Marks and the memory recorder. Removed in reverse order, as each replaces the function
    # torch.autograd.backward.

    def __init__(self, marks: Marked, memory: TrainingMemory) -> None:
        self._parts = (memory, marks)

    def remove(self) -> None:
        for part in self._parts:
            part.remove()


def instrument(
    model: nn.Module,
    optimizer: torch.optim.Optimizer | None,
    *,
    batch_size: int | None = None,
    memory: bool | str | os.PathLike[str] = False,
    profiler: str | None = None,
    trace: str | os.PathLike[str] = TRACE,
    warmup: int = WARMUP,
    iterations: int = ITERATIONS,
) -> Marked | TrainingMemory | _Both:
    """Mark iterations, phases and layers of a training loop on the timeline.

    Call it once before the loop; the loop stays unchanged. Under ``tbd-trace collect`` it also
    writes layers.json during the first iteration, which becomes slower.

    Args:
        model: module whose forward pass the loop calls.
        optimizer: its step ends an iteration; None is possible with ``memory`` alone, which then
            uses any optimizer of the model's parameters and emits no marks.
        batch_size: samples per forward pass; without it FLOP per sample are unknown.
        memory: file in which to record the memory of the first three iterations, which become
            slower; True means ``TBD_TRACE_MEMORY`` or ``memory.jsonl``.
        profiler: ``torch`` records iterations with torch.profiler; ``tbd-trace collect --profiler
            torch`` requests it too, with its own file and window.
        trace: file that torch.profiler writes.
        warmup: iterations before the recorded ones.
        iterations: iterations to record.

    Raises:
        ImportError: the package ``nvtx`` is missing.
        ValueError: neither an optimizer nor ``memory`` is given, or the profiler is unknown.
    """
    if profiler not in (None, "torch"):
        raise ValueError(f"profiler is {profiler!r}; only 'torch' runs inside the program")
    request = requested()
    if request is None and profiler is not None:
        request = TraceRequest(Path(trace), warmup, iterations)
    if optimizer is None and (profiler is not None or not memory):
        raise ValueError("marks need the optimizer, whose step ends an iteration")
    marks = None if optimizer is None else training_marks(model, optimizer, batch_size, request)
    if not memory:
        assert marks is not None
        return marks
    path = os.environ.get(MEMORY_VARIABLE, "memory.jsonl") if memory is True else memory
    recorded = TrainingMemory(model, optimizer, Path(path), batch_size=batch_size)
    return recorded if marks is None else _Both(marks, recorded)


def training_marks(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    batch_size: int | None,
    request: TraceRequest | None,
    *,
    first: int = 0,
    called: Sequence[nn.Module] = (),
) -> Marked:
    """Return the marks of a loop, which also record a trace if there is a ``request``.

    ``first`` and ``called`` are those of TrainingMarks.
    """
    named = os.environ.get(LAYERS_VARIABLE)
    layers_file = Path(named) if named else None
    on_gpu = any(parameter.is_cuda for parameter in model.parameters())
    wait = torch.cuda.synchronize if on_gpu else None
    progress = Progress(requested_progress(), first, wait)
    if request is not None:
        return TrainingTrace(
            model,
            optimizer,
            request,
            batch_size=batch_size,
            layers_file=layers_file,
            first=first,
            called=called,
            progress=progress,
        )
    trial = requested_trial()
    return TrainingMarks(
        model,
        optimizer,
        # Iterations of a trial are timed, and nothing sees marks.
        NoMarks() if trial is not None and trial.is_timed else None,
        batch_size=batch_size,
        layers_file=layers_file,
        first=first,
        called=called,
        progress=progress,
        window=progress.window,
    )
