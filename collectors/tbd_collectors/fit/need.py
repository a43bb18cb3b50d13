"""Compute the device memory that a log needs, as named terms, and what holds it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from tbd_collectors.fit.memory_log import Allocation, Change, MemoryLog
from tbd_collectors.fit.sharding import Sharding
from tbd_trace.sources.torch_memory.caching_allocator import Block, CachingAllocator, rounded

CONTEXT_BYTES = 500 << 20  # as the query memory_vs_batch assumes
# Default of PyTorch before Hopper GPUs: CUBLAS_WORKSPACE_CONFIG=:4096:2:16:8.
CUBLAS_BYTES = (4096 * 2 + 16 * 8) << 10


@dataclass(frozen=True, slots=True)
class Need:
    """Memory of a device; terms are bytes, and add to the total."""

    terms: dict[str, int]
    classes: dict[str, int]  # of the tensors at their peak
    layers: dict[str, dict[str, int]]  # class and bytes by layer, largest first

    @property
    def total(self) -> int:
        """Return the bytes of the device."""
        return sum(self.terms.values())

    @property
    def peak(self) -> int:
        """Return the bytes of tensors at their peak, as requested."""
        return self.terms["tensors at the peak"]


def need(log: MemoryLog, device: str, sharding: Sharding | None = None) -> Need:
    """Return what a log needs of a device, ``cuda`` or ``cpu``.

    On ``cuda``, blocks and segments are those of PyTorch's caching allocator. On ``cpu``, tensors
    alone count.
    """
    extra = 0
    if sharding is not None:
        extra = sharding.gathered_bytes(log)
        log = log.resized(sharding.size)
    live = _live_at_peak(log)
    peak = sum(one.bytes for one in live)
    terms = {"tensors at the peak": peak}
    if device == "cuda":
        allocated = sum(rounded(one.bytes) for one in live if one.bytes)
        terms["rounding of the allocator"] = allocated - peak
        terms["cached by the allocator"] = reserved(log.changes()) - allocated
        terms["workspace of cuBLAS"] = CUBLAS_BYTES
        terms["CUDA context and kernels"] = CONTEXT_BYTES
    if extra:
        terms["gathered weights"] = extra
    return Need(terms, _by_class(live), _by_layer(live))


def reserved(changes: Iterable[Change]) -> int:
    """Return the most bytes that PyTorch's caching allocator reserves."""
    allocator = CachingAllocator()
    blocks: dict[int, Block] = {}
    for number, size in changes:
        if number in blocks:
            allocator.free(blocks.pop(number))
        elif size >= 0:
            blocks[number] = allocator.allocate(size)
    return allocator.peak_reserved_bytes


def peak_bytes(changes: Iterable[Change]) -> int:
    """Return the most live bytes."""
    live = most = 0
    for _, size in changes:
        live += size
        most = max(most, live)
    return most


def _live_at_peak(log: MemoryLog) -> list[Allocation]:
    live = most = last = 0
    for place, (_, size) in enumerate(log.changes()):
        live += size
        if live > most:
            most, last = live, place
    numbers: dict[int, None] = {}
    for number, begins in log.order[: last + 1]:
        if begins:
            numbers[number] = None
        else:
            numbers.pop(number, None)
    return [log.allocations[number] for number in numbers]


def _by_class(live: Iterable[Allocation]) -> dict[str, int]:
    found: dict[str, int] = defaultdict(int)
    for one in live:
        found[one.kind] += one.bytes
    return dict(sorted(found.items(), key=lambda entry: -entry[1]))


def _by_layer(live: Iterable[Allocation]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for one in live:
        found[one.layer or "no layer"][one.kind] += one.bytes
    ordered = sorted(found.items(), key=lambda entry: -sum(entry[1].values()))
    return {layer: dict(kinds) for layer, kinds in ordered}
