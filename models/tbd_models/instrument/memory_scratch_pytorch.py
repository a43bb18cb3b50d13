"""Measure the GPU memory that libraries allocate beside tensors: scratch of cuDNN and cuBLAS."""

from __future__ import annotations

from typing import Any, Protocol

import torch

from tbd_models.instrument.memory_storages_pytorch import Storages


class Allocator(Protocol):
    """Counters of requested bytes in a caching allocator."""

    def current(self) -> int:
        """Return the bytes that are allocated."""

    def peak(self) -> int:
        """Return the most bytes since ``reset``."""

    def reset(self) -> None:
        """Start a new peak at the current bytes."""

    def device_bytes(self) -> tuple[int, int, int]:
        """Return bytes in use on the device, its size, and bytes that the allocator holds."""


class CudaAllocator:
    """Counters of PyTorch's caching allocator on one GPU."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def current(self) -> int:
        return self._requested()["current"]

    def peak(self) -> int:
        return self._requested()["peak"]

    def reset(self) -> None:
        torch.cuda.reset_peak_memory_stats(self._device)

    def device_bytes(self) -> tuple[int, int, int]:
        free, total = torch.cuda.mem_get_info(self._device)
        return total - free, total, torch.cuda.memory_reserved(self._device)

    def _requested(self) -> Any:
        return torch.cuda.memory_stats_as_nested_dict(self._device)["requested_bytes"]["all"]


class Scratch:
    """Record memory of the allocator that no storage accounts for.

    Memory that an operation frees before it returns is an allocation between the births of its
    results and the next event. Memory that libraries keep, such as the workspace of cuBLAS, is one
    allocation that changes its size.
    """

    def __init__(self, storages: Storages, allocator: Allocator) -> None:
        self._storages = storages
        self._allocator = allocator
        # Other tensors than those of model and optimizer.
        storages.set_before(allocator.current() - storages.live_bytes)

    def begin(self) -> None:
        """Prepare for an operation."""
        self._allocator.reset()

    def end(self, operator: str) -> None:
        """Record the scratch memory of the operation that has just returned."""
        now = self._allocator.current()
        self._storages.keep(now - self._storages.live_bytes - self._storages.before_bytes)
        passing = self._allocator.peak() - now
        if passing > 0:
            self._storages.pass_through(passing, operator)

    def read_device(self) -> None:
        """Record how much of the device is in use, also outside the allocator."""
        self._storages.read_device(*self._allocator.device_bytes())
