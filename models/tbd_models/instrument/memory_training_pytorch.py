"""Record the memory of a user's own PyTorch training loop."""

from __future__ import annotations

import atexit
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from tbd_models.instrument.memory_file import MemoryFile
from tbd_models.instrument.memory_pytorch import MemoryRecorder
from tbd_models.instrument.memory_storages_pytorch import (
    BACKWARD,
    FORWARD,
    OPTIMIZER,
    OTHER,
    Place,
    Storages,
)

# Optimizers allocate their state in the first iteration, so its peak differs from the later ones.
ITERATIONS = 3


def open_recorder(
    model: nn.Module,
    path: Path,
    header: dict[str, Any],
    *,
    timed: bool = True,
    place: Place | None = None,
    shown_as: Callable[[Tensor], Tensor] | None = None,
) -> tuple[MemoryRecorder, MemoryFile]:
    """Return a recorder of the device of a model's parameters, and its file.

    ``shown_as`` is that of Storages.
    """
    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    entries = {
        "framework": "pytorch",
        "allocator": "torch" if device.type == "cuda" else "none",
        "device": device.index or 0,
        "device_type": device.type,
    }
    file = MemoryFile(path, entries | header, timed=timed)
    place = place or Place()
    replaced = {} if shown_as is None else {"shown_as": shown_as}
    return MemoryRecorder(model, Storages(file, device, place, **replaced), place), file


class TrainingMemory:
    """Record the memory of a training loop's next iterations.

    An iteration ends with an optimizer step. The forward pass includes the loss. The phase
    ``other`` is the time between backward pass and optimizer step, and from there to the next
    forward pass, in which batches are made.

    Args:
        model: module whose forward pass the loop calls.
        optimizer: its step ends an iteration; None means any optimizer of the model's parameters.
        path: the file to write.
        iterations: iterations to record; None means until ``remove``.
        batch_size: samples per forward pass, for the header.
        called: modules that the loop calls, if it does not call ``model`` itself; see add_called.
        finished: called once the file is written.
        opening: further arguments of open_recorder.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer | None,
        path: Path,
        *,
        iterations: int | None = ITERATIONS,
        batch_size: int | None = None,
        header: dict[str, Any] | None = None,
        called: Sequence[nn.Module] = (),
        finished: Callable[[], None] = lambda: None,
        **opening: Any,
    ) -> None:
        self._optimizer = optimizer
        self._parameters = set(model.parameters())
        self._last = iterations
        self._finished = False
        self._report_end = finished
        self._recorder, self._file = open_recorder(
            model, path, {"batch_size": batch_size} | (header or {}), **opening
        )
        self._place = self._recorder.place
        self._handles: list[Any] = [
            register_optimizer_step_pre_hook(self._step_begins),
            register_optimizer_step_post_hook(self._step_ends),
        ]
        for module in called or (model,):
            self.add_called(module)
        self._backward = torch.autograd.backward
        torch.autograd.backward = self._marked_backward
        self._recorder.start(optimizer)
        self._place.base, self._place.iteration = OTHER, 0
        # A loop of fewer iterations ends with the program.
        atexit.register(self.remove)

    @property
    def storages(self) -> Storages:
        """Return the recorded storages."""
        return self._recorder.storages

    def add_called(self, module: nn.Module) -> None:
        """Let the calls of a module be forward passes."""
        self._handles += [
            module.register_forward_pre_hook(self._forward_begins, prepend=True, with_kwargs=True),
            module.register_forward_hook(self._forward_ends, always_call=True),
        ]

    def remove(self) -> None:
        """Stop recording, publish the file and remove all hooks."""
        self._finish()
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        atexit.unregister(self.remove)

    def _finish(self) -> None:
        if not self._finished:
            self._finished = True
            torch.autograd.backward = self._backward
            self._recorder.stop()
            self._file.close()
            self._report_end()

    def _forward_begins(self, _model: nn.Module, args: Any, kwargs: Any) -> None:
        if self._finished:
            self.remove()
        elif torch._C._current_graph_task_id() == -1:  # checkpointing may run the model again
            self._enter(FORWARD)
            self._recorder.reads("", (args, kwargs))

    def _forward_ends(self, _model: nn.Module, _inputs: Any, _outputs: Any) -> None:
        # The loss follows, except in an evaluation.
        if self._place.base == FORWARD and not torch.is_grad_enabled():
            self._enter(OTHER)

    def _marked_backward(self, *args: Any, **kwargs: Any) -> Any:
        # Reentrant checkpointing runs a backward pass inside another.
        if torch._C._current_graph_task_id() != -1:
            return self._backward(*args, **kwargs)
        self._enter(BACKWARD)
        self._place.backward_passes += 1
        # Tensor.backward passes it by position.
        self._place.create_graph = bool(kwargs.get("create_graph", len(args) > 3 and args[3]))
        try:
            return self._backward(*args, **kwargs)
        finally:
            self._enter(OTHER)

    def _step_begins(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        if self._ends_iteration(optimizer):
            self._recorder.adopt_gradients()
            self._enter(OPTIMIZER)

    def _step_ends(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        if not self._ends_iteration(optimizer):
            return
        self._recorder.adopt_state(optimizer)
        self._enter(OTHER)
        assert self._place.iteration is not None
        self._place.iteration += 1
        if self._place.iteration == self._last:
            # The next forward pass removes the hooks: the optimizer is iterating over its own.
            self._finish()

    def _ends_iteration(self, optimizer: torch.optim.Optimizer) -> bool:
        if self._finished:
            return False
        if self._optimizer is not None:
            return optimizer is self._optimizer
        trained = (p for group in optimizer.param_groups for p in group["params"])
        return any(parameter in self._parameters for parameter in trained)

    def _enter(self, phase: str) -> None:
        self._place.base = phase
        self._place.create_graph = False
        self._place.layers.clear()


@contextmanager
def record_memory(
    model: nn.Module, optimizer: torch.optim.Optimizer | None, path: Path
) -> Iterator[TrainingMemory]:
    """Record the memory of the training loop in the block, and write it to ``path``."""
    memory = TrainingMemory(model, optimizer, path, iterations=None)
    try:
        yield memory
    finally:
        memory.remove()
