"""What the histograms and the picture of the GPU over time show, found bin by bin."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from sample_facts import DEVICE, PID, Operation, Row, counters, row, timeline
from worked_occupancy import ACHIEVED, occupancy_of, weighted
from worked_window import Window, kernels_in, length, steady, union, whole_trace


def kernel_durations(per_decade: int = 5) -> list[Row]:
    kernels = timeline().kernels
    total = sum(k.duration for k in kernels)
    edges = [10 ** (k / per_decade) for k in range(12 * per_decade)]
    bins = [(low, high, _between(kernels, low, high)) for low, high in pairwise(edges)]
    held = [number for number, (_, _, there) in enumerate(bins) if there]
    return [
        row(
            bin_start_ns=low,
            bin_end_ns=high,
            kernels=len(there),
            total_ns=sum(k.duration for k in there),
            kernels_pct=100 * len(there) / len(kernels),
            time_pct=100 * sum(k.duration for k in there) / total,
        )
        for low, high, there in bins[held[0] : held[-1] + 1]
    ]


def _between(kernels: Sequence[Operation], low: float, high: float) -> list[Operation]:
    return [k for k in kernels if low <= k.duration < high]


def gpu_activity(bins: int = 200) -> list[Row]:
    whole = whole_trace()
    edges = [whole.start + whole.elapsed * k // bins for k in range(bins + 1)]
    rows = []
    for number, (start, end) in enumerate(pairwise(edges)):
        part = Window(start, end, whole.measured_over)
        busy, kernel = length(union(part)), length(union(part, "kernel"))
        rows.append(
            row(
                pid=PID,
                device_id=DEVICE,
                bin=number,
                offset_ns=start - whole.start,
                offset_end_ns=end - whole.start,
                start_ns=start,
                elapsed_ns=end - start,
                kernel_ns=kernel,
                copy_ns=busy - kernel,
                idle_ns=end - start - busy,
                busy_pct=100 * busy / (end - start),
                kernel_pct=100 * kernel / (end - start),
                copy_pct=100 * (busy - kernel) / (end - start),
            )
        )
    return rows


def achieved(kernel: Operation) -> float | None:
    return counters().value(kernel, ACHIEVED)


MEASURES: dict[str, Callable[[Operation], float | None]] = {
    "theoretical": lambda kernel: occupancy_of(kernel).theoretical,
    "estimated achieved": lambda kernel: occupancy_of(kernel).estimated,
    "achieved": achieved,
}


def occupancy_histogram(bins: int = 10) -> list[Row]:
    kernels = timeline().kernels
    total = sum(k.duration for k in kernels)
    rows = []
    for measure, occupancy in MEASURES.items():
        known = [(value, k) for k in kernels if (value := occupancy(k)) is not None]
        parts: list[tuple[float | None, float | None, list[Operation]]] = []
        for low, high in pairwise(100 * number / bins for number in range(bins + 1)):
            last = high == 100
            there = [k for value, k in known if low <= value < high or (last and value == high)]
            parts.append((low, high, there))
        if len(known) < len(kernels):
            parts.append((None, None, [k for k in kernels if occupancy(k) is None]))
        rows += [
            row(
                measure=measure,
                bin_start_pct=low,
                bin_end_pct=high,
                kernels=len(there),
                total_ns=sum(k.duration for k in there),
                share_pct=100 * sum(k.duration for k in there) / total,
                evidence="counter" if measure == "achieved" else "modelled",
            )
            for low, high, there in parts
        ]
    return rows


def layer_occupancy() -> list[Row]:
    window = steady()
    kernels = kernels_in(window)
    rows = []
    for layer in {k.layer for k in kernels}:
        same = [k for k in kernels if k.layer == layer]
        total = sum(k.duration for k in same)
        counted = [(value, k.duration) for k in same if (value := achieved(k)) is not None]
        rows.append(
            row(
                layer=layer,
                theoretical_pct=weighted([(occupancy_of(k).theoretical, k.duration) for k in same]),
                estimated_achieved_pct=weighted(
                    [(occupancy_of(k).estimated, k.duration) for k in same]
                ),
                achieved_pct=weighted(counted) if counted else None,
                counted_pct=100 * sum(ns for _, ns in counted) / total,
                kernels=len(same),
                total_ns=total,
                evidence="counter" if counted else "modelled",
                measured_over=window.measured_over,
            )
        )
    return sorted(rows, key=lambda r: (r["layer"] is None, -r["total_ns"], r["layer"]))
