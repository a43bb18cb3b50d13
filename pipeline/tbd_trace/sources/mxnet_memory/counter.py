"""Read the memory counters in a trace of the MXNet profiler: running totals of each device."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from tbd_trace.errors import InputError

_COUNTER = re.compile(r"Memory: ((?:cpu|gpu)(?: pinned| shared)?)/(\d*)")
_MARKS = (b'"traceEvents"', b'"Memory: ', b'"Device Storage"')


def is_memory_counter(head: bytes) -> bool:
    """Return True if the beginning of a Chrome trace has memory counters of MXNet."""
    return head.lstrip()[:1] == b"{" and all(mark in head for mark in _MARKS)


def memory_counter_events(path: Path) -> list[dict[str, Any]]:
    """Return rows of ``memory_event``, by time, with the further columns of a running total.

    ``total_bytes`` is the total of ``device_type`` and ``device_id`` after the event. Its changes
    are allocations and frees; the first row of a device is a ``snapshot``, since memory allocated
    before the recording is unknown. Classes and addresses are not recorded.

    Raises:
        InputError: the file is damaged.
    """
    counters = _counters(path)
    # Threads write blocks of events; the sort is stable within a microsecond.
    counters.sort(key=lambda counter: counter[0])
    rows: list[dict[str, Any]] = []
    totals: dict[tuple[str, int], int] = {}
    for microseconds, device_type, device_id, total in counters:
        before = totals.get((device_type, device_id))
        totals[device_type, device_id] = total
        change = None if before is None else total - before
        rows.append(
            {
                "sequence": len(rows),
                "timestamp_ns": microseconds * 1000,
                "device_id": device_id,
                "device_type": device_type,
                "operation": _operation(change),
                "allocator": "mxnet",
                "requested_bytes": None,
                "allocated_bytes": None if change is None else abs(change),
                "address": None,
                "class": "unknown",
                "layer": None,
                "name": None,
                "total_bytes": total,
            }
        )
    return rows


def _operation(change: int | None) -> str:
    if change is None:
        return "snapshot"
    return "free" if change < 0 else "allocate"


def _counters(path: Path) -> list[tuple[int, str, int, int]]:
    try:
        events = json.loads(path.read_bytes())["traceEvents"]
        counters = []
        for event in events:
            match = _COUNTER.fullmatch(str(event.get("name"))) if event.get("ph") == "C" else None
            if match:
                total = event["args"][event["name"]]
                counters.append((int(event["ts"]), match[1], int(match[2] or 0), int(total)))
    except (
        LookupError,
        TypeError,
        ValueError,
        AttributeError,
        RecursionError,
        OverflowError,
    ) as error:
        # The profiler writes the end of the file when it stops.
        problem = "incomplete or damaged JSON"
        raise InputError(f"{path}: {problem}; stop the profiler before copying it") from error
    if not counters:
        raise InputError(f"{path}: no memory counters; profile with profile_memory=True")
    return counters
