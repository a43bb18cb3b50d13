"""Sources for the memory profiles of MXNet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tbd_trace.sources.base import TraceDescription
from tbd_trace.sources.mxnet_memory.counter import is_memory_counter, memory_counter_events
from tbd_trace.sources.mxnet_memory.gpu_csv import gpu_memory_events, is_gpu_memory_csv
from tbd_trace.sources.row_reader import RowReader


class GpuMemoryCsv:
    """Source for the CSV of GPU allocations, which MXNet writes at exit."""

    format = "mxnet-gpu-memory"

    def detect(self, path: Path, head: bytes) -> bool:
        """Return True if a file begins with the header of the profile."""
        return is_gpu_memory_csv(head)

    def open(self, path: Path) -> RowReader:
        """Read a detected file.

        Raises:
            InputError: the file is damaged.
        """
        note = "one line per allocation, without releases and times: all of them count as live"
        description = TraceDescription("mxnet", "memory", notes=[note])
        # The profile has no addresses; no line is released.
        rows = [row | {"address": row["sequence"]} for row in gpu_memory_events(path)]
        return RowReader({"memory_event": rows}, description)


class MemoryCounter:
    """Source for traces of MXNet's profiler that contain counters of memory."""

    format = "mxnet-memory-counter"

    def detect(self, path: Path, head: bytes) -> bool:
        """Return True if the file contains such a counter."""
        return is_memory_counter(head)

    def open(self, path: Path) -> RowReader:
        """Read a detected file.

        Raises:
            InputError: the file is damaged.
        """
        note = "only running totals are recorded: each counts as one block that replaces the last"
        description = TraceDescription("mxnet", "memory", notes=[note])
        rows = [_as_block(row) for row in memory_counter_events(path)]
        return RowReader({"memory_event": rows}, description)


def _as_block(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "sequence": row["sequence"],
        "timestamp_ns": row["timestamp_ns"],
        "device_id": row["device_id"] if row["device_type"] != "cpu" else None,
        "operation": "allocate",
        "allocator": "mxnet",
        "memory_kind": f"{row['device_type']}/{row['device_id']}",
        "address": 0,
        "bytes": row["total_bytes"],
    }


GPU_MEMORY_CSV = GpuMemoryCsv()
MEMORY_COUNTER = MemoryCounter()
