"""The profilers that record captures; each registers itself with one entry here.

This module imports no other: every command of the command line loads it.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tbd_collectors.profiler import Profiler


@dataclass(frozen=True, slots=True)
class Entry:
    """Where a profiler is, known without importing it."""

    name: str  # as --profiler and capture.json name it
    place: str  # module with its attribute PROFILER
    records_timelines: bool = False  # True if --profiler offers it


REGISTERED = [
    Entry("nsys", "tbd_collectors.nsys", records_timelines=True),
    Entry("nvprof", "tbd_collectors.nvprof", records_timelines=True),
    Entry("torch", "tbd_collectors.torch_profiler", records_timelines=True),
    Entry("ncu", "tbd_collectors.nsight_compute"),
]
"""The default profiler of timelines comes first; of several that count, the last one is tried
first."""


def timeline_profilers() -> list[str]:
    """Return the names of the profilers that record timelines."""
    return [entry.name for entry in REGISTERED if entry.records_timelines]


def profiler(name: str) -> Profiler:
    """Return the profiler of a name."""
    (place,) = [entry.place for entry in REGISTERED if entry.name == name]
    loaded: Profiler = import_module(place).PROFILER
    return loaded


def counting_profiler(compute_capability: str) -> Profiler:
    """Return the profiler that counts on a GPU; the last one if none does, to explain why."""
    counting = [
        candidate for entry in reversed(REGISTERED) if (candidate := profiler(entry.name)).counters
    ]
    able = (
        candidate
        for candidate in counting
        if candidate.counters and candidate.counters.supports(compute_capability)
    )
    return next(able, counting[0])
