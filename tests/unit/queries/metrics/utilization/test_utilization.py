"""fp32_util, fp16_util, tensor_util, low_util_kernels, kernel_counter: examples worked by hand.

The device does 100 FP32, 400 FP16, 1600 tensor FP16 and 800 TF32 operations per nanosecond.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fast import examples, one_in
from made_trace import MadeTrace, Row, metric, relation

FLOP = "flop_count_sp"
LEVEL = "single_precision_fu_utilization"
FADD, FMUL, FFMA = (
    f"smsp__sass_thread_inst_executed_op_{op}_pred_on.sum" for op in ("fadd", "fmul", "ffma")
)
FMA_PIPE = "sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_{}"
CYCLES = "gpc__cycles_elapsed.max"


def timeline(*durations: int, gap: int = 100, **row: Any) -> tuple[MadeTrace, list[int]]:
    """Return kernels a, b, … one after the other, with idle time between, on the made device."""
    made = MadeTrace()
    made.add_device()
    start, ids = 0, []
    for name, duration in zip("abcdefgh", durations, strict=False):
        ids.append(made.add_kernel(start, start + duration, name, **row))
        start += duration + gap
    return made, ids


def one(rows: list[Row], **wanted: Any) -> Row:
    """Return the only row, having asserted the values of some of its columns."""
    [row] = rows
    assert {name: row[name] for name in wanted} == close(wanted)
    return row


def close(value: Any) -> Any:
    """Return what equals a value, give or take rounding in its floating-point numbers."""
    if isinstance(value, dict):
        return {key: close(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(close(part) for part in value)
    return pytest.approx(value) if isinstance(value, float) else value


# counters


@pytest.mark.slow
def test_fp32_from_nvprof_counters() -> None:
    """(5000 + 5000) FLOP ÷ 100 FLOP/ns = 100 ns, of 300 ns busy and 400 ns elapsed."""
    made, (a, b) = timeline(100, 200)
    made.add_metric(a, FLOP, 5000.0)
    made.add_metric(b, FLOP, 5000.0)
    one(
        metric(made, "fp32_util"),
        flop=10_000.0,
        busy_pct=100 / 3,
        peak_flops=1e11,
        kernels=2,
        busy_ns=300,
        elapsed_ns=400,
        elapsed_pct=25.0,
        covered_pct=100.0,
        evidence="counter",
        measured_over="whole trace",
        pipe_pct=None,
        pipe_level=None,
        reason=None,
    )


@pytest.mark.slow
def test_by_kernel() -> None:
    made, (a, b) = timeline(100, 200)
    made.add_metric(a, FLOP, 5000.0)
    made.add_metric(b, FLOP, 5000.0)
    rows = metric(made, "fp32_util", by="kernel")
    assert [(r["kernel_name"], r["busy_ns"], r["busy_pct"], r["elapsed_pct"]) for r in rows] == [
        ("b", 200, 25.0, 12.5),
        ("a", 100, 50.0, 12.5),
    ]


@pytest.mark.slow
def test_fp32_from_ncu_counters() -> None:
    made, (a,) = timeline(10)
    for name, value in ((FADD, 100.0), (FMUL, 200.0), (FFMA, 300.0)):
        made.add_metric(a, name, value)
    one(metric(made, "fp32_util"), flop=900.0, busy_pct=90.0, elapsed_pct=90.0)


@pytest.mark.slow
@pytest.mark.parametrize("missing", one_in(3, [FADD, FMUL, FFMA]))
def test_a_missing_part_of_the_sum_is_no_small_sum(missing: str) -> None:
    made, (a,) = timeline(10)
    for name in {FADD, FMUL, FFMA} - {missing}:
        made.add_metric(a, name, 100.0)
    assert metric(made, "fp32_util") == []


@pytest.mark.slow
def test_fp16_and_fp32_do_not_mix() -> None:
    made, (a,) = timeline(10)
    made.add_metric(a, FLOP, 500.0)
    made.add_metric(a, "flop_count_hp", 1000.0)
    one(metric(made, "fp32_util"), flop=500.0, busy_pct=50.0)
    one(metric(made, "fp16_util"), flop=1000.0, busy_pct=25.0, peak_flops=4e11)
    assert metric(made, "tensor_util") == []


@pytest.mark.slow
def test_levels_are_weighted_by_duration_and_stay_levels() -> None:
    """(100 * 4 + 200 * 1) ÷ 300 = 2: no percentage, and nothing about FLOP."""
    made, (a, b) = timeline(100, 200)
    made.add_metric(a, LEVEL, 4.0, unit="level")
    made.add_metric(b, LEVEL, 1.0, unit="level")
    row = one(
        metric(made, "fp32_util"), pipe_level=2.0, busy_pct=None, elapsed_pct=None, pipe_pct=None,
        flop=None,
    )  # fmt: skip
    assert "FLOP unknown" in row["reason"]


@pytest.mark.slow
def test_pipes_are_weighted_by_cycles() -> None:
    """(1000 * 50 + 3000 * 10) ÷ 4000 = 20, whatever the durations."""
    made, kernels = timeline(900, 100)
    for kernel, cycles, active, elapsed in zip(
        kernels, (1000.0, 3000.0), (50.0, 10.0), (40.0, 8.0), strict=True
    ):
        made.add_metric(kernel, CYCLES, cycles)
        made.add_metric(kernel, FMA_PIPE.format("active"), active)
        made.add_metric(kernel, FMA_PIPE.format("elapsed"), elapsed)
    one(metric(made, "fp32_util"), pipe_pct=20.0, pipe_elapsed_pct=16.0, flop=None)


@pytest.mark.slow
def test_cycles_and_durations_never_weigh_together() -> None:
    """One kernel lacks its cycles: durations weigh both. (900 * 50 + 100 * 10) ÷ 1000 = 46."""
    made, (a, b) = timeline(900, 100)
    made.add_metric(a, FMA_PIPE.format("active"), 50.0)
    made.add_metric(b, FMA_PIPE.format("active"), 10.0)
    made.add_metric(b, CYCLES, 1e9)
    one(metric(made, "fp32_util"), pipe_pct=46.0)


@pytest.mark.slow
def test_the_preferred_name_of_a_pipe_wins() -> None:
    made, (a,) = timeline(100)
    made.add_metric(a, "sm__inst_executed_pipe_fp32.avg.pct_of_peak_sustained_active", 70.0)
    made.add_metric(a, "sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active", 30.0)
    made.add_metric(a, FMA_PIPE.format("active"), 50.0)
    one(metric(made, "fp32_util"), pipe_pct=30.0)


@pytest.mark.slow
def test_a_pipe_above_100_percent_is_null_with_a_reason() -> None:
    made, (a,) = timeline(100)
    made.add_metric(a, FLOP, 5000.0)
    made.add_metric(a, FMA_PIPE.format("active"), 150.0)
    row = one(metric(made, "fp32_util"), pipe_pct=None, busy_pct=50.0)
    assert "above 100 %" in row["reason"]


@pytest.mark.slow
def test_above_the_peak_is_null_with_a_reason() -> None:
    made, (a,) = timeline(100)
    made.add_metric(a, FLOP, 10_001.0)
    row = one(metric(made, "fp32_util"), busy_pct=None, elapsed_pct=None, flop=10_001.0)
    assert "above the physical peak" in row["reason"]


@pytest.mark.slow
def test_exactly_the_peak_is_possible() -> None:
    made, (a,) = timeline(100)
    made.add_metric(a, FLOP, 10_000.0)
    one(metric(made, "fp32_util"), busy_pct=100.0, reason=None)


@pytest.mark.slow
@pytest.mark.parametrize(("counted", "known"), [(94, False), (95, True), (100, True)])
def test_counters_must_cover_the_kernel_time(counted: int, known: bool) -> None:
    made = MadeTrace()
    made.add_device()
    kernel = made.add_kernel(0, counted, "a")
    made.add_kernel(counted, 100, "b")  # may take no time at all
    made.add_metric(kernel, FLOP, 100.0)
    row = one(metric(made, "fp32_util"), covered_pct=float(counted), kernels=2)
    assert (row["busy_pct"] is not None) is known
    assert (row["reason"] is None) is known
    if not known:
        assert "94" in row["reason"]


@pytest.mark.slow
def test_a_missing_metric_is_null_never_zero() -> None:
    made, (a,) = timeline(100)
    made.add_metric(a, "achieved_occupancy", 0.5)
    made.add_metric(a, FLOP, None)
    for name in ("fp32_util", "fp16_util", "tensor_util", "low_util_kernels"):
        assert metric(made, name) == []


@pytest.mark.slow
def test_a_counted_zero_is_zero() -> None:
    made, (a,) = timeline(100)
    made.add_metric(a, FLOP, 0.0)
    one(metric(made, "fp32_util"), flop=0.0, busy_pct=0.0, elapsed_pct=0.0, reason=None)


@pytest.mark.slow
def test_a_device_without_peak_has_a_reason() -> None:
    made = MadeTrace()
    made.add_metric(made.add_kernel(0, 100, device_id=3), FLOP, 5000.0)
    row = one(metric(made, "fp32_util"), busy_pct=None, peak_flops=None, flop=5000.0)
    assert "peak" in row["reason"]


@pytest.mark.slow
def test_streams_at_once_are_busy_once() -> None:
    made = MadeTrace()
    made.add_device()
    for stream in (7, 8):
        made.add_metric(made.add_kernel(0, 100, stream_id=stream), FLOP, 2500.0)
    one(metric(made, "fp32_util"), busy_ns=100, busy_pct=50.0)
    one(metric(made, "fp32_util", by="kernel"), busy_ns=200, busy_pct=25.0)


@pytest.mark.slow
def test_devices_and_processes_apart() -> None:
    made = MadeTrace()
    for device, process, flop in ((0, 1, 2000.0), (1, 1, 4000.0), (0, 2, 8000.0)):
        made.add("process", process_id=10 * process + device, pid=process)
        kernel = made.add_kernel(0, 100, device_id=device, process_id=10 * process + device)
        made.add_metric(kernel, FLOP, flop)
    made.add_device(device_id=0)
    made.add_device(device_id=1, sm_count=50)
    rows = metric(made, "fp32_util")
    assert [(r["pid"], r["device_id"], r["busy_pct"]) for r in rows] == [
        (1, 0, 20.0),
        (1, 1, 20.0),
        (2, 0, 80.0),
    ]


@pytest.mark.slow
def test_values_per_unit_and_aggregates_are_no_kernel_s_value() -> None:
    made, (a,) = timeline(100)
    made.add_metric(a, FLOP, 5000.0)
    made.add_metric(a, FLOP, 1e9, unit_instance=3)
    made.add_metric(None, FLOP, 1e9, kernel_name="a", instances=5)
    one(metric(made, "fp32_util"), flop=5000.0)


# iterations, layers


def training(*flops: float, first: int = 100) -> MadeTrace:
    """Return one kernel of 40 ns per iteration of 100 ns, the first of them ``first`` ns long.

    One more ends the last. It does not count: 10 % of the time lies between ranges, so that the
    end of its own period is unknown.
    """
    made = MadeTrace()
    made.add_device()
    for number, flop in enumerate([*flops, 9e9]):
        start = 0 if number == 0 else first + 100 * (number - 1)
        made.add_range(start, start + 90, f"step {number}")
        kernel = made.launch(start + 1, start + 5, start + 45)
        made.add_metric(kernel, FLOP, flop)
    return made


@pytest.mark.slow
def test_by_iteration() -> None:
    made = training(1000.0, 2000.0, 3000.0)
    rows = metric(made, "fp32_util", by="iteration", window="iterations")
    columns = ("iteration", "busy_ns", "elapsed_ns", "busy_pct", "elapsed_pct")
    found = [tuple(row[column] for column in columns) for row in rows]
    assert found == close(
        [(0, 40, 100, 25.0, 10.0), (1, 40, 100, 50.0, 20.0), (2, 40, 100, 75.0, 30.0)]
    )


@pytest.mark.slow
def test_only_the_steady_state_counts() -> None:
    """The first iteration is twice as long as the others: warm-up. Nothing follows the last."""
    made = training(4000.0, 1000.0, 1000.0, 1000.0, 1000.0, first=200)
    one(
        metric(made, "fp32_util"), flop=4000.0, busy_ns=160, elapsed_ns=400, elapsed_pct=10.0,
        measured_over="steady state", kernels=4,
    )  # fmt: skip


def modelled(batch: int | None = 4, **layer: Any) -> MadeTrace:
    """Return three iterations of a layer: 30 and 10 ns forward, 40 backward on another thread.

    A last iteration with a kernel of no layer ends the third.
    """
    made = MadeTrace()
    made.add_device()
    made.add_trace(batch_size=batch)
    made.add_layer("conv__1", layer_type="Conv2d", **layer)
    for number in range(3):
        at = 1000 * number
        made.add_range(at, at + 1000, f"step {number}")
        made.add_range(at + 10, at + 50, "layer:conv__1")
        made.launch(at + 11, at + 100, at + 130, "im2col")
        made.launch(at + 15, at + 130, at + 140, "gemm")
        made.add_range(at + 210, at + 250, "layer_backward:conv__1", thread_id=2)
        made.launch(at + 215, at + 300, at + 340, "wgrad", thread_id=2)
    made.add_range(3000, 4000, "step 3")
    made.launch(3011, 3100, 3105, "im2col")
    return made


@pytest.mark.slow
def test_modelled_from_layers_and_batch() -> None:
    """4 * (100 + 200) FLOP per iteration = 12 ns at peak, in 80 ns busy of 1000 ns."""
    made = modelled(forward_flop=100.0, backward_flop=200.0)
    one(
        metric(made, "fp32_util", window="iterations"),
        flop=3600.0,
        busy_pct=15.0,
        elapsed_ns=3000,
        elapsed_pct=1.2,
        covered_pct=100.0,
        evidence="modelled",
    )


@pytest.mark.slow
def test_modelled_by_layer_and_shared_by_time() -> None:
    made = modelled(forward_flop=100.0, backward_flop=200.0)
    one(
        metric(made, "fp32_util", by="layer", window="iterations"),
        layer="conv__1", busy_ns=240, busy_pct=15.0, kernels=9,
    )  # fmt: skip
    work = relation(made, "kernel_work", window="iterations")
    assert {(r["kernel_name"], r["flop"]) for r in work} == {
        ("im2col", 300.0),
        ("gemm", 100.0),
        ("wgrad", 800.0),
    }


@pytest.mark.slow
def test_a_layer_s_model_says_nothing_about_one_kernel() -> None:
    made = modelled(forward_flop=100.0, backward_flop=200.0)
    assert metric(made, "fp32_util", by="kernel", window="iterations") == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("precision", "query", "peak"),
    [
        (None, "fp32_util", 1e11),
        ("fp32", "fp32_util", 1e11),
        ("tf32", "tensor_util", 8e11),
        ("fp16", "tensor_util", 1.6e12),
        ("bf16", "tensor_util", 1.6e12),
    ],
)
def test_the_layer_s_arithmetic_chooses_the_peak(
    precision: str | None, query: str, peak: float
) -> None:
    made = modelled(forward_flop=100.0, backward_flop=100.0, precision=precision)
    row = one(metric(made, query, window="iterations"), flop=2400.0, peak_flops=pytest.approx(peak))
    assert row["busy_pct"] == pytest.approx(100 * 2400e9 / peak / 240)


@pytest.mark.slow
def test_kernels_of_layers_have_no_second_flop_of_operators() -> None:
    """The operators have 240 FLOP each: one inside the layer, which has 1000, and one outside."""
    made = MadeTrace()
    made.add_device()
    made.add_trace(batch_size=1)
    made.add_layer("conv", forward_flop=1000.0)
    made.add_range(0, 100, "layer:conv", domain_id=1, domain="tbd_trace")
    made.add_range(0, 200, "step 1")
    made.add_range(200, 300, "step 2")
    for start in (10, 110):
        number = made.add_range(start, start + 50, "aten::mm", source="operator", domain_id=-1)
        made.add(
            "operator_input", annotation_id=number, operator="aten::mm",
            input_dims="[[4,5],[5,6]]", input_types='["float32","float32"]', input_values="[]",
        )  # fmt: skip
        made.launch(start + 5, start + 10, start + 30)
    made.launch(205, 210, 230)
    rows = relation(made, "kernel_work", window="whole_trace")
    assert sorted((r["layer"] or "", r["flop"], r["is_own"]) for r in rows if r["flop"]) == [
        ("aten::mm", 240.0, True), ("conv", 1000.0, False),
    ]  # fmt: skip


@pytest.mark.slow
def test_layers_of_several_arithmetics_have_a_harmonic_peak() -> None:
    """1600 FLOP at 1600 per ns and 800 at 800 per ns take 2 ns: 2400 ÷ 2 = 1200 per ns."""
    made = MadeTrace()
    made.add_device()
    made.add_trace(batch_size=1)
    made.add_layer("half", forward_flop=1600.0, precision="fp16")
    made.add_layer("tf", forward_flop=800.0, precision="tf32")
    made.add_range(0, 100, "step 0")
    for at, name in ((10, "half"), (50, "tf")):
        made.add_range(at, at + 20, f"layer:{name}")
        made.launch(at + 1, at + 5, at + 15)
    row = one(metric(made, "tensor_util", window="iterations"), flop=2400.0, busy_pct=10.0)
    assert row["peak_flops"] == pytest.approx(1.2e12)


@pytest.mark.slow
@pytest.mark.parametrize("layer", [{}, {"backward_flop": 200.0}])
def test_what_the_model_lacks_is_unknown(layer: dict[str, float]) -> None:
    made = modelled(4, **layer)
    rows = metric(made, "fp32_util", window="iterations")
    if layer:
        # the backward pass alone: 40 of 80 ns
        one(rows, covered_pct=50.0, flop=2400.0)
    else:
        assert rows == []


@pytest.mark.slow
def test_without_a_batch_size_nothing_is_modelled() -> None:
    made = modelled(batch=None, forward_flop=100.0, backward_flop=200.0)
    assert metric(made, "fp32_util", window="iterations") == []


@pytest.mark.slow
def test_kinds_of_evidence_are_never_mixed() -> None:
    made = modelled(forward_flop=100.0, backward_flop=200.0)
    for row in made.rows["kernel"]:
        made.add_metric(row["kernel_id"], FLOP, 800.0)
    rows = metric(made, "fp32_util", window="iterations")
    assert [(r["evidence"], r["flop"], r["busy_pct"]) for r in rows] == close(
        [("counter", 7200.0, 30.0), ("modelled", 3600.0, 15.0)]
    )


@pytest.mark.slow
def test_by_kernel_the_uncounted_executions_count_against_the_coverage() -> None:
    made = modelled(forward_flop=100.0, backward_flop=200.0)
    first = next(r for r in made.rows["kernel"] if r["name"] == "gemm")
    made.add_metric(first["kernel_id"], FLOP, 800.0)
    row = one(
        metric(made, "fp32_util", by="kernel", window="iterations"), kernel_name="gemm", kernels=3
    )
    assert row["covered_pct"] == pytest.approx(100 / 3)
    assert row["busy_pct"] is None


# several files of one capture


def capture(
    executions: int, values: list[float], *, runs: int = 1, **kernel: Any
) -> tuple[MadeTrace, list[int]]:
    """Return a timeline and metric runs, whose replayed kernels take 1000 times as long."""
    made = MadeTrace()
    made.add_trace("line", capture_id="c")
    made.add_device(trace_id="line")
    kernels = [
        made.add_kernel(100 * n, 100 * n + 50, "gemm", trace_id="line", **kernel)
        for n in range(executions)
    ]
    for run in range(runs):
        made.add_trace(f"count{run}", capture_id="c", kind="metrics", tool="nvprof")
        for n, value in enumerate(values):
            replayed = made.add_kernel(
                60_000 * n, 60_000 * n + 50_000, "gemm", trace_id=f"count{run}", **kernel
            )
            made.add_metric(replayed, FLOP, value, trace_id=f"count{run}")
    return made, kernels


@pytest.mark.slow
def test_counters_come_from_the_metric_run_and_times_from_the_timeline() -> None:
    """(1000 + 2000 + 1000) ÷ 100 = 40 ns of 150 busy, 250 elapsed; two executions serve three."""
    made, _ = capture(3, [1000.0, 2000.0])
    row = one(
        metric(made, "fp32_util"), trace_id="line", kernels=3, flop=4000.0, busy_ns=150,
        elapsed_ns=250, elapsed_pct=16.0,
    )  # fmt: skip
    assert row["busy_pct"] == pytest.approx(100 * 40 / 150)


@pytest.mark.slow
@pytest.mark.parametrize("runs", [2, 3])
def test_a_counter_that_several_runs_measured_counts_once(runs: int) -> None:
    made, _ = capture(3, [1000.0, 2000.0], runs=runs)
    one(metric(made, "fp32_util"), flop=4000.0)


@pytest.mark.slow
def test_a_kernel_s_own_counters_go_before_borrowed_ones() -> None:
    made, kernels = capture(2, [1000.0])
    for kernel in kernels:
        made.add_metric(kernel, FLOP, 3000.0, trace_id="line")
    one(metric(made, "fp32_util"), flop=6000.0)


@pytest.mark.slow
def test_runs_of_another_capture_lend_nothing() -> None:
    made, _ = capture(2, [1000.0])
    for row in made.rows["trace"]:
        row["capture_id"] = row["trace_id"]
    rows = metric(made, "fp32_util")
    assert [r["trace_id"] for r in rows] == ["count0"]


@pytest.mark.slow
def test_lone_files_are_no_capture() -> None:
    made, _ = capture(2, [1000.0])
    for row in made.rows["trace"]:
        row["capture_id"] = None
    assert [r["trace_id"] for r in metric(made, "fp32_util")] == ["count0"]


@pytest.mark.slow
def test_a_metric_run_alone_answers_by_its_kernels_durations() -> None:
    made, _ = capture(0, [1000.0, 2000.0])
    made.add_device(trace_id="count0")
    made.rows["trace"] = [r for r in made.rows["trace"] if r["trace_id"] != "line"]
    row = one(metric(made, "fp32_util"), busy_ns=100_000, elapsed_ns=None, elapsed_pct=None)
    assert row["busy_pct"] == pytest.approx(0.03)
    assert row["reason"] == "no timeline: elapsed time unknown"


@pytest.mark.slow
def test_a_metric_run_without_durations_knows_no_percentage() -> None:
    made = MadeTrace()
    made.add_trace(kind="metrics", tool="ncu")
    made.add_device()
    kernel = made.add_kernel(None, None)
    made.add_metric(kernel, FLOP, 1000.0, tool="nvprof")
    made.add_metric(kernel, FMA_PIPE.format("active"), 30.0)
    made.add_metric(kernel, CYCLES, 1000.0)
    row = one(
        metric(made, "fp32_util"), busy_pct=None, flop=1000.0, pipe_pct=30.0, covered_pct=None
    )
    assert "durations" in row["reason"]


@settings(max_examples=examples(10))
@given(
    line=st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from([1, 2, None])), max_size=12),
    runs=st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from([1, 2, None])), max_size=6),
)
def test_matching_by_name_configuration_and_ordinal(line: list[Any], runs: list[Any]) -> None:
    """The n-th execution of a kernel and launch configuration takes the n-th measured, in turn."""
    made = MadeTrace()
    made.add_trace("line", capture_id="c")
    made.add_trace("count", capture_id="c", kind="metrics")
    measured: dict[Any, list[float]] = {}
    for at, (name, grid) in enumerate(runs):
        kernel = made.add_kernel(at, at + 1, name, grid_x=grid, trace_id="count")
        made.add_metric(kernel, FLOP, float(at), trace_id="count")
        measured.setdefault((name, grid), []).append(float(at))
    expected, seen = {}, dict.fromkeys(measured, 0)
    for at, (name, grid) in enumerate(line):
        kernel = made.add_kernel(at, at + 1, name, grid_x=grid, trace_id="line")
        if values := measured.get((name, grid)):
            expected[kernel] = values[seen[name, grid] % len(values)]
            seen[name, grid] += 1
    rows = [r for r in relation(made, "kernel_counter") if r["trace_id"] == "line"]
    assert {r["kernel_id"]: r["value"] for r in rows} == expected
    assert len(rows) == len(expected)
    assert {r["counter_trace_id"] for r in rows} <= {"count"}


@pytest.mark.slow
def test_levels_without_durations_are_weighted_by_executions_and_never_partly() -> None:
    """One of two durations known: it alone counts. None known: (4 + 2) ÷ 2 = 3."""
    made = MadeTrace()
    made.add_trace(kind="metrics", tool="nvprof")
    for name, level in (("a", 4.0), ("b", 2.0)):
        made.add_metric(made.add_kernel(None, None, name), LEVEL, level)
    one(metric(made, "fp32_util"), pipe_level=3.0)
    rows = metric(made, "low_util_kernels")
    assert [(r["kernel_name"], r["utilization"], r["mean_utilization"]) for r in rows] == [
        ("b", 2.0, 3.0),
        ("a", 4.0, 3.0),
    ]
    made.rows["kernel"][0]["duration_ns"] = 1000
    one(metric(made, "fp32_util"), pipe_level=4.0)


# low_util_kernels


@pytest.mark.slow
def test_kernels_below_and_above_the_mean() -> None:
    """Utilizations 10, 20, 60 and 80 % in 400, 300, 200 and 100 ns: the mean is 30 %."""
    made, kernels = timeline(400, 300, 200, 100)
    for kernel, flop in zip(kernels, (4000.0, 6000.0, 12_000.0, 8000.0), strict=True):
        made.add_metric(kernel, FLOP, flop)
    rows = metric(made, "low_util_kernels")
    assert [
        (r["side"], r["rank"], r["kernel_name"], r["utilization"], r["share_pct"]) for r in rows
    ] == close(
        [
            ("below", 1, "a", 10.0, 40.0),
            ("below", 2, "b", 20.0, 30.0),
            ("above", 1, "c", 60.0, 20.0),
            ("above", 2, "d", 80.0, 10.0),
        ]
    )
    for row in rows:
        one([row], mean_utilization=30.0, measure="FLOP", evidence="counter")
    few = metric(made, "low_util_kernels", count=1)
    assert [(r["side"], r["kernel_name"]) for r in few] == [("below", "a"), ("above", "c")]


@pytest.mark.slow
def test_low_utilization_by_levels() -> None:
    """Levels 1 and 7 in 300 and 100 ns: the mean is 2.5, no percentage."""
    made, (a, b) = timeline(300, 100)
    made.add_metric(a, LEVEL, 1.0)
    made.add_metric(b, LEVEL, 7.0)
    rows = metric(made, "low_util_kernels")
    assert [(r["kernel_name"], r["utilization"], r["measure"]) for r in rows] == [
        ("a", 1.0, "level"),
        ("b", 7.0, "level"),
    ]
    assert rows[0]["mean_utilization"] == 2.5


@pytest.mark.slow
def test_low_utilization_never_mixes_measures() -> None:
    """FLOP of a tenth of the time and levels of all of it: the levels serve."""
    made, (a, b) = timeline(900, 100)
    for kernel in (a, b):
        made.add_metric(kernel, LEVEL, 3.0)
    made.add_metric(b, FLOP, 1000.0)
    rows = metric(made, "low_util_kernels")
    assert {(r["kernel_name"], r["measure"], r["utilization"]) for r in rows} == {
        ("a", "level", 3.0),
        ("b", "level", 3.0),
    }


@pytest.mark.slow
@pytest.mark.parametrize(("covered_ns", "is_enough"), [(94, False), (95, True)])
@pytest.mark.parametrize(("counter", "measure"), [(FLOP, "FLOP"), (FMA_PIPE, "pipe")])
def test_the_most_exact_measure_of_95_percent_of_the_time_serves(
    counter: str, measure: str, covered_ns: int, is_enough: bool
) -> None:
    made, (a, b) = timeline(covered_ns, 100 - covered_ns)
    made.add_metric(a, counter.format("active"), 30.0)
    for kernel in (a, b):
        made.add_metric(kernel, LEVEL, 3.0)
    found = {row["measure"] for row in relation(made, "kernel_utilization")}
    assert found == {measure if is_enough else "level"}


@pytest.mark.slow
def test_an_impossible_kernel_neither_shows_nor_spoils_the_mean() -> None:
    """20 % and 40 % in 100 ns each, and one kernel at 900 % of the peak."""
    made, (a, b, c) = timeline(100, 100, 100)
    for kernel, flop in ((a, 2000.0), (b, 4000.0), (c, 90_000.0)):
        made.add_metric(kernel, FLOP, flop)
    rows = metric(made, "low_util_kernels")
    assert [(r["side"], r["kernel_name"], r["mean_utilization"]) for r in rows] == close(
        [("below", "a", 30.0), ("above", "b", 30.0)]
    )
