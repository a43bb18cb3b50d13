"""Model the bytes that PyTorch's CUDA allocator would hold for the allocations of a log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tbd_trace.sources.torch_memory.caching_allocator import Block, CachingAllocator

Event = tuple[int, str, int, int, int]  # sequence, action, address, bytes, stream


def reserved_bytes(events: Iterable[Event]) -> Iterator[tuple[int, int]]:
    """Yield the events that change the reserved bytes, each with the bytes reserved after it."""
    allocator = CachingAllocator()
    blocks: dict[int, Block] = {}
    reserved = 0
    for sequence, action, address, size, stream in events:
        if action == "alloc":
            blocks[address] = allocator.allocate(size, stream)
        elif action == "free" and address in blocks:
            allocator.free(blocks.pop(address))
        if allocator.reserved_bytes != reserved:
            reserved = allocator.reserved_bytes
            yield sequence, reserved
