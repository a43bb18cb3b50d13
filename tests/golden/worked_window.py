"""The analysis window: the iterations after a slow beginning that shows signs of warm-up.

The host waits for the GPU at the end of every iteration, so that its ranges tell when iterations
begin. The last range ends where another iteration would begin: ranges follow each other closely.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from statistics import fmean, median

from sample_facts import Operation, timeline

Span = tuple[int, int]


@dataclass(frozen=True)
class Window:
    """A stretch of time, ns, and the iterations in it."""

    start: int
    end: int
    measured_over: str
    iterations: range | None = None

    @property
    def elapsed(self) -> int:
        return self.end - self.start


@cache
def bounds() -> list[Span]:
    """Return the period of each iteration: from its start to the next one's.

    That of the last reaches to the end of its range, before which its work on the GPU has ended.
    """
    marked = timeline().iterations
    starts = [one.start for one in marked]
    gaps = [b.start - a.end for a, b in pairwise(marked)]
    assert median(gaps) <= 0.05 * median(b - a for a, b in pairwise(starts))
    assert has_usual_kernels(len(marked) - 1)
    assert gpu_span(len(marked) - 1)[1] <= marked[-1].end
    # Nothing was launched before the first iteration, and the host does not run ahead of the GPU.
    assert gpu_span(0)[0] == min(op.start for op in timeline().operations)
    assert all(gpu_span(i)[1] < start for i, start in enumerate(starts[1:]))
    return [*pairwise(starts), (marked[-1].start, marked[-1].end)]


def has_usual_kernels(iteration: int) -> bool:
    """Tell whether an iteration has nine tenths of the kernels of each one before it."""
    number = [sum(op.kind == "kernel" for op in launched_in(i)) for i in range(iteration + 1)]
    return number[-1] >= 0.9 * min(number[:-1])


def periods() -> list[int]:
    return [end - start for start, end in bounds()]


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
        elif is_slow_start(periods(), i, set(found)):
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
    return after_warm_up(periods(), signs())


def after_warm_up(times: Sequence[int], seen: Container[int]) -> int:
    """Return the number of iterations at the beginning that all show a sign and are slower.

    Iterations with a sign that are as fast as the others are none of the warm-up: their mean is to
    be over 1.1 times that of the rest.
    """
    first = next(i for i in range(len(times)) if i not in seen)
    assert 2 * first <= len(times)
    is_slower = first > 0 and fmean(times[:first]) > 1.1 * fmean(times[first:])
    return first if is_slower else 0


def why_dropped(iteration: int) -> str | None:
    return signs()[iteration] if iteration < first_steady() else None


def of_iterations(first: int, measured_over: str) -> Window:
    """Return the window from the beginning of an iteration to the end of the last one."""
    numbers = range(first, len(bounds()))
    return Window(bounds()[first][0], bounds()[-1][1], measured_over, numbers)


def steady() -> Window:
    return of_iterations(first_steady(), "steady state")


def all_iterations() -> Window:
    return of_iterations(0, "all iterations")


def whole_trace() -> Window:
    operations = timeline().operations
    return Window(operations[0].start, max(op.end for op in operations), "whole trace")


def parts(window: Window) -> dict[int | None, Window]:
    """Cut a window into the periods of its iterations."""
    assert window.iterations is not None
    return {
        i: Window(*bounds()[i], window.measured_over, range(i, i + 1)) for i in window.iterations
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
