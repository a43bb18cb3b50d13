"""Mark iterations, phases and layers of a user's own PyTorch training loop."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from tbd_models.instrument.layer import Layer
from tbd_models.instrument.layers_pytorch import Measurement
from tbd_models.instrument.loader_pytorch import LoaderCalls
from tbd_models.instrument.marks import Marks, NoMarks, NvtxMarks, WindowMarks, iteration_text
from tbd_models.instrument.progress import Progress
from tbd_models.instrument.pytorch import LayerMarks


class TrainingMarks:
    """Mark iterations, phases and layers of a training loop until ``remove``.

    An iteration ends with an optimizer step. Within it, calls of a ``DataLoader`` between the
    other phases are the phase ``data``; a loop without one has none, because loading looks like
    logging there. The time between forward and backward pass is the phase ``loss``. With
    gradient accumulation phases repeat. All other time before a forward pass or after a backward
    pass belongs to no phase. A step skipped by a gradient scaler ends no iteration.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        marks: Marks | None = None,
        batch_size: int | None = None,
        *,
        layers_file: Path | None = None,
        between: Callable[[int], None] = lambda _number: None,
        first: int = 0,
        called: Sequence[nn.Module] = (),
        progress: Progress | None = None,
        window: int = 0,
    ) -> None:
        """Mark from now on.

        Args:
            model: module with the layers.
            optimizer: its step ends an iteration.
            marks: receiver of the ranges; None for NVTX. Without marks, iterations are only timed.
            batch_size: samples per forward pass.
            layers_file: file for sizes and FLOP of the layers.
            between: gets the number of each iteration before it begins.
            first: number of the first iteration.
            called: modules that the loop calls, if it does not call ``model`` itself.
            progress: gets the begin and end of iterations; marks end with its window.
            window: number of the first iteration that is analysed. Before it, the only ranges are
                ``warm-up N`` around iterations; queries count ``iteration N`` alone. Layers have
                hooks in the first iteration and from the one before the window on, because hooks
                slow down the program, too.
        """
        self._marks = WindowMarks(NvtxMarks() if marks is None else marks)
        # The first range of a process takes long; this one marks no iteration, phase or layer.
        self._marks.receiver.end(self._marks.receiver.start("marks begin"))
        # Layers have the names that they have on one rank.
        layers = model.module if isinstance(model, DistributedDataParallel) else model
        is_marked = not isinstance(marks, NoMarks)
        if is_marked and isinstance(model, DistributedDataParallel):
            _mark_buckets(model, self._marks)
        self._between = between
        self._progress = Progress(None) if progress is None else progress
        self._batch_size = batch_size
        self._layers_file = layers_file
        self._measurement = Measurement(layers) if layers_file is not None else None
        self._measured_passes = 0
        self._number = first
        self._window = window
        self._without_layers = range(first + 1, window - 1)
        self._steps_now = False
        self._has_ended = False  # the window
        self._thread = 0
        self._iteration: Any = None
        self._phase: str | None = None
        self._phase_range: Any = None
        self._layer_marks = LayerMarks(layers if is_marked else nn.Module(), self._marks)
        self._handles: list[Any] = [
            optimizer.register_step_pre_hook(self._step_begins),
            optimizer.register_step_post_hook(self._step_ends),
        ]
        for module in called or (model,):
            self._handles += [
                module.register_forward_pre_hook(self._forward_begins, prepend=True),
                module.register_forward_hook(self._forward_ends, always_call=True),
            ]
        self._backward = torch.autograd.backward
        torch.autograd.backward = self._marked_backward
        self._loader_calls = LoaderCalls(self._loading)
        self._begin_iteration()

    def remove(self) -> None:
        """Remove all marks; an open range stays open."""
        for handle in self._handles:
            handle.remove()
        self._layer_marks.remove()
        if self._measurement is not None:
            self._end_measurement()
        if torch.autograd.backward == self._marked_backward:  # else something else replaced it
            torch.autograd.backward = self._backward
        self._loader_calls.remove()

    def remove_layers(self) -> None:
        """Remove the marks of layers only."""
        self._layer_marks.remove()

    def _begin_iteration(self) -> None:
        self._between(self._number)
        if self._progress.ends_window(self._number):
            self._layer_marks.remove()
            self._has_ended = True
        elif self._number in self._without_layers:
            if not _is_compiled():
                self._layer_marks.remove()
        elif self._number == self._without_layers.stop:
            self._layer_marks.add()
        self._progress.iteration_begins(self._number)
        self._marks.is_open = self._window <= self._number and not self._has_ended
        text = iteration_text(self._number, self._window)
        self._iteration = None if self._has_ended else self._marks.receiver.start(text)
        self._thread = threading.get_ident()
        self._number += 1

    def _enter(self, phase: str | None) -> None:
        # None ends the current phase without beginning another.
        if self._phase is not None:
            self._marks.end(self._phase_range)
        self._phase = phase
        if phase is not None:
            self._phase_range = self._marks.start(f"phase:{phase}")

    @contextmanager
    def _loading(self) -> Iterator[None]:
        # Other threads load for themselves; inside another phase, such as the loss, a loader does
        # not feed the forward pass.
        if self._phase is not None or threading.get_ident() != self._thread:
            yield
            return
        self._enter("data")
        try:
            yield
        finally:
            if self._phase == "data":
                self._enter(None)

    def _forward_begins(self, model: nn.Module, _inputs: Any) -> None:
        if self._has_ended and self._progress.is_done:
            # Not at the end of the step: PyTorch iterates over the optimizer's hooks there.
            self.remove()
            return
        if not (model.training and torch.is_grad_enabled()):
            return  # evaluation
        if self._measurement is not None:
            if not self._measured_passes:
                self._measurement.begin()
            self._measured_passes += 1
        self._enter("forward")

    def _forward_ends(self, model: nn.Module, _inputs: Any, _outputs: Any) -> None:
        if model.training and torch.is_grad_enabled():
            self._enter("loss")

    def _marked_backward(self, *args: Any, **kwargs: Any) -> Any:
        with self._in_backward():
            return self._backward(*args, **kwargs)

    @contextmanager
    def _in_backward(self) -> Iterator[None]:
        # Gradient checkpointing runs a backward pass inside another.
        if torch._C._current_graph_task_id() != -1:
            yield
            return
        self._enter("backward")
        try:
            yield
        finally:
            self._enter("optimizer" if self._steps_now else None)
        self._finish_measurement()

    def _step_begins(self, _optimizer: Any, given: Any, named: Any) -> None:
        # The first of the arguments is the optimizer. A closure runs both passes inside the step,
        # as in Lightning.
        self._steps_now = True
        if next((value for value in (*given[1:], named.get("closure")) if value), None) is None:
            self._finish_measurement()
            self._enter("optimizer")

    def _step_ends(self, *_: Any) -> None:
        self._steps_now = False
        self._enter(None)
        self._marks.end(self._iteration)
        self._progress.iteration_ends()
        self._begin_iteration()

    def _finish_measurement(self) -> None:
        # After the first backward pass, or the first step without one.
        if self._layers_file is None or not self._measured_passes or self._measurement is None:
            return
        samples = None if self._batch_size is None else self._batch_size * self._measured_passes
        layers = [layer.entry(samples) for layer in self._end_measurement()]
        document = {"format_version": 1, "layers": layers}
        with suppress(OSError):  # a full disk must not stop the training
            self._layers_file.write_text(json.dumps(document), encoding="utf-8")

    def _end_measurement(self) -> list[Layer]:
        assert self._measurement is not None
        measurement, self._measurement = self._measurement, None
        return measurement.end()


def _is_compiled() -> bool:
    # Compiled code has the hooks that there were when it was compiled.
    compiler = sys.modules.get("torch._dynamo.utils")
    return compiler is not None and bool(compiler.counters["stats"])


def _mark_buckets(model: DistributedDataParallel, marks: Marks) -> None:
    from tbd_models.instrument.buckets_pytorch import mark_buckets  # noqa: PLC0415

    with suppress(RuntimeError):  # the program has its own hook, and there can be one
        mark_buckets(model, marks)
