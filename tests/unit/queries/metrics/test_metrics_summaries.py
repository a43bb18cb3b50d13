"""Sums of kernels, copies, ranges, iterations and layers."""

from __future__ import annotations

import json
import math
import statistics
from collections import defaultdict
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fast import examples, one_in
from made_trace import MadeTrace, Row, metric, relation

PERCENTILES = {"p5_ns": 0.05, "median_ns": 0.5, "p95_ns": 0.95}


def described(durations: list[int | None]) -> dict[str, Any]:
    """Return what a summary says of some durations."""
    known = [d for d in durations if d is not None]
    return {
        "instances": len(durations),
        "total_ns": sum(known) if known else None,
        "mean_ns": statistics.fmean(known) if known else None,
        "median_ns": statistics.median(known) if known else None,
        "min_ns": min(known, default=None),
        "max_ns": max(known, default=None),
        "stddev_ns": statistics.stdev(known) if len(known) > 1 else None,
    }


def close(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: close(part) for key, part in value.items()}
    return pytest.approx(value) if isinstance(value, float) else value


def no_nan(rows: list[Row]) -> list[Row]:
    """Return the rows, having made sure that what is unknown is NULL."""
    for row in rows:
        for name, value in row.items():
            assert not (isinstance(value, float) and not math.isfinite(value)), name
    return rows


operations = st.lists(
    st.tuples(
        st.sampled_from(["t", "u"]),
        st.sampled_from("abc"),
        st.sampled_from([None, 0, 1, 7, 1000, 10**12]),
        st.integers(0, 2),
    ),
    min_size=1,
    max_size=20,
)


# kernels


@pytest.mark.slow
@settings(max_examples=examples(10))
@given(kernels=operations)
def test_kernel_summary_by_name(kernels: list[tuple[str, str, int | None, int]]) -> None:
    made = MadeTrace()
    groups: dict[tuple[str, str], list[int | None]] = defaultdict(list)
    totals: dict[str, int] = defaultdict(int)
    for trace, name, duration, grid in kernels:
        made.add_kernel(0, 0, name, trace_id=trace, duration_ns=duration, grid_x=grid)
        groups[trace, name].append(duration)
        totals[trace] += duration or 0
    rows = no_nan(metric(made, "kernel_summary"))
    found = {(row["trace_id"], row["kernel_name"]): row for row in rows}
    assert len(found) == len(rows) == len(groups)
    for (trace, name), durations in groups.items():
        row = found[trace, name]
        expected = described(durations)
        assert {key: row[key] for key in expected} == close(expected)
        total = expected["total_ns"]
        share = None if total is None or not totals[trace] else 100 * total / totals[trace]
        assert row["share_pct"] == close(share)
    for trace in totals:
        order = [r["total_ns"] or -1 for r in rows if r["trace_id"] == trace]
        assert order == sorted(order, reverse=True)


def test_kernel_summary_by_configuration() -> None:
    made = MadeTrace()
    for grid, duration in ((1, 10), (1, 20), (2, 40)):
        shape = {
            "grid_x": grid,
            "grid_y": 1,
            "grid_z": 1,
            "block_x": 64,
            "block_y": 2,
            "block_z": 1,
        }
        made.add_kernel(0, duration, "gemm", **shape)
    made.add_kernel(0, 5, "gemm")  # of unknown configuration
    rows = metric(made, "kernel_summary", by="configuration")
    assert [(r["grid"], r["block"], r["instances"], r["total_ns"]) for r in rows] == [
        ("2 1 1", "64 2 1", 1, 40),
        ("1 1 1", "64 2 1", 2, 30),
        (None, None, 1, 5),
    ]


def test_kernel_summary_of_a_profiler_s_summary() -> None:
    """One row per device becomes one per name; what single executions would tell is NULL."""
    made = MadeTrace()
    for device, instances, total, least, most in ((0, 2, 30, 10, 20), (1, 1, 60, 60, 60)):
        made.add(
            "kernel_aggregate", name="gemm", device_id=device, instances=instances, total_ns=total,
            mean_ns=total / instances, min_ns=least, max_ns=most,
        )  # fmt: skip
    made.add("kernel_aggregate", name="relu", instances=5, total_ns=10)
    rows = metric(made, "kernel_summary")
    assert [
        (r["kernel_name"], r["instances"], r["total_ns"], r["mean_ns"], r["min_ns"], r["max_ns"])
        for r in rows
    ] == [("gemm", 3, 90, 30.0, 10, 60), ("relu", 5, 10, 2.0, None, None)]
    assert [r["share_pct"] for r in rows] == [90.0, 10.0]
    assert {(r["median_ns"], r["stddev_ns"]) for r in rows} == {(None, None)}


def test_kernel_summary_leaves_the_replayed_kernels_of_a_capture_out() -> None:
    made = MadeTrace()
    made.add_trace("line", capture_id="c")
    made.add_trace("count", capture_id="c", kind="metrics")
    made.add_kernel(0, 10, trace_id="line")
    made.add_kernel(0, 9999, trace_id="count")
    assert [(r["trace_id"], r["total_ns"]) for r in metric(made, "kernel_summary")] == [
        ("line", 10)
    ]


# copies and fills


@pytest.mark.slow
@settings(max_examples=examples(10))
@given(copies=operations, fills=operations)
def test_memory_operations(copies: list[Any], fills: list[Any]) -> None:
    made = MadeTrace()
    groups: dict[tuple[str, str], list[tuple[int | None, int]]] = defaultdict(list)
    directions = {"a": "HtoD", "b": "DtoH", "c": None}
    for trace, name, duration, size in copies:
        direction = directions[name]
        made.add_memcpy(0, 0, trace_id=trace, direction=direction, duration_ns=duration, bytes=size)
        groups[trace, f"[CUDA memcpy {direction or 'unknown'}]"].append((duration, size))
    for trace, _, duration, size in fills:
        made.add_memset(0, 0, trace_id=trace, duration_ns=duration, bytes=size)
        groups[trace, "[CUDA memset]"].append((duration, size))
    rows = no_nan(metric(made, "memory_operations"))
    found = {(row["trace_id"], row["operation"]): row for row in rows}
    assert len(found) == len(rows) == len(groups)
    for (trace, operation), done in groups.items():
        expected = described([duration for duration, _ in done])
        whole = sum(d or 0 for key, group in groups.items() if key[0] == trace for d, _ in group)
        total, moved = expected["total_ns"], sum(size for _, size in done)
        timed = sum(size for duration, size in done if duration is not None)
        expected["total_bytes"] = moved
        expected["share_pct"] = 100 * total / whole if whole and total is not None else None
        expected["throughput_gb_s"] = timed / total if total else None
        row = found[trace, operation]
        assert {key: row[key] for key in expected} == close(expected)


def test_throughput_of_copies_is_total_over_total() -> None:
    """1000 bytes in 10 ns and 1000 in 1000 ns: 1.98 bytes per ns, not the mean of 100 and 1."""
    made = MadeTrace()
    made.add_memcpy(0, 10, bytes=1000)
    made.add_memcpy(10, 1010, bytes=1000)
    [row] = metric(made, "memory_operations")
    assert row["throughput_gb_s"] == pytest.approx(2000 / 1010)


def test_memory_operations_by_kind_of_memory() -> None:
    made = MadeTrace()
    made.add_memcpy(0, 10, src_kind="pageable", dst_kind="device", bytes=5)
    made.add_memcpy(0, 30, src_kind="pinned", dst_kind="device", bytes=5)
    made.add_memset(0, 20, memory_kind="device", bytes=5)
    rows = metric(made, "memory_operations", by="memory_kind")
    assert [(r["operation"], r["src_kind"], r["dst_kind"], r["total_ns"]) for r in rows] == [
        ("[CUDA memcpy HtoD]", "pinned", "device", 30),
        ("[CUDA memset]", None, "device", 20),
        ("[CUDA memcpy HtoD]", "pageable", "device", 10),
    ]


# ranges


@pytest.mark.slow
@settings(max_examples=examples(25))
@given(
    ranges=st.lists(
        st.tuples(
            st.sampled_from(["t", "u"]),
            st.sampled_from([None, "library"]),  # domain
            st.sampled_from(["a", "library:a", None]),  # text
            st.sampled_from(["push_pop", "start_end"]),
            st.integers(0, 10**12),
            st.booleans(),
        ),
        min_size=1,
        max_size=20,
    )
)
def test_nvtx_summary(ranges: list[Any]) -> None:
    made = MadeTrace()
    groups: dict[tuple[str, ...], list[tuple[int, bool]]] = defaultdict(list)
    for trace, domain, name, kind, duration, is_open in ranges:
        given_row = {"trace_id": trace, "domain": domain, "kind": kind, "is_open": is_open}
        made.add_range(7, 7 + duration, name, **given_row)
        groups[trace, domain, name, kind].append((duration, is_open))
    rows = no_nan(metric(made, "nvtx_summary"))
    expected = []
    for (trace, domain, name, kind), same in groups.items():
        whole = sum(d for key, group in groups.items() if key[0] == trace for d, _ in group)
        described_row = described([duration for duration, _ in same])
        share = 100 * described_row["total_ns"] / whole if whole else None
        shown = None if name is None else f"{domain}:{name}" if domain else name
        expected.append(
            {
                "trace_id": trace,
                "range_name": shown,
                "style": kind,
                "open_instances": sum(is_open for _, is_open in same),
                **described_row,
                "share_pct": share,
            }
        )

    def order(row: Row) -> str:
        names = ("trace_id", "range_name", "style")  # two domains may make one name
        counts = ("instances", "open_instances", "total_ns", "min_ns", "max_ns")
        return repr([row[key] for key in (*names, *counts)])

    assert sorted(rows, key=order) == [close(row) for row in sorted(expected, key=order)]
    totals = [(row["trace_id"], -row["total_ns"]) for row in rows]
    assert totals == sorted(totals)


# iterations


def train(made: MadeTrace, periods: list[int], **row: Any) -> None:
    """Add iterations that begin ``periods`` apart, and a last one; each has a launch."""
    start = 0
    for number, period in enumerate([*periods, 1000]):
        made.add_range(start, start + period // 2, f"step {number}", **row)
        made.launch(start + 1, start + 5, start + 5 + period // 4, **row)
        start += period


@pytest.mark.slow
@settings(max_examples=examples(6))
@given(
    runs=st.lists(st.lists(st.integers(950, 1045), min_size=1, max_size=12), min_size=1, max_size=6)
)
def test_iteration_summary_against_another_implementation(runs: list[list[int]]) -> None:
    """No first iteration is more than a tenth longer than the others: all but the last count."""
    made = MadeTrace()
    for key, periods in enumerate(runs):
        train(made, periods, process_id=key)
        made.add("process", process_id=key, pid=100 + key)
    with made.connect() as database:
        rows = no_nan(database.metric("iteration_summary"))
        iterations = database.relation("iteration")
    assert len(rows) == 3 * len(runs)
    for row in rows:
        mine = [i for i in iterations if i["process_id"] == row["pid"] - 100]
        counted = [i[row["measure"]] for i in mine if i["in_window"]]
        kept = pl.Series(counted, dtype=pl.Float64).drop_nulls()
        assert len(kept) == len(counted) == len(mine) - 1
        enough = len(kept) >= 3
        expected: dict[str, Any] = {
            name: kept.quantile(q, "linear") if enough else None for name, q in PERCENTILES.items()
        }
        expected["n"] = len(kept)
        expected["mean_ns"] = kept.mean()
        expected["cv_pct"] = 100 * kept.std() / kept.mean() if enough else None  # type: ignore[operator]
        expected["measured_over"] = "steady state" if len(mine) > 2 else "all iterations"
        assert {name: row[name] for name in expected} == close(expected)


@pytest.mark.slow
def test_iteration_summary_says_what_it_dropped_and_why() -> None:
    made = MadeTrace()
    train(made, [3000, 2000, 1000, 1000, 1000, 1000])
    rows = metric(made, "iteration_summary")
    assert [row["measure"] for row in rows] == ["period_ns", "host_ns", "gpu_ns"]
    assert {row["dropped"] for row in rows} == {
        "first use of a kernel: 0; slow start: 1; next start not recorded: 6"
    }
    assert (rows[0]["n"], rows[0]["median_ns"]) == (4, 1000.0)
    assert (rows[1]["n"], rows[1]["median_ns"]) == (4, 500.0)


@pytest.mark.slow
def test_iterations_that_were_dropped_are_told_as_ranges() -> None:
    made = MadeTrace()
    train(made, [5000] * 978 + [1000] * 1000)
    for number in (0, 100, 101, 102, 900):
        made.launch(5000 * number + 3, 5000 * number + 20, 5000 * number + 30, f"new in {number}")
    assert {row["dropped"] for row in metric(made, "iteration_summary")} == {
        "first use of a kernel: 0, 100-102, 900; slow start: 1-99, 103-899, 901-977; "
        "next start not recorded: 1978"
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("iterations", "n", "over", "said"),
    one_in(
        2,
        [
            (1, 1, "all iterations", "too few iterations to tell: 1; no steady state"),
            (2, 1, "all iterations", "too few iterations to tell: 1; no steady state"),
            (3, 2, "steady state", "too few iterations to tell: 2"),
            (4, 3, "steady state", "3 iterations, at least 10 are wanted"),
            (5, 4, "steady state", "4 iterations, at least 10 are wanted"),
        ],
    ),
)
def test_few_iterations_are_answered_with_a_warning(
    iterations: int, n: int, over: str, said: str
) -> None:
    """The last counts only if it is the only one: its range of 500 ns is then its period."""
    made = MadeTrace()
    train(made, [1_000_000] * (iterations - 1))
    mean = 500 if iterations == 1 else 1_000_000
    (period, host, gpu) = metric(made, "iteration_summary")
    assert (period["n"], period["measured_over"]) == (n, over)
    assert period["mean_ns"] == mean
    assert (period["median_ns"] is not None) == (n >= 3)
    assert period["stability"].startswith(said)
    assert host["n"] == gpu["n"] == n
    [rate] = metric(made, "throughput", batch_size=8)
    assert (rate["iterations"], rate["measured_over"]) == (n, over)
    assert rate["elapsed_ns"] == n * mean
    assert rate["iterations_per_s"] == pytest.approx(1e9 / mean)
    assert rate["samples_per_s"] == pytest.approx(8e9 / mean)
    assert rate["stability"] == period["stability"]
    for name in ("compute_util", "step_breakdown", "idle_causes"):
        rows = metric(made, name)
        assert {(r["iterations"], r["measured_over"]) for r in rows} == {(n, over)}


@pytest.mark.slow
def test_where_all_iterations_show_signs_all_are_counted() -> None:
    made = MadeTrace()
    train(made, [1_000_000] * 12)
    for number in range(13):
        start = 1_000_000 * number
        made.launch(start + 3, start + 600_000, start + 600_001, f"new in {number}")
    [rate] = metric(made, "throughput")
    assert (rate["iterations"], rate["measured_over"]) == (12, "all iterations")
    assert rate["stability"].startswith("no steady state: more than half")
    assert metric(made, "iteration_summary")[0]["dropped"] == "next start not recorded: 12"


@pytest.mark.slow
def test_all_metrics_speak_of_the_same_iterations() -> None:
    """Those that begin ``lengths`` periods, and not the one that ends the last period."""
    made = MadeTrace()
    lengths = {1: 5, 2: 11, 3: 24}
    for process, periods in lengths.items():
        train(made, [1000] * periods, process_id=process, thread_id=process)
        made.add("process", process_id=process, pid=process)
    for name, column in (
        ("iteration_summary", "n"),
        *((name, "iterations")
          for name in ("throughput", "compute_util", "step_breakdown", "idle_causes")),
    ):  # fmt: skip
        rows = metric(made, name)
        told = {(row["pid"], row[column]) for row in rows}
        assert told == set(lengths.items()), name
        assert {row["measured_over"] for row in rows} == {"steady state"}
    # the elapsed time of each is that of these iterations
    for name in ("throughput", "compute_util", "step_breakdown"):
        elapsed = {row["pid"]: row["elapsed_ns"] for row in metric(made, name)}
        assert elapsed == {process: 1000 * n for process, n in lengths.items()}, name


@pytest.mark.slow
def test_iteration_timing_keeps_three_times_apart() -> None:
    made = MadeTrace()
    train(made, [1000, 2000])
    rows = metric(made, "iteration_timing")
    assert [(r["host_ns"], r["gpu_ns"], r["period_ns"]) for r in rows] == [
        (500, 250, 1000),
        (1000, 500, 2000),
        (500, 250, None),
    ]


# throughput


@pytest.mark.slow
def test_throughput_is_total_over_total() -> None:
    """Periods of 1 and 3 ms: 2 iterations in 4 ms are 500 a second; the mean of rates is 667."""
    made = MadeTrace()
    made.add_trace(batch_size=32)
    train(made, [1_000_000, 3_000_000] * 3)
    [row] = metric(made, "throughput")
    assert (row["iterations"], row["elapsed_ns"]) == (6, 12_000_000)
    assert row["iterations_per_s"] == pytest.approx(500)
    assert row["samples_per_s"] == pytest.approx(32 * 500)


@pytest.mark.slow
def test_throughput_of_all_iterations_where_there_is_no_steady_state() -> None:
    made = MadeTrace()
    train(made, [1_000_000, 9_000_000, 2_000_000])
    made.launch(1_000_003, 8_000_000, 8_000_001, "new")
    [row] = metric(made, "throughput")
    assert (row["measured_over"], row["iterations"]) == ("all iterations", 3)
    assert row["iterations_per_s"] == pytest.approx(250)
    assert (row["batch_size"], row["samples_per_s"]) == (None, None)


@pytest.mark.slow
def test_the_batch_size_is_the_user_s_to_set() -> None:
    made = MadeTrace()
    made.add_trace(batch_size=32)
    train(made, [1_000_000] * 5)
    assert [r["samples_per_s"] for r in metric(made, "throughput")] == [32_000.0]
    assert [r["samples_per_s"] for r in metric(made, "throughput", batch_size=8)] == [8000.0]


@pytest.mark.slow
@pytest.mark.parametrize("world_size", [None, 1, 4])
def test_what_the_profiler_slowed_down(world_size: int | None) -> None:
    """Unprofiled, all processes together: 40 000 samples/s each. Profiled: 32 000 each."""
    made = MadeTrace()
    rate = 40_000.0 * (world_size or 1)
    document = {"throughput": {"samples_per_second": rate}, "world_size": world_size}
    made.add_trace(batch_size=32, capture=json.dumps(document))
    train(made, [1_000_000] * 5)
    [row] = metric(made, "throughput")
    assert (row["samples_per_s"], row["unprofiled_samples_per_s"]) == (32_000.0, 40_000.0)
    assert row["profiler_slowdown_pct"] == pytest.approx(25)


@pytest.mark.slow
def test_without_an_unprofiled_run_the_slowdown_is_unknown() -> None:
    made = MadeTrace()
    made.add_trace(batch_size=32, capture=json.dumps({"model": "cnn"}))
    train(made, [1_000_000] * 5)
    [row] = metric(made, "throughput")
    assert (row["unprofiled_samples_per_s"], row["profiler_slowdown_pct"]) == (None, None)


# layers

CONV, GEMM, NCCL = "cudnn_convolution_fprop_kernel", "volta_sgemm_128x64_nn", "ncclKernel_AllReduce"


def network(*, annotated: bool = True, defined: bool = True, first: int = 1000) -> MadeTrace:
    """Return three iterations: conv__1 30 ns forward and 40 backward, fc 20, 10 of no layer.

    The first begins at 0 and is ``first`` ns long, the others are 1000.
    """
    made = MadeTrace()
    for number in range(3):
        at = 0 if number == 0 else first + 1000 * (number - 1)
        made.add_range(at, at + (1000 if number else first), f"step {number}")
        if annotated:
            made.add_range(at + 10, at + 20, "layer:conv__1")
            made.add_range(at + 30, at + 40, "layer:fc")
            made.add_range(at + 50, at + 60, "layer_backward:conv__1", thread_id=2)
        made.launch(at + 15, at + 100, at + 130, CONV)
        made.launch(at + 35, at + 130, at + 150, GEMM)
        made.launch(at + 55, at + 150, at + 190, CONV.replace("fprop", "wgrad"), thread_id=2)
        made.launch(at + 70, at + 190, at + 200, "mystery")
    # Ends the third. It never counts itself, as the profiler stopped after one of four kernels.
    at = first + 2000
    made.add_range(at, at + 1000, "step 3")
    made.launch(at + 70, at + 190, at + 200, "mystery")
    if defined:
        made.add_layer("conv__1", 0, layer_type="Conv2d")
        made.add_layer("fc", 1, layer_type="Linear")
    return made


def layers(made: MadeTrace, **parameters: Any) -> list[tuple[Any, ...]]:
    rows = no_nan(metric(made, "dominant_layer", window="iterations", **parameters))
    for row in rows:
        assert row["measured_over"] in ("all iterations", "whole trace")
    return [(r["rank"], r["layer"], r["layer_type"], r["gpu_ns"], r["evidence"]) for r in rows]


@pytest.mark.slow
def test_the_dominant_layer_is_forward_and_backward_together() -> None:
    made = network()
    assert layers(made) == [
        (1, "conv__1", "Conv2d", 210, "nvtx + nvtx backward"),
        (2, "fc", "Linear", 60, "nvtx"),
        (None, None, None, 30, None),
    ]
    rows = metric(made, "dominant_layer", window="iterations")
    assert [r["share_pct"] for r in rows] == [70.0, 20.0, 10.0]
    assert {r["unattributed_pct"] for r in rows} == {10.0}
    assert [r["kernels"] for r in rows] == [6, 3, 3]


@pytest.mark.slow
def test_the_dominant_type_of_layer() -> None:
    made = network()
    made.add_layer("conv2", 2, layer_type="Conv2d")
    for number in range(3):
        made.add_range(1000 * number + 80, 1000 * number + 90, "layer:conv2")
        made.launch(1000 * number + 85, 1000 * number + 300, 1000 * number + 310, GEMM)
    assert layers(made, by="type") == [
        (1, None, "Conv2d", 240, "nvtx + nvtx backward"),
        (2, None, "Linear", 60, "nvtx"),
        (None, None, None, 30, None),
    ]


@pytest.mark.slow
def test_without_layers_the_kernels_classes_tell() -> None:
    assert layers(network(annotated=False)) == [
        (1, None, "CONV", 210, "kernel name"),
        (2, None, "GEMM", 60, "kernel name"),
        (None, None, None, 30, None),
    ]


@pytest.mark.slow
def test_the_attribution_is_the_user_s_to_choose() -> None:
    made = network()
    assert layers(made, attribution="kernel class")[0] == (1, None, "CONV", 210, "kernel name")
    assert layers(network(annotated=False), attribution="nvtx") == [(None, None, None, 300, None)]


@pytest.mark.slow
def test_a_layer_without_definition_has_the_type_of_its_kernels() -> None:
    assert layers(network(defined=False)) == [
        (1, "conv__1", "CONV", 210, "nvtx + nvtx backward"),
        (2, "fc", "GEMM", 60, "nvtx"),
        (None, None, None, 30, None),
    ]


def test_the_class_of_a_kernel_is_of_the_highest_priority_whatever_the_order() -> None:
    """A name that several patterns match: the table's priority decides, not its order of lines."""
    made = MadeTrace()
    name = "ncclDevKernel_AllReduce_Sum_f32_sgemm_softmax_conv"
    made.add_kernel(0, 10, name)
    with made.connect() as database:
        database.connection.execute(
            "CREATE TEMP TABLE kernel_classes AS FROM memory.main.kernel_classes ORDER BY priority"
        )
        [ascending] = database.relation("kernel_class")
    with made.connect() as database:
        database.connection.execute(
            "CREATE TEMP TABLE kernel_classes AS "
            "FROM memory.main.kernel_classes ORDER BY priority DESC"
        )
        [descending] = database.relation("kernel_class")
    assert ascending == descending
    assert ascending["class"] == "communication"


@pytest.mark.slow
def test_time_by_layer_and_phase() -> None:
    rows = metric(network(), "layer_time", window="iterations")
    found = [
        (
            r["layer"],
            r["layer_type"],
            r["phase"],
            r["kernels"],
            r["gpu_ns"],
            r["iteration_ns"],
            r["share_pct"],
        )
        for r in rows
    ]
    assert found == [
        ("conv__1", "Conv2d", "backward", 3, 120, 40.0, 40.0),
        ("conv__1", "Conv2d", None, 3, 90, 30.0, 30.0),
        ("fc", "Linear", None, 3, 60, 20.0, 20.0),
        (None, None, None, 3, 30, 10.0, 10.0),
    ]


@pytest.mark.slow
def test_layers_are_counted_in_the_window_alone() -> None:
    """The first iteration is slow, the last one cut off: two of four count, of 70 ns in conv__1."""
    rows = metric(network(first=2000), "dominant_layer")
    assert {r["measured_over"] for r in rows} == {"steady state"}
    [conv] = [r for r in rows if r["layer"] == "conv__1"]
    assert (conv["gpu_ns"], conv["kernels"]) == (2 * (30 + 40), 4)
    assert {r["gpu_ns"] for r in rows if r["layer"] is None} == {2 * 10}


@pytest.mark.slow
def test_kernels_of_no_time_have_no_share() -> None:
    made = MadeTrace()
    made.add_range(0, 10, "layer:conv")
    made.launch(5, 20, 20)
    for name in ("dominant_layer", "layer_time", "kernel_summary"):
        rows = no_nan(metric(made, name))
        assert [row["share_pct"] for row in rows] == [None]


@pytest.mark.slow
def test_relations_by_layer_hold_layers_with_any_name() -> None:
    made = MadeTrace()
    names = ["a__b", "a__b__c", "a.b", "a: b", "layer:layer", "x' OR 1=1", "日本"]
    for position, name in enumerate(names):
        made.add_range(10 * position, 10 * position + 9, f"layer:{name}")
        made.launch(10 * position + 1, 10 * position + 100, 10 * position + 105)
        made.add_layer(name, position, layer_type=f"type of {name}")
    rows = relation(made, "layer_type")
    assert {r["layer"]: r["layer_type"] for r in rows} == {n: f"type of {n}" for n in names}
