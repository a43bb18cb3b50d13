"""Rules over sweeps and runs, on made measurements and, at the end, on captures."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from functools import cache
from math import log
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fast import examples, one_in
from made_checks import add_capture, kernel, rows_of, rows_on, train
from made_trace import MadeDatabase, MadeTrace, Row, relation

GIB = 2**30
RUN: Row = {
    "trace_id": "t",
    "capture": "c",
    "model": "resnet50",
    "framework": "pytorch",
    "software": "pytorch 2.1",
    "gpu": "A100",
    "precision": "fp32",
    "workload": "resnet50 · fp32",
    "sweep": "resnet50, pytorch, fp32, A100",
    "batch_size": 8,
    "samples_per_s": 100.0,
    "iterations": 100,
    "peak_bytes": 1 * GIB,
    "memory_bytes": 40 * GIB,
    "peak_flops": 1e13,
    "evidence": "unprofiled",
}


def run(samples_per_s: float = 100.0, off: float | None = 0.01, **row: Any) -> Row:
    """Return a run whose throughput is known to within a share of it, None where it is not."""
    ends = (None, None) if off is None else (samples_per_s * (1 - off), samples_per_s * (1 + off))
    made = RUN | {"samples_per_s": float(samples_per_s)} | row
    return made | {"low_samples_per_s": ends[0], "high_samples_per_s": ends[1]}


def verdicts(rule: str, runs: Sequence[Row], **parameters: Any) -> list[Row]:
    """Return what a rule says about runs."""
    made = MadeTrace()
    made.add_trace()
    with made.connect() as database:
        _measured(database, runs)
        return rows_on(database, rule, **parameters)


def only(rule: str, runs: Sequence[Row], **parameters: Any) -> Row:
    (row,) = verdicts(rule, runs, **parameters)
    assert row["trace_id"] is None
    assert (row["severity"] is None) == (row["verdict"] != "finding")
    return row


def _measured(database: MadeDatabase, runs: Sequence[Row]) -> None:
    schema = dict.fromkeys(("low_samples_per_s", "high_samples_per_s", "peak_flops"), pl.Float64)
    frame = pl.DataFrame(
        [row | {"trace_id": f"t{number}"} for number, row in enumerate(runs)],
        schema_overrides=schema | {"peak_bytes": pl.Int64, "memory_bytes": pl.Int64},
        infer_schema_length=None,
    )
    database.connection.register("made_runs", frame)
    database.connection.execute("CREATE TEMP TABLE benchmark_run AS SELECT * FROM made_runs")
    database.connection.unregister("made_runs")


def sweep(*rates: float, off: float | None = 0.01, first: int = 8, **row: Any) -> list[Row]:
    """Return runs of batches that double."""
    return [
        run(rate, off, **({"batch_size": first * 2**place} | row))
        for place, rate in enumerate(rates)
    ]


def ranks(values: Sequence[float]) -> list[float]:
    """Return ranks; equal values share the mean of theirs."""
    ordered = sorted(values)
    return [ordered.index(value) + (ordered.count(value) - 1) / 2 for value in values]


# OBS01


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rates", "off", "expected"),
    [
        ((100, 150, 180, 190), 0.01, "pass"),
        ((100, 150, 120, 190), 0.01, "finding"),  # a sure drop
        ((100, 150, 149, 190), 0.01, "not evaluable"),  # no sure drop, and rho 0.8
        ((100, 98, 96, 94, 92), 0.02, "finding"),  # no step is sure, the whole is
        ((100, 101, 102, 103), 0.05, "not evaluable"),  # growth within the intervals
        ((100, 100, 100), 0.01, "not evaluable"),
        ((100, 200), 0.01, "not evaluable"),
        ((100, 150, 180), None, "not evaluable"),
    ],
)
def test_throughput_grows_with_the_batch(
    rates: tuple[float, ...], off: float | None, expected: str
) -> None:
    row = only("OBS01", sweep(*rates, off=off))
    assert row["verdict"] == expected
    if expected != "not evaluable":
        batches = [float(place) for place in range(len(rates))]
        assert row["value"] == pytest.approx(statistics.correlation(batches, ranks(rates)))


@pytest.mark.slow
def test_a_drop_is_told_with_its_batches() -> None:
    row = only("OBS01", sweep(100, 150, 120, 190))
    assert "drops from 150 samples/s at batch 16 to 120 at batch 32" in row["reason"]
    assert row["severity"] == "warning"


@pytest.mark.slow
@settings(max_examples=examples(8))
@given(
    sweeps=st.lists(st.lists(st.integers(50, 60), min_size=3, max_size=7), min_size=3, max_size=8)
)
def test_rank_correlation_is_that_of_its_definition(sweeps: list[list[int]]) -> None:
    named = {f"net {place}": rates for place, rates in enumerate(sweeps)}
    runs = [
        run
        for name, rates in named.items()
        for run in sweep(*rates, off=1e-6, workload=name, sweep=name)
    ]
    rows = {row["reason"].split(":")[0]: row for row in verdicts("OBS01", runs)}
    assert rows.keys() == named.keys()
    for name, rates in named.items():
        has_drop = any(b < a for place, a in enumerate(rates) for b in rates[place:])
        rho = statistics.correlation(range(len(rates)), ranks(rates)) if len(set(rates)) > 1 else 0
        sure = has_drop or (rho >= 0.9 and rates[0] < rates[-1])
        verdict = "finding" if has_drop else "pass" if sure else "not evaluable"
        assert rows[name]["verdict"] == verdict
        if sure:
            assert rows[name]["value"] == pytest.approx(rho, abs=1e-9)


@pytest.mark.slow
def test_each_sweep_has_a_row_of_its_own() -> None:
    other = {"workload": "bert", "sweep": "bert, pytorch, fp32, A100"}
    rows = verdicts("OBS01", [*sweep(100, 150, 180), *sweep(100, 90, 80, **other)])
    assert [row["verdict"] for row in rows] == ["finding", "pass"]
    assert [row["reason"].split(":")[0] for row in rows] == [other["sweep"], RUN["sweep"]]
    mixed = [
        run(rate, batch_size=8 * place, gpu=f"GPU {place}")
        for place, rate in enumerate((1, 2, 3), 1)
    ]
    assert [row["verdict"] for row in verdicts("OBS01", mixed)] == ["not evaluable"] * 3


# OBS02 and OBS12


@pytest.mark.parametrize(
    ("rates", "peak_gib", "expected"),
    [
        ((100, 180), 36, "finding"),
        ((100, 141), 36, "pass"),
        ((100, 103), 36, "pass"),
        ((100, 180), 31, "not evaluable"),  # 77.5 % of the memory
        ((100,), 36, "not evaluable"),
        ((100, 180), None, "not evaluable"),
    ],
)
def test_not_saturated_at_the_limit_of_memory(
    rates: tuple[float, ...], peak_gib: int | None, expected: str
) -> None:
    row = only("OBS02", sweep(*rates, peak_bytes=peak_gib and peak_gib * GIB))
    assert row["verdict"] == expected
    if expected != "not evaluable":
        assert row["value"] == pytest.approx(log(rates[1] / rates[0]) / log(2))


def test_limits_of_the_elasticity_are_included() -> None:
    runs = sweep(100, 120, peak_bytes=36 * GIB)
    value = only("OBS02", runs)["value"]
    assert only("OBS02", runs, min_elasticity=value)["verdict"] == "finding"
    for limit, state in ((value, "is saturated"), (value - 1e-9, "is nearly saturated")):
        assert state in only("OBS02", runs, saturated_elasticity=limit)["reason"]


def test_the_last_doubling_begins_at_most_half_way() -> None:
    runs = [
        run(rate, batch_size=b, peak_bytes=36 * GIB)
        for b, rate in ((32, 90), (64, 100), (96, 120), (128, 130))
    ]
    assert only("OBS02", runs)["value"] == pytest.approx(log(1.3) / log(2))
    assert "from batch 64 to 128" in only("OBS02", runs)["reason"]


@pytest.mark.parametrize(
    ("rates", "gib", "expected", "value"),
    [
        ((100, 150), (2, 4), "pass", 0.5),
        ((100, 109), (2, 4), "finding", 0.09),
        ((100, 95), (2, 4), "finding", -0.05),
        ((100, 110), (2, 3), "pass", 0.2),
        ((100, 110), (2, 2), "not evaluable", None),
        ((100, 110), (None, 4), "not evaluable", None),
        ((100,), (2,), "not evaluable", None),
    ],
)
def test_return_of_memory(
    rates: tuple[float, ...], gib: tuple[int | None, ...], expected: str, value: float | None
) -> None:
    runs = sweep(*rates)
    for row, size in zip(runs, gib, strict=True):
        row["peak_bytes"] = size and size * GIB
    row = only("OBS12", runs)
    assert (row["verdict"], row["value"]) == (expected, value and pytest.approx(value))
    gain = f"throughput changes by {rates[-1] - rates[0]:+.1f} %"  # the first is 100
    said = gain if value else "resnet50, pytorch, fp32, A100: "
    assert said in row["reason"]


# OBS03


def pair(model: str, of_pytorch: float, of_mxnet: float, **row: Any) -> list[Row]:
    shared = {"model": model, "workload": model} | row
    return [
        run(of_pytorch, framework="pytorch", **shared),
        run(of_mxnet, framework="mxnet", software="mxnet 1.9", **shared),
    ]


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        ([*pair("resnet50", 100, 120), *pair("bert", 100, 80)], "finding"),
        ([*pair("resnet50", 100, 120), *pair("bert", 100, 130)], "pass"),
        ([*pair("resnet50", 100, 120), *pair("bert", 100, 101)], "not evaluable"),
        (pair("resnet50", 100, 120), "not evaluable"),
        ([*pair("resnet50", 100, 120), *pair("resnet50", 100, 80, batch_size=64)], "not evaluable"),
        ([*pair("resnet50", 100, 120), *pair("bert", 100, 80, gpu="H100")], "not evaluable"),
    ],
)
def test_ranking_of_frameworks(runs: list[Row], expected: str) -> None:
    rows = verdicts("OBS03", runs)
    assert {row["verdict"] for row in rows} == {expected}
    if expected == "finding":
        assert rows[0]["reason"] == (
            "mxnet and pytorch on A100: mxnet is faster for resnet50 at batch 8 (120 against 100 "
            "samples/s), pytorch for bert at batch 8 (100 against 80 samples/s)"
        )


def test_models_are_counted_once_at_several_batch_sizes() -> None:
    runs = [*pair("a", 100, 120), *pair("b", 100, 120)]
    for batch_size in (8, 64):
        runs += pair("c", 100, 80, batch_size=batch_size)
    row = only("OBS03", runs)
    assert (row["verdict"], row["value"], row["threshold"]) == ("finding", 1, 0)
    swapped = [
        one | {"framework": {"pytorch": "mxnet", "mxnet": "pytorch"}[one["framework"]]}
        for one in runs
    ]
    assert only("OBS03", swapped)["value"] == 1


def test_what_is_measured_differently_is_not_ranked() -> None:
    one, other = pair("resnet50", 100, 120)
    row = only("OBS03", [one, other | {"workload": "resnet50 · tf32"}])
    assert row["verdict"] == "not evaluable"
    assert "with the same GPU" in row["reason"]


# OBS10


@pytest.mark.parametrize(
    ("rate", "change", "expected"),
    [
        (300, {}, "finding"),  # 3 times as fast with 4 times the peak
        (320, {}, "pass"),
        (300, {"software": "pytorch 2.2"}, "not evaluable"),
        (300, {"peak_flops": None}, "not evaluable"),
        (300, {"batch_size": 16}, "not evaluable"),
    ],
)
def test_a_faster_gpu(rate: float, change: Row, expected: str) -> None:
    slow = run(100, gpu="V100", peak_flops=1e13)
    fast = run(rate, **({"gpu": "H100", "peak_flops": 4e13} | change))
    row = only("OBS10", [slow, fast])
    assert row["verdict"] == expected
    if expected != "not evaluable":
        assert row["value"] == pytest.approx(rate / 100 / 4)
        assert f"4.00 times the peak of V100 and trains {rate / 100:.2f} times" in row["reason"]
        assert row["reason"].endswith(f"efficiency {rate / 100 / 4:.2f}")


# OBS07


def of_kind(made: MadeTrace, name: str, flop: float, batch_size: int, trace_id: str) -> None:
    """Add a capture of a kernel of 500 ns with so many FLOP, on a GPU of 100 FLOP per ns."""
    add_capture(made, trace_id, model=trace_id, framework="pytorch", precision="fp32",
                batch_size=batch_size, optimizer="sgd")  # fmt: skip
    made.add_device(name="A100", trace_id=trace_id)
    for ids in train(made, kernel(100, 500, name), trace_id=trace_id):
        made.add_metric(ids[0], "flop_count_sp", flop, trace_id=trace_id)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("recurrent_flop", "batch_size", "expected"),
    [(5000, 8, "finding"), (15_000, 8, "pass"), (5000, 17, "not evaluable")],
)
def test_recurrent_models_against_convolutional_ones(
    recurrent_flop: float, batch_size: int, expected: str
) -> None:
    made = MadeTrace()
    of_kind(made, "implicit_convolve_sgemm", 20_000, 8, "cnn")
    of_kind(made, "LSTM_elementWise_fp", recurrent_flop, batch_size, "rnn")
    (row,) = rows_of(made, "OBS07")
    assert row["verdict"] == expected
    if expected != "not evaluable":
        assert row["value"] == pytest.approx(20_000 / recurrent_flop)
        assert row["evidence"] == "counter"


# all of them


@pytest.mark.slow
@pytest.mark.parametrize("rule", one_in(6, ["OBS01", "OBS02", "OBS03", "OBS07", "OBS10", "OBS12"]))
def test_a_lone_trace_is_no_sweep(rule: str) -> None:
    made = MadeTrace()
    train(made, kernel(100, 500))
    (row,) = rows_of(made, rule)
    assert (row["verdict"], row["trace_id"], row["value"]) == ("not evaluable", None, None)
    assert row["advice"].startswith("captures of")


# what a run is


def measured(**said: Any) -> Row:
    made = MadeTrace()
    made.add_device(name="A100", memory_bytes=40 * GIB)
    train(made, kernel(100, 500), periods=[1000, 1020] * 5)
    capture = {"model": "resnet50", "framework": "pytorch", "framework_version": "2.1",
               "precision": "fp32", "batch_size": 4, **said}  # fmt: skip
    add_capture(made, **capture)
    (row,) = relation(made, "benchmark_run")
    return row


@pytest.mark.slow
def test_a_run_without_a_profiler_counts() -> None:
    throughput = {"samples_per_second": 500.0, "iterations": 64, "execution": "eager"}
    row = measured(throughput=throughput, peak_device_bytes=7)
    kept = [1000, 1020] * 5  # all of them: the first is not slow, the last ends with its range
    spread = statistics.stdev(kept) / statistics.mean(kept)
    assert row["samples_per_s"] == 500
    assert row["high_samples_per_s"] == pytest.approx(500 * (1 + 2 * spread / 8))
    assert row["low_samples_per_s"] == pytest.approx(500 * (1 - 2 * spread / 8))
    assert (row["evidence"], row["software"]) == ("unprofiled", "pytorch 2.1 eager")
    assert (row["peak_bytes"], row["memory_bytes"]) == (7, 40 * GIB)
    assert row["peak_flops"] == pytest.approx(1e11)
    assert row["sweep"] == "resnet50, pytorch, fp32, A100"


@pytest.mark.slow
def test_runs_of_one_workload_have_the_same_known_properties() -> None:
    said = {
        "variant": "v1", "dataset": "imagenet", "batch_definition": "images",
        "sequence_policy": "fixed", "optimizer": "sgd", "scale": "full", "world_size": 1,
    }  # fmt: skip
    known = [
        "resnet50", "v1", "imagenet", "images", "fixed", "sgd", "fp32", "full", "1", "profiled",
    ]  # fmt: skip
    assert measured(**said)["workload"] == " · ".join(known)
    for name, value in said.items():
        expected = ["?" if word == str(value) else word for word in known]
        assert measured(**said | {name: None})["workload"] == " · ".join(expected)
    more = {"gradient_accumulation": 4, "activation_checkpointing": True, "synthetic": True}
    expected = [*known, "4 passes", "checkpointed", "not measured"]
    assert measured(**said, **more)["workload"] == " · ".join(expected)
    usual = {"gradient_accumulation": 1, "activation_checkpointing": False, "synthetic": False}
    assert measured(**said, **usual)["workload"] == " · ".join(known)


PEAKS = [
    ("fp32", None, 1), ("tf32", None, 2), ("fp16", None, 3), ("fp32", "fp16", 3),
    ("fp32", "bf16", 4), ("bfloat16", None, 4), ("half", None, 3), ("int8", None, None),
    (None, None, None),
]  # fmt: skip


@cache
def peaks_of_runs() -> dict[str, float | None]:
    """Return by trace the peak of a run of each row of PEAKS."""
    made = MadeTrace()
    for number, (precision, autocast, _) in enumerate(PEAKS):
        trace = f"t{number}"
        made.add_device(trace_id=trace, name="A100", memory_bytes=40 * GIB)
        train(made, kernel(100, 500), periods=[1000, 1020] * 5, trace_id=trace)
        said = {"precision": precision, "autocast": autocast}
        add_capture(made, trace, model="m", batch_size=4, **said)
    with made.connect() as database:
        database.connection.execute(
            "CREATE TEMP TABLE device_peak AS SELECT trace_id, 0 AS device_id, "
            "NULL::BIGINT AS process_id, 1.0 AS peak_fp32_flops, 2.0 AS peak_tensor_tf32_flops, "
            "3.0 AS peak_tensor_fp16_flops, 4.0 AS peak_tensor_bf16_flops FROM trace"
        )
        rows = database.relation("benchmark_run")
    assert len(rows) == len(PEAKS)
    return {row["trace_id"]: row["peak_flops"] for row in rows}


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(PEAKS)))
def test_the_peak_of_a_run_is_that_of_its_precision(number: int) -> None:
    assert peaks_of_runs()[f"t{number}"] == PEAKS[number][-1]


@pytest.mark.slow
def test_else_the_timeline_counts() -> None:
    row = measured()
    assert row["evidence"] == "profiled"
    # all ten periods, of 1000 and 1020 ns in turn
    assert row["samples_per_s"] == pytest.approx(4 * 10 / (5 * 2020e-9))


@pytest.mark.slow
@pytest.mark.parametrize(
    "field", one_in(5, ["dataset", "batch_definition", "optimizer", "scale", "variant"])
)
def test_runs_of_different_workloads_are_told_apart(field: str) -> None:
    assert measured(**{field: "one"})["workload"] != measured(**{field: "another"})["workload"]


@pytest.mark.slow
def test_accumulation_and_checkpointing_make_another_workload() -> None:
    usual = measured()["workload"]
    assert measured(gradient_accumulation=1, activation_checkpointing=False)["workload"] == usual
    assert measured(gradient_accumulation=4)["workload"] == f"{usual} · 4 passes"
    assert measured(activation_checkpointing=True)["workload"] == f"{usual} · checkpointed"
