"""Record the memory of an unedited PyTorch program, from its first training call on.

The first call of a module with trained parameters, in training mode and with gradients, shows what
the program trains. Recording begins before this call, so that no activation needs memory if tensors
are fake.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tbd_models.instrument.first_process import is_recorded
from tbd_models.instrument.marks import MEMORY_VARIABLE
from tbd_models.instrument.memory_request import MemoryRequest
from tbd_models.instrument.memory_storages_pytorch import Place
from tbd_models.instrument.memory_training_pytorch import ITERATIONS, TrainingMemory
from tbd_models.instrument.trained_models_pytorch import joined, models, optimizers_found
from tbd_models.json_file import write_json
from tbd_models.pytorch.estimate import assumptions, kernels_of, update_at_once
from tbd_models.unedited.attention_pytorch import ASSUMED, attention_of_cuda
from tbd_models.unedited.batches_pytorch import Batches
from tbd_models.unedited.blocks_pytorch import Blocks
from tbd_models.unedited.fake_tensors_pytorch import FakeTraining
from tbd_models.unedited.without_gpu_pytorch import WithoutGpu


def install(request: MemoryRequest, is_active: Callable[[], bool]) -> None:
    """Wait for the first training call of the program.

    Args:
        request: how to find the memory.
        is_active: returns False once the program has called ``tbd_trace.instrument``.
    """
    path = Path(os.environ[MEMORY_VARIABLE])
    if is_recorded(path):
        _Watch(request, path, is_active)


class _Watch:
    # Replaces the call of modules: hooks that a hook adds to a running module would begin with the
    # end of its call.

    def __init__(self, request: MemoryRequest, path: Path, is_active: Callable[[], bool]) -> None:
        self._request = request
        self._path = path
        self._batches = Batches(request.batch_size)
        needs_gpu = request.fake and not torch.cuda.is_available()
        self._without_gpu = WithoutGpu() if needs_gpu else None
        self._run: _Recorded | None = None
        self._depth = 0
        self._called: list[nn.Module] = []
        original, watch = nn.Module.__call__, self

        def call(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            if watch._depth == 0 and is_active():
                args, kwargs = watch._outermost(module, args, kwargs)
            watch._depth += 1
            try:
                return original(module, *args, **kwargs)
            finally:
                watch._depth -= 1

        nn.Module.__call__ = call  # type: ignore[method-assign]

    def _outermost(self, module: nn.Module, args: Any, kwargs: Any) -> Any:
        is_training = module.training and torch.is_grad_enabled()
        if is_training and not any(module is known for known in self._called):
            self._add(module, args, kwargs)
        return (args, kwargs) if self._run is None else self._run.with_batch((args, kwargs))

    def _add(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        if not any(parameter.requires_grad for parameter in module.parameters()):
            return
        self._called.append(module)
        if self._run is None:
            self._batches.note_call((args, kwargs))
            self._run = _Recorded(self._request, self._path, self._batches, module)
            self._run.compiles = self._without_gpu is not None and self._without_gpu.is_compiled
        else:
            self._run.memory.add_called(module)


class _Recorded:
    def __init__(
        self, request: MemoryRequest, path: Path, batches: Batches, called: nn.Module
    ) -> None:
        self._request = request
        self._batches = batches
        optimizers = optimizers_found()
        found = models(optimizers) or [called]
        self._model = found[0] if len(found) == 1 else joined(found)
        self._model_name = " and ".join(type(one).__name__ for one in found)
        self._place = place = Place()
        self._has_failed = False
        _call_before_traceback(self._note_failure)
        self.compiles = False  # the program called torch.compile, which was left out
        self._boundary = " and ".join(sorted({type(one).__name__ for one in optimizers}))
        self._fake: FakeTraining | None = None
        self._kernels = ExitStack()
        self._blocks = Blocks(self._model, place)
        opening: dict[str, Any] = {"place": place, "timed": not request.fake}
        if request.fake:
            self._fake = self._begin_fake(place, optimizers)
            opening["shown_as"] = self._fake.fake
        self._blocks.checkpoint(request.checkpointed)
        self.memory = TrainingMemory(
            self._model,
            None,
            path,
            iterations=ITERATIONS * max(1, len(optimizers)),
            batch_size=batches.used,
            header=self._header(),
            called=[called],
            finished=self._finish,
            **opening,
        )
        self._blocks.storages = self.memory.storages
        if self._fake is not None:
            self._fake.finish_start()

    def with_batch(self, arguments: Any) -> Any:
        """Return the arguments of a call with the batch that is asked for."""
        return arguments if self._fake is None else self._fake.with_batch(arguments)

    def _begin_fake(self, place: Place, optimizers: list[torch.optim.Optimizer]) -> FakeTraining:
        fake = FakeTraining(place, self._batches.shape, self._blocks.note_operation)
        self._batches.while_loading = fake.paused
        self._kernels.enter_context(kernels_of(self._request.device))
        if self._request.device == "cuda":
            self._kernels.enter_context(attention_of_cuda())
        fake.start()
        for tensor in (*self._model.parameters(), *self._model.buffers()):
            fake.keep_state(tensor)
        if self._request.device == "cuda":
            for optimizer in optimizers:
                update_at_once(optimizer)
        return fake

    def _header(self) -> dict[str, Any]:
        if not self._request.fake:
            return {}
        device = self._request.device
        return {
            "device_type": device,
            "allocator": "torch" if device == "cuda" else "none",
            "estimated": True,
            "assumptions": assumptions(device) if device == "cpu" else _assumed_of_cuda(),
        }

    def _note_failure(self) -> None:
        self._has_failed = True

    def _finish(self) -> None:
        if self._has_failed:  # the log ends in the middle, and the exit code says so
            return
        values = self._fake.values if self._fake else None
        document = {
            "framework": "pytorch",
            "framework_version": torch.__version__,
            "model": self._model_name,
            "optimizer": self._boundary,
            "iterations": self._place.iteration,
            "batch_size": self._batches.size,
            "batch_source": self._batches.source,
            "assumed_scalars": values.scalars if values else 0,
            "assumed_shapes": list(values.shapes) if values else [],
            "is_compiled": self.compiles,
            "blocks": self._blocks.report(),
        }
        with suppress(OSError):
            write_json(self._request.report, document)
        if self._fake is None:
            return
        # Weights of fake tensors have no values: nothing may be saved, also not at exit.
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(0)


def _call_before_traceback(note: Callable[[], None]) -> None:
    original = sys.excepthook

    def hook(*exception: Any) -> None:
        note()
        original(*exception)

    sys.excepthook = hook


def _assumed_of_cuda() -> list[str]:
    return [ASSUMED, *(text for text in assumptions("cuda") if "attention" not in text)]
