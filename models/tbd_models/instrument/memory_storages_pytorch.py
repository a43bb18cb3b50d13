"""Record births, classes and deaths of PyTorch storages."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor

from tbd_models.instrument.memory_file import MemoryFile
from tbd_models.instrument.pytorch import tensors

SETUP, FORWARD, BACKWARD, RECOMPUTE, OPTIMIZER, OTHER = (
    "setup",
    "forward",
    "backward",
    "recompute",
    "optimizer",
    "other",
)


@dataclass(slots=True)
class Place:
    """Iteration, phase and layer that the program is in."""

    iteration: int | None = None
    base: str = SETUP  # phase of the training loop, without recomputation
    layers: list[str] = field(default_factory=list)  # running layers, innermost last
    backward_passes: int = 0  # so far
    create_graph: bool = False  # the backward pass is itself differentiated

    @property
    def layer(self) -> str | None:
        """Return the innermost running layer."""
        return self.layers[-1] if self.layers else None

    @property
    def phase(self) -> str:
        """Return the phase, recognizing recomputation and gradients computed inside the loss."""
        # Autograd disables gradients in a backward pass; checkpointing enables them to run its
        # part of the forward pass again.
        in_graph = torch._C._current_graph_task_id() != -1
        if self.base == BACKWARD and in_graph and not self.create_graph:
            return RECOMPUTE if torch.is_grad_enabled() else BACKWARD
        if self.base == FORWARD and in_graph and not torch.is_grad_enabled():
            return BACKWARD
        return self.base


@dataclass(slots=True)
class Allocation:
    """A live storage."""

    address: int  # number of the allocation
    bytes: int
    kind: str  # class
    phase: str  # of birth
    reference: Any  # weak reference whose callback records the death


@dataclass(slots=True)
class _Block:
    # Memory that is not a storage, as one allocation that changes its size.
    kind: str
    address: int = 0
    bytes: int = 0


def _itself(tensor: Tensor) -> Tensor:
    return tensor


class Storages:
    """Record the storages of one device in a file.

    Addresses are consecutive numbers: fake tensors have no addresses, and runs can be compared.
    """

    def __init__(
        self,
        file: MemoryFile,
        device: torch.device,
        place: Place,
        shown_as: Callable[[Tensor], Tensor] = _itself,
    ) -> None:
        """Write to a file; ``shown_as`` gets a tensor and returns the one that is recorded."""
        self._shown_as = shown_as
        self._file = file
        self.device = device
        self._place = place
        self._live: dict[int, Allocation] = {}
        self._born = 0
        self._kept = _Block("workspace")
        self._before = _Block("unknown")
        self.live_bytes = 0  # of storages

    def of(self, value: Any) -> Iterator[tuple[Tensor, Any]]:
        """Yield the tensors on the device in nested values, each with its storage."""
        for tensor in tensors(value):
            yield from self._parts(self._shown_as(tensor))

    def find(self, storage: Any) -> Allocation | None:
        """Return the allocation of a storage, None if it is unrecorded."""
        return self._live.get(storage._cdata)

    def add(
        self,
        tensor: Tensor,
        storage: Any,
        kind: str,
        *,
        layer: str | None = None,
        operator: str | None = None,
    ) -> None:
        """Record a storage by the tensor that shows it first; ``operator`` if that made it."""
        key = storage._cdata
        # The weak reference lives as long as the entry, so a dead storage's key is never found.
        gone = weakref.ref(storage, partial(self._died, key))
        phase = self._place.phase
        made = Allocation(self._born, storage.nbytes(), kind, phase, gone)
        self._born += 1
        self._live[key] = made
        if operator is None and self._before.bytes:
            self.set_before(self._before.bytes - made.bytes)
        self._write_birth(made, tensor, layer, operator)

    def adopt(self, value: Any, kind: str, layer: str | None = None) -> None:
        """Give the storages of tensors a class, as new allocations if they are unrecorded."""
        for tensor, storage in self.of(value):
            allocation = self.find(storage)
            if allocation is None:
                self.add(tensor, storage, kind, layer=layer)
            elif allocation.kind != kind:
                self.classify(allocation, kind, layer)

    def classify(self, allocation: Allocation, kind: str, layer: str | None = None) -> None:
        """Change the class of an allocation, and its layer if one is given."""
        allocation.kind = kind
        self._file.classify(allocation.address, kind, layer)

    def resized(self, tensor: Tensor, storage: Any, operator: str) -> None:
        """Record a changed size as a free and an allocation."""
        allocation = self.find(storage)
        if allocation is None or allocation.bytes == storage.nbytes():
            return
        self._write_death(allocation)
        allocation.address, allocation.bytes = self._born, storage.nbytes()
        self._born += 1
        self._write_birth(allocation, tensor, self._place.layer, operator)

    @property
    def before_bytes(self) -> int:
        """Return the bytes live before recording that no storage accounts for yet."""
        return self._before.bytes

    def set_before(self, size: int) -> None:
        """Record the bytes live before recording that no storage accounts for yet."""
        self._resize(self._before, max(0, size))

    def read_device(self, used: int, total: int, reserved: int) -> None:
        """Record the bytes in use on the device, its size and the bytes of the allocator."""
        self._file.device(used, total, reserved)

    def keep(self, size: int) -> None:
        """Record the bytes that libraries keep beside storages."""
        self._resize(self._kept, max(0, size))

    def pass_through(self, size: int, operator: str) -> None:
        """Record bytes that an operation allocated beside storages and freed."""
        block = _Block("workspace")
        self._resize(block, size, operator)
        self._resize(block, 0)

    def forget(self) -> None:
        """Stop recording deaths."""
        self._live.clear()

    def _parts(self, tensor: Tensor) -> Iterator[tuple[Tensor, Any]]:
        if tensor.device != self.device:
            return
        if tensor.layout is torch.sparse_coo:
            yield from self._parts(tensor._indices())
            yield from self._parts(tensor._values())
        elif tensor.layout is torch.strided:
            try:
                yield tensor, tensor.untyped_storage()
            except NotImplementedError:
                return  # wrapper tensors without storage

    def _resize(self, block: _Block, size: int, operator: str | None = None) -> None:
        if block.bytes == size:
            return
        if block.bytes:
            self._file.free(block.address, block.bytes)
        block.address, block.bytes = self._born, size
        self._born += 1
        if size:
            self._file.alloc(
                block.address,
                size,
                **{"class": block.kind},
                layer=self._place.layer if operator else None,
                phase=self._place.phase,
                iteration=self._place.iteration,
                operator=operator,
            )

    def _write_birth(
        self, made: Allocation, tensor: Tensor, layer: str | None, operator: str | None
    ) -> None:
        self.live_bytes += made.bytes
        self._file.alloc(
            made.address,
            made.bytes,
            **{"class": made.kind},
            layer=layer,
            phase=self._place.phase,
            iteration=self._place.iteration,
            operator=operator,
            shape="x".join(map(str, tensor.shape)),
            dtype=str(tensor.dtype).removeprefix("torch."),
        )

    def _write_death(self, dead: Allocation) -> None:
        self.live_bytes -= dead.bytes
        self._file.free(dead.address, dead.bytes)

    def _died(self, key: int, _reference: Any) -> None:
        dead = self._live.pop(key, None)
        if dead is not None:
            self._write_death(dead)
