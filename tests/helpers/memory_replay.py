"""Replay real memory snapshots of PyTorch in the simulated allocator."""

from __future__ import annotations

import io
import pickle
from bisect import bisect_right
from itertools import pairwise
from pathlib import Path
from typing import Any

from tbd_trace.sources.torch_memory.caching_allocator import (
    Block,
    CachingAllocator,
    Segment,
    _FreeList,
    rounded,
)

MIB = 2**20


class PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"{module}.{name}")

    def persistent_load(self, pid: Any) -> Any:
        raise pickle.UnpicklingError(str(pid))


def load(path: Path) -> dict[str, Any]:
    return PlainUnpickler(io.BytesIO(path.read_bytes())).load()


def start_state(snapshot: dict[str, Any]) -> tuple[dict[int, dict], dict[int, tuple[int, int]]]:
    """Undo the history: return segments and live blocks (size, requested) before it."""
    segments = {segment["address"]: segment for segment in snapshot["segments"]}
    live = {}
    for segment in snapshot["segments"]:
        address = segment["address"]
        for block in segment["blocks"]:
            if block["state"].startswith("active"):
                requested = block.get("requested_size", block["size"])
                live[block.get("address", address)] = (block["size"], requested)
            address += block["size"]
    for event in reversed(snapshot["device_traces"][0]):
        match event["action"]:
            case "alloc":
                live.pop(event["addr"])
            case "free_completed":
                live[event["addr"]] = (rounded(event["size"]), event["size"])
            case "segment_alloc":
                segments.pop(event["addr"])
            case "segment_free":
                small = event["size"] <= 2 * MIB
                segments[event["addr"]] = {
                    "total_size": event["size"],
                    "segment_type": "small" if small else "large",
                    "stream": event["stream"],
                }
    return segments, _with_remainders(snapshot, live)


def _with_remainders(snapshot, live):
    # Events have requested sizes. A large block can be up to 1 MiB longer, which is visible if a
    # block behind it is allocated while it lives.
    starts = sorted(live)
    unseen = set(live)
    for event in snapshot["device_traces"][0]:
        if event["action"] == "free_completed":
            unseen.discard(event["addr"])
        elif event["action"] == "alloc":
            before = bisect_right(starts, event["addr"]) - 1
            if before >= 0 and starts[before] in unseen:
                size, requested = live[starts[before]]
                if size > MIB and 0 < event["addr"] - starts[before] - size <= MIB:
                    live[starts[before]] = (event["addr"] - starts[before], requested)
    return live


def allocator_at_start(snapshot: dict[str, Any]) -> tuple[CachingAllocator, dict[int, Block]]:
    """Return an allocator in the state before the history, and its live blocks by address."""
    segments, live = start_state(snapshot)
    events = snapshot["device_traces"][0]
    addresses = [event["addr"] for event in events if event["action"] == "segment_alloc"]
    allocator = CachingAllocator(segment_addresses=iter(addresses))
    found = {}
    for address, segment in segments.items():
        size, small = segment["total_size"], segment["segment_type"] == "small"
        free = allocator._free.setdefault((small, segment["stream"]), _FreeList())
        made = Segment(address, size, segment["stream"], small, free, None)
        inside = [start for start in sorted(live) if address <= start < address + size]
        blocks, at = [], address
        for start, following in zip(inside, [*inside[1:], address + size], strict=False):
            if start > at:
                blocks.append(Block(at, start - at, 0, made, False))
            length, requested = live[start]
            # Free blocks of the large pool exceed 1 MiB.
            if not small and following - start - length <= MIB:
                length = following - start
            found[start] = Block(start, length, requested, made, True)
            blocks.append(found[start])
            at = start + length
        if at < address + size:
            blocks.append(Block(at, address + size - at, 0, made, False))
        for left, right in pairwise(blocks):
            left.next, right.previous = right, left
        made.first = blocks[0]
        for block in blocks:
            if not block.live:
                free.add(block)
        allocator._segments[address] = made
        allocator.reserved_bytes += size
    allocator.requested_bytes = sum(block.requested_bytes for block in found.values())
    allocator.allocated_bytes = sum(block.bytes for block in found.values())
    return allocator, found


def replay(snapshot: dict[str, Any]) -> tuple[CachingAllocator, list[tuple[int, int]]]:
    """Return the allocator after the history, and real and simulated address per allocation."""
    allocator, live = allocator_at_start(snapshot)
    addresses = []
    for event in snapshot["device_traces"][0]:
        address = event["addr"]
        match event["action"]:
            case "alloc":
                live[address] = allocator.allocate(event["size"], event["stream"])
                addresses.append((address, live[address].address))
            case "free_completed":
                allocator.free(live.pop(address))
            case "segment_free" if address in allocator._segments:
                # An explicit empty_cache.
                allocator.release_cached()
    return allocator, addresses
