"""Iterations, throughput, and what the GPU did at each moment of the window."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from itertools import combinations, groupby, pairwise

from sample_facts import DEVICE, GPU, PID, Row, capture, row, timeline
from worked_window import (
    Span,
    Window,
    bounds,
    first_steady,
    gpu_span,
    launched_in,
    length,
    periods,
    steady,
    union,
    why_dropped,
)

MARKED: Row = {"method": "nvtx range", "confidence": 1.0}
# The host waits for the GPU at the end of every iteration.
COUNTED: Row = {"clock": "host", "measured_over": "steady state"}


def iteration_timing() -> list[Row]:
    rows = []
    for i, marked in enumerate(timeline().iterations):
        kernels = [op for op in launched_in(i) if op.kind == "kernel"]
        rows.append(
            row(
                pid=PID,
                iteration=i,
                label=marked.text,
                start_ns=marked.start,
                host_ns=marked.end - marked.start,
                gpu_ns=length([gpu_span(i)]),
                period_ns=periods()[i],
                clock="host",
                kernels=len(kernels),
                kernel_ns=sum(op.duration for op in kernels),
                in_window=first_steady() <= i,
                dropped=why_dropped(i),
                **MARKED,
            )
        )
    return rows


def iteration_summary() -> list[Row]:
    counted = range(first_steady(), len(periods()))
    times = {
        "period_ns": [periods()[i] for i in counted],
        "host_ns": [timeline().iterations[i].end - timeline().iterations[i].start for i in counted],
        "gpu_ns": [length([gpu_span(i)]) for i in counted],
    }
    dropped = "; ".join(
        f"{why}: {joined(list(iterations))}"
        for why, iterations in groupby(
            (i for i in range(len(timeline().iterations)) if i not in counted), why_dropped
        )
    )
    return [
        row(pid=PID, measure=measure, **statistics_of(values), **COUNTED, dropped=dropped, **MARKED)
        for measure, values in times.items()
    ]


def joined(iterations: Sequence[int]) -> str:
    """Write iterations that follow each other as a range."""
    first, last = iterations[0], iterations[-1]
    return str(first) if first == last else f"{first}-{last}"


def statistics_of(values: Sequence[int]) -> Row:
    """Return what the times of iterations without stalls, trend or two groups are said to be.

    All are within 1.5 times of the shortest: there are no stalls and no two groups. Fewer than ten
    are too few for a trend. A trend by the median of the slopes between any two would be clear if
    it changed the time by more than one standard deviation.
    """
    assert len(values) >= 3
    assert max(values) <= 1.5 * min(values)
    slopes = [(values[b] - values[a]) / (b - a) for a, b in combinations(range(len(values)), 2)]
    few = len(values) < 10
    assert few or abs(statistics.median(slopes)) * len(values) <= statistics.stdev(values)
    median = statistics.median(values)
    spread = 100 * statistics.stdev(values) / statistics.mean(values)
    assert spread <= 5
    return {
        "n": len(values),
        "mean_ns": sum(values) / len(values),
        "stalls": 0,
        "stall_share_pct": 0.0,
        "stall_spacing": None,
        "typical_ns": median,
        "median_ns": median,
        "p5_ns": percentile(values, 5),
        "p95_ns": percentile(values, 95),
        "cv_pct": spread,
        "trend_pct": None,
        "stability": f"{len(values)} iterations, at least 10 are wanted" if few else "steady",
    }


def percentile(values: Sequence[int], percent: int) -> float:
    """Interpolate between the two values around a rank that counts from the smallest, 0."""
    ordered = sorted(values)
    whole, hundredths = divmod((len(ordered) - 1) * percent, 100)
    after = ordered[min(whole + 1, len(ordered) - 1)]
    return ordered[whole] + (after - ordered[whole]) * hundredths / 100


def throughput(batch_size: int | None = None) -> list[Row]:
    counted = periods()[first_steady() :]
    seconds = sum(counted) / 1e9
    samples = batch_size or capture()["batch_size"]
    free = capture()["throughput"]["samples_per_second"] / capture()["world_size"]
    profiled = samples * len(counted) / seconds
    return [
        row(
            pid=PID,
            iterations=len(counted),
            elapsed_ns=sum(counted),
            iterations_per_s=len(counted) / seconds,
            stall_share_pct=statistics_of(counted)["stall_share_pct"],
            batch_size=samples,
            samples_per_s=profiled,
            unprofiled_samples_per_s=free,
            unprofiled_units_per_s=None,
            throughput_unit=None,
            real_units_per_s=None,
            real_unit=None,
            padding_pct=None,
            profiler_slowdown_pct=100 * (free - profiled) / profiled,
            stability=statistics_of(counted)["stability"],
            **COUNTED,
            **MARKED,
            evidence="parameter" if batch_size else "capture.json",
        )
    ]


def compute_util(windows: dict[int | None, Window]) -> list[Row]:
    rows = []
    for iteration, window in windows.items():
        busy, kernels = length(union(window)), length(union(window, "kernel"))
        whole = steady().iterations if iteration is not None else window.iterations
        rows.append(
            row(
                pid=PID,
                device_id=DEVICE,
                device=GPU,
                iteration=iteration,
                gpu_busy_pct=100 * busy / window.elapsed,
                kernel_busy_pct=100 * kernels / window.elapsed,
                gpu_busy_ns=busy,
                kernel_busy_ns=kernels,
                elapsed_ns=window.elapsed,
                measured_over=window.measured_over,
                iterations=len(whole) if whole else None,
            )
        )
    return rows


def step_breakdown(windows: dict[int | None, Window]) -> list[Row]:
    """One GPU trains: no kernel communicates."""
    rows = []
    for iteration, window in windows.items():
        compute = length(union(window, "kernel"))
        busy = length(union(window))
        part = {
            "compute": compute,
            "exposed_communication": 0,
            "exposed_copy": busy - compute,
            "idle": window.elapsed - busy,
        }
        rows.append(
            row(
                pid=PID,
                device_id=DEVICE,
                iteration=iteration,
                elapsed_ns=window.elapsed,
                **{f"{name}_ns": ns for name, ns in part.items()},
                idle_between_ns=between(window, idle_gaps(window)),
                **{f"{name}_pct": 100 * ns / window.elapsed for name, ns in part.items()},
                communication_ns=0,
                overlap_pct=None,
                evidence="kernel name",
                measured_over=window.measured_over,
                iterations=len(steady().iterations or ()),
            )
        )
    return rows


def idle_gaps(window: Window) -> list[Span]:
    busy = [(window.start, window.start), *union(window), (window.end, window.end)]
    return [(before[1], after[0]) for before, after in pairwise(busy) if before[1] < after[0]]


def between(window: Window, gaps: Sequence[Span]) -> int:
    """Return the length of the gaps around the beginnings and ends of iterations."""
    assert window.iterations is not None
    edges = {moment for i in window.iterations for moment in bounds()[i]}
    return length([gap for gap in gaps if any(gap[0] <= edge <= gap[1] for edge in edges)])
