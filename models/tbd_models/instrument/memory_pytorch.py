"""Record the memory of a PyTorch training loop by class, layer and phase.

A dispatch mode sees each new storage, a weak reference its end. Hooks on saved tensors, gradients
and optimizer steps give the classes.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from tbd_models.instrument.memory_scratch_pytorch import CudaAllocator, Scratch
from tbd_models.instrument.memory_storages_pytorch import (
    BACKWARD,
    FORWARD,
    OPTIMIZER,
    OTHER,
    RECOMPUTE,
    SETUP,
    Place,
    Storages,
)
from tbd_models.instrument.pytorch import LayerMarks, layer_names

# Class of a new storage by phase, until there is better evidence.
_FIRST_CLASS = {
    SETUP: "unknown",
    FORWARD: "temporary",
    RECOMPUTE: "temporary",
    BACKWARD: "activation_gradient",
    OPTIMIZER: "optimizer_temporary",
    OTHER: "temporary",
}
# They read the shape of their argument, not its values.
_READ_SHAPE = {
    f"aten::{name}_like" for name in ("empty", "full", "ones", "rand", "randn", "zeros")
} | {f"aten::new_{name}" for name in ("empty", "empty_strided", "full", "ones", "zeros")}


class MemoryRecorder:
    """Record a model's training between ``start`` and ``stop``.

    The training loop sets ``place.base`` and ``place.iteration``. A feature map is a storage made
    in the forward pass that autograd saves or that the backward pass reads. Reading in the
    backward pass classifies storages that checkpointing computes again, and those kept in
    attributes of an autograd function.
    """

    def __init__(self, model: nn.Module, storages: Storages, place: Place) -> None:
        self.place = place
        self.storages = storages
        self._model = model
        self._layer_of = _owners(model)
        self.scratch: Scratch | None = None
        self._modes = ExitStack()
        self._handles: list[Any] = []

    def start(self, optimizer: torch.optim.Optimizer | None = None) -> None:
        """Record the live state of model and optimizer, and all storages from now on."""
        for parameter, layer in self._layer_of.items():
            self.storages.adopt(parameter.detach(), "weight", layer)
        for module, name in layer_names(self._model).items():
            self.storages.adopt(list(module.buffers(recurse=False)), "buffer", name)
        self.adopt_gradients()
        if optimizer is not None:
            self.adopt_state(optimizer)
        if self.storages.device.type == "cuda":
            self.scratch = Scratch(self.storages, CudaAllocator(self.storages.device))
        self._handles = [
            parameter.register_post_accumulate_grad_hook(self._adopt_gradient)
            for parameter in self._layer_of
            if parameter.requires_grad
        ]
        self._handles.append(LayerMarks(self._model, _Layers(self.place)))
        self._modes.enter_context(_Operations(self))
        self._modes.enter_context(torch.autograd.graph.saved_tensors_hooks(self.saved, _unchanged))

    def stop(self) -> None:
        """Stop recording; storages that are still live stay so in the file."""
        self._modes.close()
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self.storages.forget()

    def adopt_gradients(self) -> None:
        """Classify the gradients of all parameters."""
        for parameter in self._layer_of:
            self._adopt_gradient(parameter)

    def adopt_state(self, optimizer: torch.optim.Optimizer) -> None:
        """Classify the state of an optimizer."""
        for parameter, state in optimizer.state.items():
            self.storages.adopt(state, "optimizer_state", self._layer_of.get(parameter))
        if self.scratch is not None:  # at the end of an iteration
            self.scratch.read_device()

    def saved(self, tensor: Tensor) -> Tensor:
        """Classify a tensor that autograd saves for the backward pass."""
        for part, storage in self.storages.of(tensor):
            allocation = self.storages.find(storage)
            if allocation is None:
                self.storages.add(part, storage, "input")
            elif allocation.kind == "temporary":
                made = allocation.phase in (FORWARD, RECOMPUTE)
                self.storages.classify(allocation, "feature_map" if made else "input")
        return tensor

    def reads(self, operator: str, arguments: Any) -> set[int]:
        """Classify the storages that an operation is about to read and return their keys."""
        keys = set()
        phase = self.place.phase
        backward = phase == BACKWARD and operator not in _READ_SHAPE
        for tensor, storage in self.storages.of(arguments):
            keys.add(storage._cdata)
            allocation = self.storages.find(storage)
            if allocation is None:
                # Data sets and other objects of the program are not part of the training step
                # until it reads them.
                if phase not in (OTHER, SETUP):
                    kind = "input" if phase == FORWARD else "unknown"
                    self.storages.add(tensor, storage, kind)
            elif allocation.kind != "temporary":
                continue
            elif backward and allocation.phase in (FORWARD, RECOMPUTE):
                self.storages.classify(allocation, "feature_map")
            elif phase == FORWARD and allocation.phase == OTHER:
                self.storages.classify(allocation, "input")
        return keys

    def makes(self, operator: str, read: set[int], results: Any) -> None:
        """Record the storages that an operation has made; ``read`` are those of its arguments."""
        for tensor, storage in self.storages.of(results):
            if self.storages.find(storage) is not None:
                self.storages.resized(tensor, storage, operator)
            elif storage._cdata not in read:
                kind = _FIRST_CLASS[self.place.phase]
                self.storages.add(tensor, storage, kind, layer=self.place.layer, operator=operator)

    def _adopt_gradient(self, parameter: Tensor) -> None:
        if parameter.grad is not None:
            layer = self._layer_of.get(parameter)
            self.storages.adopt(parameter.grad, "weight_gradient", layer)


class _Operations(TorchDispatchMode):
    def __init__(self, recorder: MemoryRecorder) -> None:
        super().__init__()
        self._recorder = recorder

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        operator = func._schema.name
        scratch = None if func.is_view else self._recorder.scratch
        read = self._recorder.reads(operator, (args, kwargs))
        if scratch is not None:
            scratch.begin()
        out = func(*args, **(kwargs or {}))
        self._recorder.makes(operator, read, out)
        if scratch is not None:
            scratch.end(operator)
        return out


class _Layers:
    # LayerMarks calls push and pop of this class, which thereby knows the running layer.

    def __init__(self, place: Place) -> None:
        self._place = place

    def push(self, text: str) -> None:
        self._place.layers.append(text.partition(":")[2])

    def pop(self) -> None:
        if self._place.layers:
            self._place.layers.pop()

    def start(self, text: str) -> None:
        pass  # Marks protocol; layers use push and pop

    def end(self, handle: None) -> None:
        pass


def _owners(model: nn.Module) -> dict[Tensor, str]:
    # A parameter shared by several modules belongs to the first.
    owners: dict[Tensor, str] = {}
    for module, name in layer_names(model).items():
        for parameter in module.parameters(recurse=False):
            owners.setdefault(parameter, name)
    return owners


def _unchanged(tensor: Tensor) -> Tensor:
    return tensor
