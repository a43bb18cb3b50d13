"""The analysis window, by trying every first iteration."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations, pairwise

from sample_facts import Operation, timeline

MAX_VARIATION = 0.05
MIN_ITERATIONS = 3
Span = tuple[int, int]


@dataclass(frozen=True)
class Window:
    """A stretch of GPU time, ns, and the iterations in it."""

    start: int
    end: int
    measured_over: str
    iterations: range | None = None

    @property
    def elapsed(self) -> int:
        return self.end - self.start


def periods() -> list[int]:
    """Return the time from each iteration's start to the next one's: one less than iterations."""
    return [b.start - a.start for a, b in pairwise(timeline().iterations)]


def launched_in(iteration: int) -> list[Operation]:
    return [op for op in timeline().operations if op.iteration == iteration]


def gpu_span(iteration: int) -> Span:
    operations = launched_in(iteration)
    return min(op.start for op in operations), max(op.end for op in operations)


@cache
def warming_up() -> dict[int, str]:
    """Return the iterations that do what no stable iteration does, and what that is."""
    seen: set[str] = set()
    found = {}
    for i, iteration in enumerate(timeline().iterations):
        names = {op.name for op in launched_in(i) if op.kind == "kernel"}
        calls = [c for c in timeline().calls if iteration.start <= c.start < iteration.end]
        allocated = sum(c.name.startswith("cudaMalloc") for c in calls)
        if not names <= seen:
            found[i] = "first use of a kernel"
        elif allocated > sum(c.name.startswith("cudaFree") for c in calls):
            found[i] = "allocator growth"
        seen |= names
    return found


def is_steady(times: Sequence[int]) -> bool:
    """Tell whether times vary little and show no trend."""
    deviation = statistics.stdev(times)
    slopes = [(b - a) / (j - i) for (i, a), (j, b) in combinations(enumerate(times), 2)]
    trend = abs(statistics.median(slopes)) * len(times)
    return deviation <= MAX_VARIATION * statistics.mean(times) and trend <= deviation


@cache
def first_stable() -> int:
    times = periods()
    return next(
        first
        for first in range(len(times))
        if len(times) - first >= MIN_ITERATIONS
        and not any(i >= first for i in warming_up())
        and is_steady(times[first:])
    )


def why_dropped(iteration: int) -> str | None:
    if iteration >= first_stable():
        return None
    if iteration in warming_up():
        return warming_up()[iteration]
    later = any(i > iteration for i in warming_up())
    return "before the end of warm-up" if later else "trend or spread"


def of_iterations(first: int, measured_over: str) -> Window:
    """Return the window from an iteration to the last one of the trace.

    It begins with the first iteration's first operation. No iteration follows the last one, so it
    lasts as long after its first operation as its work on the GPU or its range on the host.
    """
    last = timeline().iterations[-1]
    number = len(timeline().iterations) - 1
    start, end = gpu_span(number)
    return Window(
        gpu_span(first)[0],
        start + max(end - start, last.end - last.start),
        measured_over,
        range(first, number + 1),
    )


def stable() -> Window:
    return of_iterations(first_stable(), "stable iterations")


def all_iterations() -> Window:
    return of_iterations(0, "all iterations")


def whole_trace() -> Window:
    operations = timeline().operations
    return Window(operations[0].start, max(op.end for op in operations), "whole trace")


def parts(window: Window) -> dict[int | None, Window]:
    """Cut a window into its iterations: each reaches to the next one's first operation."""
    assert window.iterations is not None
    starts = [gpu_span(i)[0] for i in window.iterations]
    return {
        i: Window(start, end, window.measured_over, range(i, i + 1))
        for i, (start, end) in zip(window.iterations, pairwise([*starts, window.end]), strict=True)
    }


def union(window: Window, *kinds: str) -> list[Span]:
    """Return when at least one operation of these kinds (none named: of any) ran in the window."""
    merged: list[Span] = []
    for op in timeline().operations:
        start, end = max(op.start, window.start), min(op.end, window.end)
        if start >= end or (kinds and op.kind not in kinds):
            continue
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def length(spans: Sequence[Span]) -> int:
    return sum(end - start for start, end in spans)


def kernels_in(window: Window) -> list[Operation]:
    """Return the kernels that the window's iterations launched."""
    return [
        op
        for op in timeline().kernels
        if not window.iterations or op.iteration in window.iterations
    ]
