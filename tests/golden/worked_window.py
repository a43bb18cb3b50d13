"""The analysis window: the iterations after those that show a sign of warm-up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

from sample_facts import Operation, timeline

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
def signs() -> dict[int, str]:
    """Return the iterations that show a sign of warm-up, and which."""
    seen: set[tuple[str, ...]] = set()
    found = {}
    for i, iteration in enumerate(timeline().iterations):
        kernels = {(op.name, *op.shape) for op in launched_in(i) if op.kind == "kernel"}
        calls = [c for c in timeline().calls if iteration.start <= c.start < iteration.end]
        allocated = sum(c.name.startswith("cudaMalloc") for c in calls)
        if not kernels <= seen:
            found[i] = "first use of a kernel"
        elif allocated > sum(c.name.startswith("cudaFree") for c in calls):
            found[i] = "allocator growth"
        elif i < len(periods()) and is_slow_start(periods(), i, set(found)):
            found[i] = "slow start"
        seen |= kernels
    return found


def is_slow_start(times: Sequence[int], i: int, seen: set[int]) -> bool:
    """Tell whether an iteration is part of a slow beginning: all that follow that are faster."""
    half = max(times[(len(times) + 1) // 2 :])
    slow_end = next(
        (k for k, time in enumerate(times) if k not in seen and time <= 1.1 * half), len(times)
    )
    later = times[slow_end:]
    return bool(later) and i < slow_end and times[i] > 1.1 * max(later)


@cache
def first_steady() -> int:
    """Return the first iteration without a sign: there is one in the first half."""
    first = next(i for i in range(len(timeline().iterations)) if i not in signs())
    assert 2 * first <= len(periods())
    return first


def last_counted() -> int:
    """Return the last iteration whose period is known: the one before the last."""
    return len(periods()) - 1


def why_dropped(iteration: int) -> str | None:
    if iteration > last_counted():
        return "next start not recorded"
    return signs()[iteration] if iteration < first_steady() else None


def of_iterations(first: int, measured_over: str) -> Window:
    """Return the window from an iteration to the last one whose period is known.

    It begins with the first iteration's first operation and ends where the first operation of the
    iteration after it begins.
    """
    after = last_counted() + 1
    return Window(gpu_span(first)[0], gpu_span(after)[0], measured_over, range(first, after))


def steady() -> Window:
    return of_iterations(first_steady(), "steady state")


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
