"""kernel_durations, gpu_activity and occupancy_histogram against counting one by one."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fast import examples
from made_trace import MadeTrace, Row, metric

SPAN = st.tuples(st.integers(0, 60), st.integers(0, 25))  # start, duration


# kernel_durations


def test_durations_are_counted_in_bins_of_a_decade() -> None:
    made = MadeTrace()
    for duration in (1, 9, 10, 99, 100_000, 0, 0):
        made.add_kernel(5, 5 + duration)
    made.add_kernel(None, None)
    rows = metric(made, "kernel_durations", bins_per_decade=1)
    assert [(row["bin_start_ns"], row["bin_end_ns"], row["kernels"]) for row in rows] == [
        (0, 1, 2),
        (1, 10, 2),
        (10, 100, 2),
        *((10**k, 10 ** (k + 1), 0) for k in (2, 3, 4)),
        (100_000, 1_000_000, 1),
    ]
    assert [row["total_ns"] for row in rows] == [0, 10, 109, 0, 0, 0, 100_000]
    assert rows[1]["kernels_pct"] == pytest.approx(100 * 2 / 7)
    assert rows[1]["time_pct"] == pytest.approx(100 * 10 / 100_119)


@pytest.mark.slow
@given(durations=st.lists(st.integers(0, 10**7), min_size=1, max_size=30), per=st.integers(1, 7))
@settings(max_examples=examples(30))
def test_every_duration_lies_in_its_bin(durations: list[int], per: int) -> None:
    made = MadeTrace()
    for duration in durations:
        made.add_kernel(0, duration)
    rows = metric(made, "kernel_durations", bins_per_decade=per)
    assert sum(row["kernels"] for row in rows) == len(durations)
    for row in rows:
        there = [d for d in durations if row["bin_start_ns"] <= d < row["bin_end_ns"]]
        assert (row["kernels"], row["total_ns"]) == (len(there), sum(there))
    assert sum(row["kernels_pct"] for row in rows) == pytest.approx(100)
    bins = [row for row in rows if row["bin_start_ns"] > 0]
    for before, after in pairwise(bins):
        assert before["bin_end_ns"] == after["bin_start_ns"]
        assert after["bin_end_ns"] / after["bin_start_ns"] == pytest.approx(10 ** (1 / per))


def test_traces_have_bins_of_their_own() -> None:
    made = MadeTrace()
    made.add_kernel(0, 5)
    made.add_kernel(0, 50_000, trace_id="u")
    rows = metric(made, "kernel_durations", bins_per_decade=1)
    assert [(r["trace_id"], r["bin_start_ns"], r["time_pct"]) for r in rows] == [
        ("t", 1, 100), ("u", 10_000, 100)
    ]  # fmt: skip


# gpu_activity


def active(made: MadeTrace, bins: int) -> list[Row]:
    return metric(made, "gpu_activity", bins=bins)


def test_parts_of_a_bin_are_disjoint() -> None:
    made = MadeTrace()
    made.add("process", process_id=1, pid=77)
    made.add_kernel(100, 130)
    made.add_kernel(120, 150)  # on another stream: the union counts
    made.add_memcpy(140, 170)
    made.add_memset(180, 190)
    made.add_graph(195, 200)
    first, second = active(made, 2)
    assert (first["pid"], first["device_id"], first["bin"]) == (77, 0, 0)
    assert (first["offset_ns"], first["offset_end_ns"], first["start_ns"]) == (0, 50, 100)
    assert [first[f"{part}_ns"] for part in ("kernel", "copy", "idle")] == [50, 0, 0]
    assert [second[f"{part}_ns"] for part in ("kernel", "copy", "idle")] == [5, 30, 15]
    assert [second[f"{part}_pct"] for part in ("busy", "kernel", "copy")] == [70, 10, 60]


@pytest.mark.slow
@given(
    kernels=st.lists(SPAN, max_size=8),
    copies=st.lists(SPAN, max_size=5),
    others=st.lists(SPAN, max_size=4),
    bins=st.integers(1, 12),
)
@settings(max_examples=examples(60))
def test_activity_is_that_of_every_nanosecond(
    kernels: list[tuple[int, int]],
    copies: list[tuple[int, int]],
    others: list[tuple[int, int]],
    bins: int,
) -> None:
    made = MadeTrace()
    for start, duration in kernels:
        made.add_kernel(start, start + duration)
    for start, duration in copies:
        made.add_memcpy(start, start + duration)
    for start, duration in others:
        made.add_kernel(start, start + duration, device_id=1)
    spans = [*kernels, *copies, *others]
    if not spans or max(s + d for s, d in spans) == min(s for s, _ in spans):
        return
    first, last = min(s for s, _ in spans), max(s + d for s, d in spans)
    bins = min(bins, last - first)
    devices = {0: (kernels, copies), 1: (others, [])}
    expected = [
        counted(*work, first + (last - first) * k // bins, first + (last - first) * (k + 1) // bins)
        for work in devices.values()
        if any(work)
        for k in range(bins)
    ]
    rows = active(made, bins)
    assert [(r["kernel_ns"], r["copy_ns"], r["idle_ns"]) for r in rows] == expected
    assert all(r["elapsed_ns"] == r["kernel_ns"] + r["copy_ns"] + r["idle_ns"] for r in rows)


def counted(
    kernels: list[tuple[int, int]], copies: list[tuple[int, int]], start: int, end: int
) -> tuple[int, int, int]:
    """Return the nanoseconds of a bin with a kernel, with copies alone and with nothing."""
    kernel = copy = 0
    for moment in range(start, end):
        if any(s <= moment < s + d for s, d in kernels):
            kernel += 1
        elif any(s <= moment < s + d for s, d in copies):
            copy += 1
    return kernel, copy, end - start - kernel - copy


def test_a_bin_has_at_least_a_nanosecond() -> None:
    made = MadeTrace()
    made.add_kernel(100, 103)
    rows = active(made, 10)
    assert [(row["offset_ns"], row["kernel_ns"]) for row in rows] == [(0, 1), (1, 1), (2, 1)]


def test_devices_of_a_trace_share_their_bins() -> None:
    made = MadeTrace()
    made.add_kernel(0, 40)
    made.add_kernel(60, 100, device_id=1)
    rows = active(made, 2)
    assert [(r["device_id"], r["bin"], r["busy_pct"]) for r in rows] == [
        (0, 0, 80), (0, 1, 0), (1, 0, 0), (1, 1, 80)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "parameter"),
    [("gpu_activity", "bins"), ("occupancy_histogram", "bins"),
     ("kernel_durations", "bins_per_decade")],
)  # fmt: skip
def test_there_is_at_least_one_bin(name: str, parameter: str) -> None:
    made = MadeTrace()
    made.add_kernel(0, 40)
    with pytest.raises(Exception, match=f"{parameter} must be 1 or more"):
        metric(made, name, **{parameter: 0})


# occupancy_histogram

ACHIEVED = "sm__warps_active.avg.pct_of_peak_sustained_active"
FULL: Row = {
    "grid_x": 10_000, "grid_y": 1, "grid_z": 1, "block_x": 256, "block_y": 1, "block_z": 1,
    "registers_per_thread": 32, "static_shared_bytes": 0, "dynamic_shared_bytes": 0,
}  # fmt: skip


def test_occupancy_of_each_kind_is_counted_apart() -> None:
    made = MadeTrace()
    made.add_device()
    full = made.add_kernel(0, 300, **FULL)  # 100 %
    quarter = made.add_kernel(300, 400, **(FULL | {"registers_per_thread": 128}))  # 25 %
    made.add_kernel(400, 1000, **(FULL | {"registers_per_thread": None}))
    made.add_metric(full, ACHIEVED, 50.0)
    made.add_metric(quarter, ACHIEVED, 100.5)  # more than there is
    rows = metric(made, "occupancy_histogram", bins=4)
    found = {
        measure: [(r["bin_start_pct"], r["kernels"], r["total_ns"]) for r in rows
                  if r["measure"] == measure]
        for measure in ("theoretical", "estimated achieved", "achieved")
    }  # fmt: skip
    modelled = [(0, 0, 0), (25, 1, 100), (50, 0, 0), (75, 1, 300), (None, 1, 600)]
    assert found["theoretical"] == found["estimated achieved"] == modelled
    assert found["achieved"] == [
        (0, 0, 0), (25, 0, 0), (50, 1, 300), (75, 0, 0), (None, 2, 700)
    ]  # fmt: skip
    assert {r["measure"]: r["evidence"] for r in rows} == {
        "theoretical": "modelled", "estimated achieved": "modelled", "achieved": "counter"
    }  # fmt: skip
    assert [r["share_pct"] for r in rows if r["measure"] == "achieved"] == [0, 0, 30, 0, 70]


def test_occupancy_of_kernels_without_a_length_is_shared_by_their_number() -> None:
    made = MadeTrace()
    for share in (10.0, 10.0, 10.0, 90.0):
        made.add_metric(made.add_kernel(5, 5), ACHIEVED, share)
    rows = [r for r in metric(made, "occupancy_histogram", bins=2) if r["measure"] == "achieved"]
    assert [(row["kernels"], row["share_pct"]) for row in rows] == [(3, 75.0), (1, 25.0)]
    assert {row["total_ns"] for row in rows} == {None}


def test_a_trace_that_tells_no_occupancy_says_so() -> None:
    made = MadeTrace()
    made.add_kernel(0, 300)
    (row,) = metric(made, "occupancy_histogram")
    assert (row["bin_start_pct"], row["bin_end_pct"], row["evidence"]) == (None, None, None)
    assert (row["kernels"], row["total_ns"], row["share_pct"]) == (1, 300, 100)


def test_without_durations_kernels_are_counted() -> None:
    made = MadeTrace()
    made.add_device()
    for registers in (32, 32, 32, 128):
        made.add_kernel(None, None, **(FULL | {"registers_per_thread": registers}))
    rows = metric(made, "occupancy_histogram", bins=2)
    assert {(r["measure"], r["total_ns"]) for r in rows} == {
        ("theoretical", None), ("estimated achieved", None)
    }  # fmt: skip
    assert [r["share_pct"] for r in rows] == [25, 75] * 2


@pytest.mark.slow
@given(occupancies=st.lists(st.integers(0, 1000), min_size=1, max_size=20), bins=st.integers(1, 9))
@settings(max_examples=examples(25))
def test_every_occupancy_lies_in_its_bin(occupancies: list[int], bins: int) -> None:
    made = MadeTrace()
    for permille in occupancies:
        kernel = made.add_kernel(0, 10)
        made.add_metric(kernel, ACHIEVED, permille / 10)
    rows = [r for r in metric(made, "occupancy_histogram", bins=bins) if r["measure"] == "achieved"]
    exact = [min(int(Fraction(p, 1000) * bins), bins - 1) for p in occupancies]
    assert [r["kernels"] for r in rows] == [exact.count(number) for number in range(bins)]
