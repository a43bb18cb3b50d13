"""Rules over single traces: where each passes, finds something and abstains."""

from __future__ import annotations

import statistics
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fast import examples, one_in
from made_checks import (
    ITERATIONS,
    PERIOD,
    add_capture,
    kernel,
    row_of,
    rows_on,
    train,
    verdict,
)
from made_trace import MadeTrace, Row

GEMM = "ampere_sgemm_128x64_nn"
CELL = "void LSTM_elementWise_fp<float>(int)"
TRAINING_RULES = ("OBS05", "OBS06", "ROB01")
RULES_FOR_ALL = ("OBS04", "OBS08", "OCC01", "OCC02", "COM01")


def busy(took: int, **options: Any) -> MadeTrace:
    """Return a training whose only kernel takes so many of an iteration's 1000 ns."""
    made = MadeTrace()
    train(made, kernel(100, took), **options)
    return made


# what training rules judge


@pytest.mark.slow
@pytest.mark.parametrize("rule", TRAINING_RULES)
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"trains": False}, "the program is not known to train"),
        ({"iterations": 0}, "needs"),
    ],
)
def test_rules_about_training_judge_nothing_else(
    rule: str, options: dict[str, Any], said: str
) -> None:
    made = busy(300, **options)
    made.add_range(0, 1, "anything")
    row = row_of(made, rule)
    assert verdict(row) == ("not evaluable", None)
    assert row["value"] is None
    assert said in row["reason"]
    assert row["advice"]


@pytest.mark.slow
@pytest.mark.parametrize("rule", TRAINING_RULES)
def test_kernels_without_iterations_are_not_training(rule: str) -> None:
    made = MadeTrace()
    made.launch(0, 10, 20)
    made.launch(30, 40, 90, "other")
    said = "needs iterations" if rule == "ROB01" else "the program is not known to train"
    assert row_of(made, rule)["reason"].startswith(said)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("periods", "counted"),
    [
        ([1000], 1),
        ([1000, 1000], 2),  # the last one ends with its range
        ([1200, 1000, 1000], 2),  # the first one is warm-up: 20 % longer than the others
    ],
)
def test_few_iterations_are_not_judged_for_their_steadiness(
    periods: list[int], counted: int
) -> None:
    row = row_of(busy(300, periods=periods), "ROB01")
    assert verdict(row) == ("not evaluable", None)
    assert row["reason"].startswith(f"only {counted} of {len(periods)} iterations")


@pytest.mark.slow
@pytest.mark.parametrize("rule", one_in(5, RULES_FOR_ALL, then_one_in=2))
@pytest.mark.parametrize("trains", one_in(2, [True, False]))
@pytest.mark.parametrize("window", ["steady", "trace"])
def test_rules_about_any_program_judge_it(rule: str, trains: bool, window: str) -> None:
    """Half of each 1000 ns two GPUs work, 300 ns of them exposed communication."""
    made = MadeTrace()
    made.add_device()
    shape = {"grid_x": 26, "grid_y": 1, "grid_z": 1, "block_x": 256, "block_y": 1, "block_z": 1}
    shape |= {"registers_per_thread": 255, "static_shared_bytes": 0, "dynamic_shared_bytes": 0}
    ids = train(
        made,
        kernel(100, 150, "first", **shape),
        kernel(250, 50, "second", **shape),
        kernel(300, 300, ALL_REDUCE),
        iterations=40,
        trains=trains,
    )
    for first, second, _ in ids:
        made.add_metric(first, "flop_count_sp", 3000)
        made.add_metric(second, "flop_count_sp", 3000)
    row = row_of(made, rule, window=window)
    assert row["verdict"] == "finding"
    note = rule.startswith("OCC") or rule == "OBS08" or not trains
    assert row["severity"] == ("note" if note else "warning")


def kernels_alone(number: int, trains: bool = True) -> MadeTrace:
    """Return kernels of 10 ns, no two of one name, at most one in 100 ns: 10 % busy."""
    made = MadeTrace()
    for place in range(number):
        name = f"cudnn_wgrad_{place}" if trains else f"work_{place}"
        made.launch(100 * place, 100 * place + 10, 100 * place + 20, name)
    return made


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "trains", "expected"),
    [
        (100, True, ("finding", "warning")),  # 10 % would be severe in iterations
        (100, False, ("finding", "note")),
        (99, True, ("not evaluable", None)),
        (99, False, ("not evaluable", None)),
    ],
)
def test_gpu_idle_without_iterations(
    number: int, trains: bool, expected: tuple[str, str | None]
) -> None:
    row = row_of(kernels_alone(number, trains), "OBS04")
    assert verdict(row) == expected
    if expected[0] == "finding":
        elapsed = 100 * (number - 1) + 10
        assert row["value"] == pytest.approx(100 * 10 * number / elapsed)
        assert "% of the whole trace" in row["reason"]
    else:
        assert row["value"] is None
        assert f"only {number} kernels ran" in row["reason"]
    assert row_of(kernels_alone(number), "OBS04", min_kernels=99)["severity"] == "warning"


@pytest.mark.slow
@pytest.mark.parametrize("tells", ["capture", "kernel name"])
def test_a_capture_or_the_name_of_a_kernel_tells_training(tells: str) -> None:
    made = MadeTrace()
    name = "cudnn_wgrad" if tells == "kernel name" else "work"
    train(made, kernel(100, 900, name), trains=False)
    if tells == "capture":
        add_capture(made, optimizer="sgd")
    assert verdict(row_of(made, "OBS04")) == ("pass", None)


@pytest.mark.slow
def test_what_optimizers_and_copies_launch_alike_tells_nothing() -> None:
    made = MadeTrace()
    train(made, kernel(100, 300, "multi_tensor_apply_kernel<Copy>"), trains=False)
    assert verdict(row_of(made, "OBS04")) == ("finding", "note")
    assert verdict(row_of(made, "OBS04", assume_training=True)) == ("finding", "severe")


@pytest.mark.slow
def test_of_several_devices_the_worst_is_told_and_an_unused_one_is_not() -> None:
    made = MadeTrace()
    train(
        made,
        kernel(100, 900),
        kernel(100, 600, device_id=1),
        kernel(100, 20, device_id=2),  # less than a tenth of the busiest
    )
    row = row_of(made, "OBS04")
    assert (row["value"], row["severity"]) == (pytest.approx(60), "warning")
    assert row["reason"].startswith(
        "GPU 1 ran kernels for 60.0 % of 12 iterations of the steady state"
    )


@pytest.mark.slow
def test_each_trace_has_a_row_and_one_that_only_lends_counters_has_none() -> None:
    made = busy(900)
    made.add_trace("metrics", kind="metrics", capture_id="c")
    add_capture(made, "t")
    made.rows["trace"][-1]["capture_id"] = "c"
    made.add_trace("nothing")
    with made.connect() as database:
        for rule in (*TRAINING_RULES, *RULES_FOR_ALL, "OBS09", "ROB02", "ROB03", "ROB04"):
            rows = rows_on(database, rule)
            assert sorted(row["trace_id"] for row in rows) == ["nothing", "t"]


# OBS04


@pytest.mark.slow
@pytest.mark.parametrize(
    ("took", "expected", "threshold"),
    [
        (900, ("pass", None), 80),
        (800, ("pass", None), 80),
        (799, ("finding", "warning"), 80),
        (500, ("finding", "warning"), 80),
        (499, ("finding", "severe"), 50),
    ],
)
def test_gpu_idle(took: int, expected: tuple[str, str | None], threshold: float) -> None:
    row = row_of(busy(took), "OBS04")
    assert verdict(row) == expected
    assert (row["value"], row["threshold"], row["unit"]) == (
        pytest.approx(100 * took / PERIOD), threshold, "%",
    )  # fmt: skip


@pytest.mark.slow
def test_thresholds_are_parameters() -> None:
    made = busy(700)
    assert row_of(made, "OBS04", min_busy_pct=70)["verdict"] == "pass"
    made = busy(700)
    assert row_of(made, "OBS04", severe_busy_pct=75)["severity"] == "severe"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cause", "advice"),
    one_in(
        5,
        [
            ("copies", "pinned memory"),
            ("input pipeline", "loader workers"),
            ("synchronization", "synchronize()"),
            ("memory allocation", "caching allocator"),
            ("host", "launch less"),
        ],
    ),
)
def test_advice_is_about_what_the_gpu_waits_for(cause: str, advice: str) -> None:
    made = busy(300)  # from 100 to 400; the next launch is at 1010
    for start in range(0, PERIOD * ITERATIONS, PERIOD):
        if cause == "copies":
            made.add_memcpy(start + 400, start + 1000)
        elif cause == "input pipeline":
            made.add_range(start + 400, start + 1000, "phase:data")
        elif cause != "host":
            name = {"synchronization": "cudaDeviceSynchronize"}.get(cause, "cudaMalloc")
            made.add_call(start + 400, start + 1000, name)
            if name == "cudaMalloc":  # what is freed again does not grow
                made.add_call(start + 1000, start + 1001, "cudaFree")
    if cause == "input pipeline":  # a wait for input takes more than 20 µs
        for rows in made.rows.values():
            for row in rows:
                row |= {key: 100 * row[key] for key in row if key.endswith("_ns") and row[key]}
    row = row_of(made, "OBS04")
    assert advice in row["advice"]
    assert f"without a kernel: {cause}" in row["reason"]


@pytest.mark.slow
def test_graphs_traced_as_a_whole_hide_how_busy_the_gpu_is() -> None:
    made = busy(300)
    correlation = made.next_id()
    made.add_call(5012, 5013, "cudaGraphLaunch", correlation_id=correlation)
    made.add_graph(5500, 5600, correlation_id=correlation)
    row = row_of(made, "OBS04")
    assert row["verdict"] == "not evaluable"
    assert "graphs were traced as a whole" in row["reason"]
    assert "--cuda-graph-trace=node" in row["advice"]


# OBS05


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kernels", "expected"),
    [
        ([(300, CELL), (200, "other")], "finding"),
        ([(200, CELL), (300, "other")], "pass"),  # 40 % recurrent
        ([(500, CELL), (300, "other")], "pass"),  # busy
        ([(100, CELL), (150, GEMM), (200, "other")], "finding"),  # GEMM beside the cell: 56 %
        ([(100, CELL), (200, "other"), (150, GEMM), (9, "other")], "pass"),  # not beside it
        ([(200, GEMM), (200, "other")], "not evaluable"),
        ([(300, CELL), (200, "RNN_blockPersist_fp_LSTM")], "not evaluable"),
    ],
)
def test_recurrent_layers(kernels: list[tuple[int, str]], expected: str) -> None:
    made = MadeTrace()
    starts = [100 + sum(took for took, _ in kernels[:place]) for place in range(len(kernels))]
    train(made, *(kernel(s, took, name) for s, (took, name) in zip(starts, kernels, strict=True)))
    row = row_of(made, "OBS05")
    assert row["verdict"] == expected
    if expected != "not evaluable":
        took = sum(took for took, _ in kernels)
        assert row["value"] == pytest.approx(100 * took / PERIOD)
        assert row["evidence"] == "kernel name"


@pytest.mark.slow
def test_layers_json_tells_recurrent_layers() -> None:
    made = MadeTrace()
    train(made, kernel(100, 500))
    made.add_layer("cells", layer_type="LSTM")
    for start in range(0, PERIOD * ITERATIONS, PERIOD):
        made.add_range(start + 8, start + 15, "layer:cells")
    row = row_of(made, "OBS05")
    assert (row["verdict"], row["evidence"]) == ("finding", "layers.json")
    assert "recurrent layers take 100.0 % of the kernel time" in row["reason"]


# OBS06


def counted(flop: float, name: str = "work", **metrics: float) -> MadeTrace:
    """Return a training whose kernel of 500 ns does so many FLOP, on a GPU of 100 FLOP per ns."""
    made = MadeTrace()
    made.add_device()
    for ids in train(made, kernel(100, 500, name)):
        made.add_metric(ids[0], "flop_count_sp", flop)
        for metric, value in metrics.items():
            made.add_metric(ids[0], metric, value)
    return made


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flop", "expected"), [(15_000, "pass"), (14_999, "finding"), (60_000, "not evaluable")]
)
def test_use_of_the_peak(flop: float, expected: str) -> None:
    row = row_of(counted(flop), "OBS06")
    assert row["verdict"] == expected
    if expected == "not evaluable":
        assert "above the physical peak" in row["reason"]
        return
    assert row["value"] == pytest.approx(100 * flop / (100 * 500))
    assert (row["evidence"], row["threshold"]) == ("counter", 30)
    assert f"and {flop / 1000:.1f} % of it over 12 iterations of the steady state" in row["reason"]


@pytest.mark.slow
def test_fp32_says_nothing_about_tensor_cores() -> None:
    row = row_of(counted(100, "ampere_fp16_s16816gemm_fp16_128x64"), "OBS06")
    assert row["verdict"] == "not evaluable"
    assert "tensor cores" in row["reason"]


@pytest.mark.slow
def test_unknown_flop_are_no_small_flop() -> None:
    assert row_of(busy(500), "OBS06")["reason"] == "the FLOP of the kernels are unknown"


# OBS08


def two_kernels(slow_flop: float) -> MadeTrace:
    """Return kernels `fast` (600 ns at 50 % of the peak) and `slow` (300 ns)."""
    made = MadeTrace()
    made.add_device()
    for fast, slow in train(made, kernel(100, 600, "fast"), kernel(700, 300, "slow")):
        made.add_metric(fast, "flop_count_sp", 30_000)
        made.add_metric(slow, "flop_count_sp", slow_flop)
    return made


@pytest.mark.slow
def test_long_kernels_below_the_mean() -> None:
    row = row_of(two_kernels(3000), "OBS08")  # slow: 10 % of the peak
    assert verdict(row) == ("finding", "note")
    assert row["value"] == pytest.approx(100 / 3)
    # mean (600 * 50 + 300 * 10) / 900 = 36.67; potential 33.33 * (1 - 10 / 36.67) = 24.24
    assert row["reason"] == (
        "kernels below the mean fp32 utilization (36.7 % of the peak) take 33.3 % of the kernel "
        "time: slow (33.3 % of the time, utilization 10.0); at the mean, they would save 24.2 % of "
        "the kernel time"
    )


@pytest.mark.slow
def test_kernels_alike_are_none_below_the_mean() -> None:
    assert row_of(two_kernels(15_000), "OBS08")["verdict"] == "pass"
    assert row_of(two_kernels(3000), "OBS08", min_share_pct=34)["verdict"] == "pass"
    assert "no hardware counters" in row_of(busy(500), "OBS08")["reason"]


# OBS09


def sampled(threads: int) -> MadeTrace:
    """Return a training with threads that run all the time, at one cycle per ns."""
    made = busy(500)
    made.add("process", process_id=1, pid=1)
    for thread in range(threads):
        for at in range(0, PERIOD * ITERATIONS + 1, 250):
            made.add(
                "cpu_sample", timestamp_ns=at, process_id=1, thread_id=thread, cpu=thread,
                cycles=250,
            )  # fmt: skip
    # system-wide samples are of other programs, too
    made.add("cpu_sample", timestamp_ns=1500, process_id=2, thread_id=99, cpu=9, cycles=10**9)
    made.add_trace(lacks=[])
    return made


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cores", "expected", "value"),
    [
        (0, ("not evaluable", None), None),
        (1, ("not evaluable", None), None),
        (2, ("finding", "warning"), 100),
        (4, ("pass", None), 50),
        (16, ("finding", "note"), 12.5),
    ],
)
def test_use_of_the_cpus(cores: int, expected: tuple[str, str | None], value: float | None) -> None:
    row = row_of(sampled(2), "OBS09", cpu_cores=cores)
    assert verdict(row) == expected
    assert row["value"] == (value and pytest.approx(value))
    if not cores:
        assert row["reason"].startswith("2.00 cores were busy on average")


@pytest.mark.slow
def test_without_iterations_the_cpus_are_judged_over_the_whole_trace() -> None:
    """Two threads run in the first half of 12 000 ns, so that one core is busy on average."""
    made = MadeTrace()
    made.add("process", process_id=1, pid=1)
    made.launch(0, 10, 20)
    for thread in range(2):
        for at in range(250, 6001, 250):
            made.add(
                "cpu_sample", timestamp_ns=at, process_id=1, thread_id=thread, cpu=thread,
                cycles=250,
            )  # fmt: skip
    made.add("cpu_sample", timestamp_ns=12_000, process_id=1, thread_id=1, cpu=1, cycles=0)
    made.add_trace(lacks=[], start_ns=0, end_ns=12_000)
    row = row_of(made, "OBS09", cpu_cores=4)
    assert verdict(row) == ("pass", None)
    assert row["value"] == pytest.approx(25)
    assert row["reason"].endswith(
        "1.00 of 4 cores were busy on average (25.0 %) over the whole trace"
    )


@pytest.mark.slow
def test_no_samples_of_the_cpus() -> None:
    made = busy(500)
    made.add_trace(lacks=["cpu_sample"])
    assert row_of(made, "OBS09")["reason"] == "the trace has no CPU samples"


# COM01

ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("start", "took", "expected", "exposed"),
    [
        (400, 200, "pass", 0),  # hidden behind the kernel of 300 to 600
        (500, 300, "pass", 200),
        (500, 301, "finding", 201),
    ],
)
def test_communication_that_nothing_hides(
    start: int, took: int, expected: str, exposed: int
) -> None:
    made = MadeTrace()
    train(made, kernel(300, 300), kernel(start, took, ALL_REDUCE))
    row = row_of(made, "COM01")
    assert row["verdict"] == expected
    assert row["value"] == pytest.approx(100 * exposed / PERIOD)
    assert f"{100 * (1 - exposed / took):.1f} % of its communication is hidden" in row["reason"]


@pytest.mark.slow
def test_one_gpu_does_not_communicate() -> None:
    assert "no communication kernel runs" in row_of(busy(500), "COM01")["reason"]


# ROB01


WARM_UP = 3000  # a first iteration that uses the kernel for the first time, and is left out


def periods(*lengths: int, **row: Any) -> MadeTrace:
    made = MadeTrace()
    train(made, kernel(100, 300, **row), periods=lengths)
    return made


def check_spread_and_trend(row: Row, iterations: list[Row], lengths: list[int]) -> None:
    kept = [i["period_ns"] for i in iterations if i["in_window"]]
    if iterations[0]["measured_over"] == "all iterations":
        assert row["verdict"] == ("finding" if len(lengths) >= 10 else "not evaluable")
        assert row["value"] is None
        return
    if len(kept) < 3:
        assert row["verdict"] == "not evaluable"
        return
    spread = 100 * statistics.stdev(kept) / statistics.mean(kept)
    if spread > 5:
        assert (row["verdict"], row["unit"]) == ("finding", "%")
        assert row["value"] == pytest.approx(spread)
        return
    slopes = [(kept[b] - kept[a]) / (b - a) for a, b in combinations(range(len(kept)), 2)]
    slope = statistics.median(slopes)
    is_said = len(kept) >= 10 and abs(slope) * len(kept) > statistics.stdev(kept)
    trend = 100 * 100 * slope / statistics.mean(kept)
    if is_said and abs(trend) > 1:
        assert (row["verdict"], row["unit"]) == ("finding", "% per 100 iterations")
        assert row["value"] == pytest.approx(trend)
    else:
        assert row["verdict"] == "pass"
        assert row["value"] == pytest.approx(spread)


@pytest.mark.slow
def test_steady_iterations_pass() -> None:
    kept = [1000, 1010] * 6
    row = row_of(periods(WARM_UP, *kept), "ROB01")
    assert verdict(row) == ("pass", None)
    assert row["value"] == pytest.approx(100 * statistics.stdev(kept) / statistics.mean(kept))


@pytest.mark.slow
def test_spread_is_found() -> None:
    kept = [1000, 1500] * 6
    row = row_of(periods(WARM_UP, *kept), "ROB01")
    assert verdict(row) == ("finding", "warning")
    assert row["value"] == pytest.approx(100 * statistics.stdev(kept) / statistics.mean(kept))
    assert "the times of 12 iterations after warm-up vary by" in row["reason"]


@pytest.mark.slow
def test_three_iterations_suffice_for_a_spread() -> None:
    row = row_of(periods(WARM_UP, 1000, 1500, 1000), "ROB01")
    assert verdict(row) == ("finding", "warning")
    assert "the times of 3 iterations after warm-up vary by" in row["reason"]


@pytest.mark.slow
def test_a_trend_is_found_where_it_is_more_than_the_spread() -> None:
    lengths = [1000 + 10 * number for number in range(12)]
    row = row_of(periods(*lengths), "ROB01")
    assert verdict(row) == ("finding", "warning")
    # 10 ns per iteration of a mean of 1055 ns
    assert (row["value"], row["unit"]) == (
        pytest.approx(100 * 100 * 10 / statistics.mean(lengths)), "% per 100 iterations",
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("trains", "lengths", "expected"),
    [
        (True, [1000, 1500] * 6, "finding"),
        (True, [1000, 1010] * 6, "pass"),
        (False, [1000, 1500] * 6, "not evaluable"),
    ],
)
def test_iterations_without_a_gpu(trains: bool, lengths: list[int], expected: str) -> None:
    made = MadeTrace()
    train(made, periods=lengths, trains=trains)
    row = row_of(made, "ROB01")
    assert row["verdict"] == expected
    assert row_of(made, "ROB01", assume_training=True)["verdict"] != "not evaluable"
    if expected == "finding":
        spread = 100 * statistics.stdev(lengths) / statistics.mean(lengths)
        assert row["value"] == pytest.approx(spread)  # the last one ends with its range


@pytest.mark.slow
def test_warm_up_that_does_not_end_is_found() -> None:
    made = periods(*[1000] * 12)
    for number in range(12):
        made.launch(1000 * number + 50, 1000 * number + 500, 1000 * number + 510, f"k{number}")
    row = row_of(made, "ROB01")
    assert row["reason"] == (
        "more than half of 12 iterations show signs of warm-up, the last one iteration 11 "
        "(first use of a kernel)"
    )
    assert verdict(row) == ("finding", "warning")
    row = row_of(made, "ROB01", iterations_wanted=13)
    assert verdict(row) == ("not evaluable", None)
    assert row["reason"].startswith("more than half of 12 iterations show signs of warm-up")


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["bucketed", "padded", "fixed"])
def test_samples_of_unequal_length_vary_by_design(policy: str) -> None:
    made = periods(*[1000, 1500] * 6)
    add_capture(made, sequence_policy=policy)
    row = row_of(made, "ROB01")
    assert row["verdict"] == ("finding" if policy == "fixed" else "not evaluable")


@pytest.mark.slow
def test_work_that_varies_varies_by_design() -> None:
    block: Row = {"block_x": 32, "block_y": 1, "block_z": 1, "grid_y": 1, "grid_z": 1}
    made = periods(*[1000, 1500] * 6, grid_x=10, **block)
    assert row_of(made, "ROB01")["verdict"] == "finding"
    for number, row in enumerate(made.rows["kernel"]):
        row["grid_x"] = 10 + 5 * (number % 2)
    assert "but so does the work" in row_of(made, "ROB01")["reason"]


@pytest.mark.slow
@settings(max_examples=examples(6))
@given(
    runs=st.lists(
        st.one_of(
            st.lists(st.integers(500, 2000), min_size=2, max_size=16),
            st.builds(
                lambda drift, noise: [10_000 + drift * i + n for i, n in enumerate(noise)],
                st.integers(-150, 150),
                st.lists(st.integers(0, 200), min_size=10, max_size=16),
            ),
        ),
        min_size=4,
        max_size=8,
    )
)
def test_spread_and_trend_are_those_of_their_definitions(runs: list[list[int]]) -> None:
    """One trace per run."""
    made = MadeTrace()
    for number, lengths in enumerate(runs):
        train(made, kernel(100, 300), periods=lengths, trace_id=f"t{number}")
    with made.connect() as database:
        rows = {row["trace_id"]: row for row in rows_on(database, "ROB01")}
        iterations = database.relation("iteration")
    assert rows.keys() == {f"t{number}" for number in range(len(runs))}
    for number, lengths in enumerate(runs):
        trace = f"t{number}"
        mine = [i for i in iterations if i["trace_id"] == trace]
        check_spread_and_trend(rows[trace], mine, lengths)


# ROB02


def late(took: int) -> MadeTrace:
    """Return a training whose first iteration launches a kernel that runs in the second.

    The first one is warm-up: it takes twice as long as the others. The second begins at 2000.
    """
    made = MadeTrace()
    made.launch(50, 2500, 2500 + took, "late")
    train(made, kernel(100, 300), periods=[2 * PERIOD] + [PERIOD] * (ITERATIONS - 1))
    return made


@pytest.mark.slow
@pytest.mark.parametrize(("took", "expected"), [(20, "pass"), (400, "finding")])
def test_kernels_launched_before_the_window(took: int, expected: str) -> None:
    row = row_of(late(took), "ROB02")
    assert row["verdict"] == expected
    assert row["value"] == pytest.approx(100 * took / ((ITERATIONS - 1) * 300 + took))


@pytest.mark.slow
@pytest.mark.parametrize(("took", "expected"), [(99, "pass"), (100, "finding")])
def test_a_device_with_a_tenth_of_the_work_is_judged(took: int, expected: str) -> None:
    made = MadeTrace()
    made.launch(0, 10, 1010)
    made.add_kernel(200, 200 + took, device_id=1)  # without a launch
    assert row_of(made, "ROB02")["verdict"] == expected


@pytest.mark.slow
def test_kernels_without_a_launch_were_launched_before_recording() -> None:
    made = MadeTrace()
    made.launch(0, 10, 110)
    made.add_kernel(200, 210)
    made.add_kernel(300, 305)
    row = row_of(made, "ROB02")
    assert (row["verdict"], row["value"]) == ("finding", pytest.approx(100 * 15 / 115))
    assert "13.04 % has no launch in the trace" in row["reason"]


def test_without_calls_nothing_tells_launches() -> None:
    made = MadeTrace()
    made.add_kernel(0, 10)
    assert "needs the calls that launch GPU work" in row_of(made, "ROB02")["reason"]


# ROB03


@pytest.mark.slow
@pytest.mark.parametrize(
    ("said", "expected", "value"),
    [
        ({"profiler_slowdown": 1.2}, "finding", 20),
        ({"profiler_slowdown": 1.05}, "pass", 5),
        ({"profiler_slowdown": 0.99}, "pass", -1),
        ({}, "not evaluable", None),
        # 4 samples per 1000 ns under the profiler
        ({"throughput": {"samples_per_second": 6e6}}, "finding", 50),
        ({"throughput": {"samples_per_second": 4e6}}, "pass", 0),
        ({"throughput": {"samples_per_second": 9e6}, "profiler_slowdown": 1.01}, "pass", 1),
    ],
)
def test_profiler_overhead(said: Row, expected: str, value: float | None) -> None:
    made = busy(900)
    add_capture(made, batch_size=4, **said)
    row = row_of(made, "ROB03")
    assert row["verdict"] == expected
    assert row["value"] == (None if value is None else pytest.approx(value, abs=1e-9))


# ROB04


@pytest.mark.parametrize(
    ("trace", "expected", "value"),
    [
        ({"notes": ["nsys: CUPTI buffers overflow, 12 records were dropped"]}, "finding", 1),
        ({"notes": ["nsys: events were lost", "nsys: dropped 1"]}, "finding", 2),
        ({"notes": ["2 processes used GPUs (pid 1, 2)", "nsys: not all is fine"]}, "pass", 0),
        ({"notes": []}, "pass", 0),
        ({"notes": ["3 kernels have no launching call in the trace (…)"]}, "not evaluable", None),
        ({"notes": [], "tool": "nvprof"}, "not evaluable", None),
        ({"notes": [], "tool": "ncu", "kind": "metrics"}, "not evaluable", None),
    ],
)
def test_dropped_records(trace: Row, expected: str, value: float | None) -> None:
    made = MadeTrace()
    made.add_trace(**trace)
    row = row_of(made, "ROB04")
    assert (row["verdict"], row["value"]) == (expected, value)
    assert row["severity"] == ("severe" if expected == "finding" else None)
