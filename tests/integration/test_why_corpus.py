"""Causes, replay and predictions on real traces, against measured pairs and reference tables."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from statistics import fmean, median, quantiles
from typing import Any

import pytest

import tbd_trace
from corpus import corpus_file_named, reference_rows
from fast import nightly
from tbd_trace.query import connect, prepare
from tbd_trace.why.changes import parse_change
from tbd_trace.why.diagnosis import Diagnosis, diagnose
from tbd_trace.why.processes import INPUTS, programs
from tbd_trace.why.whatif import Prediction, Simulator

pytestmark = pytest.mark.needs("corpus", "reference")
NERSC = "NERSC_sc22-dl-tutorial__sample_nsys_profiles__{}.qdrep.exp2022.4.sqlite"
# Those about which the other tests here ask.
SOME = [
    "n21_baseline", "n21_8workers", "n21_dali", "n21_dali_amp", "n21_apex_jit", "n21_4gpu_base",
    "zx_27", "zx_27_nvtx", "tb_w0", "athrun",
]  # fmt: skip
OTHERS = ["n21_4gpu_bucket", "zx_small", "zx_27_compile", "tb_w4"]
FOUR_GPUS = ["n21_4gpu_base", pytest.param("n21_4gpu_bucket", marks=nightly)]
SETS = [SOME, pytest.param([*SOME, *OTHERS], marks=nightly)]
NAMES = [*SOME, *(pytest.param(name, marks=nightly) for name in OTHERS)]


def table(name: str) -> list[dict[str, str]]:
    return reference_rows(f"why/{name}.csv")


@cache
def file_of(name: str) -> Path:
    wanted = next(row["file"] for row in table("files") if row["trace"] == name)
    return corpus_file_named(wanted, NERSC.format(wanted.split(".")[1]))


@cache
def simulator(name: str) -> Simulator:
    traces = tbd_trace.open(file_of(name))
    with connect(traces.database, traces.trace_ids) as connection:
        prepare(connection, INPUTS)
        found = [one.program for one in programs(connection)]
    return Simulator(max(found, key=lambda program: program.base.mean_ns or 0))


@cache
def diagnosis_of(name: str) -> Diagnosis:
    return diagnose(simulator(name).program, name, None)


def predict(name: str, *changes: str) -> Prediction:
    return simulator(name).predict([parse_change(change) for change in changes])


def shares(name: str) -> dict[str, float]:
    return {cause.cause: cause.share_pct for cause in diagnosis_of(name).causes}


def pair(number: str) -> dict[str, Any]:
    return next(row for row in table("pairs") if row["id"] == number)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_replay_repeats_the_measured_steps(name: str) -> None:
    found = simulator(name)
    steps, measured = found.program.steps, found.program.op_step_ns
    for is_strict, mean_pct, step_pct in ((False, 1, 2), (True, 5, None)):
        at = found.replay.run(found.replay.measured, is_strict=is_strict).op_start
        replayed = [at[b] - at[a] for a, b in steps]
        assert fmean(replayed) == pytest.approx(fmean(measured), rel=mean_pct / 100)
        errors = [100 * abs(r / m - 1) for r, m in zip(replayed, measured, strict=True)]
        if step_pct is not None:
            assert quantiles([*errors, *errors], n=20)[18] <= step_pct


@pytest.mark.slow
@pytest.mark.parametrize("names", SETS, ids=["some", "all"])
def test_the_strict_replay_is_close_in_the_median(names: list[str]) -> None:
    errors = [abs(simulator(name).strict_error_pct) for name in names]
    assert median(errors) <= 1.5


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_shares_sum(name: str) -> None:
    assert sum(shares(name).values()) == pytest.approx(100, abs=0.1)


def kernels(name: str, cause: str) -> float:
    return sum(share for each, share in shares(name).items() if each.startswith(cause))


@pytest.mark.slow
def test_the_top_cause() -> None:
    assert diagnosis_of("n21_baseline").causes[0].cause == "input_pipeline"
    assert shares("n21_baseline")["input_pipeline"] == pytest.approx(75.3, abs=2)
    assert diagnosis_of("n21_dali").causes[0].cause == "gpu_matmul_tensor_core"
    assert diagnosis_of("zx_27").causes[0].cause == "gpu_matmul_no_tensor_core"
    assert shares("tb_w0")["input_pipeline"] + shares("tb_w0")["host"] >= 44


@pytest.mark.slow
def test_the_top_causes_of_a_short_run() -> None:
    assert diagnosis_of("athrun").causes[0].cause == "host"
    assert "warm-up" in (diagnosis_of("athrun").warm_up or "")


@pytest.mark.slow
@pytest.mark.parametrize("name", FOUR_GPUS)
def test_communication_is_a_small_cause(name: str) -> None:
    assert shares(name)["communication"] < 3


@pytest.mark.slow
@pytest.mark.parametrize("names", SETS, ids=["some", "all"])
def test_shares_of_the_reference(names: list[str]) -> None:
    causes = {
        "input pipeline": "input_pipeline",
        "exposed copies": "copies",
        "GPU gemm_tc": "gpu_matmul_tensor_core",
        "GPU gemm_fp32": "gpu_matmul_no_tensor_core",
    }
    n21 = [name for name in names if name.startswith("n21")]
    rows = [row for row in table("shares") if row["trace"] in n21]
    compared = [row for row in rows if row["cause"] in causes]
    assert len(compared) > 15
    for row in compared:
        found = shares(row["trace"]).get(causes[row["cause"]], 0)
        assert found == pytest.approx(float(row["share_pct"]), abs=2), row


@pytest.mark.slow
def test_workers_contain_the_measured_step() -> None:
    found = predict("n21_baseline", "workers=2:8")
    assert found.best_ns <= float(pair("A1")["after_mean_ms"]) * 1e6 <= found.worst_ns
    then = tbd_trace.open(file_of("n21_baseline")).whatif("workers=2:8")
    assert then.step_ns == found.likely_ns
    assert then.top_share_pct < 40


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "changes"),
    [
        ("A3", ["input", "overlap_copies"]),
        ("A4", ["input"]),
        ("B2", ["fused_optimizer"]),
    ],
)
def test_pairs(number: str, changes: list[str]) -> None:
    about = pair(number)
    found = predict(about["before"], *changes)
    assert found.likely_ns == pytest.approx(float(about["after_mean_ms"]) * 1e6, rel=0.1)


@pytest.mark.slow
def test_amp_of_the_published_pair() -> None:
    found = predict("n21_dali", "amp")
    assert simulator("n21_dali").measured_ns / found.likely_ns == pytest.approx(1.30, rel=0.1)
    assert found.best_ns <= simulator("n21_dali").measured_ns / 1.30 <= found.worst_ns
    assert shares("n21_dali_amp")["input_pipeline"] == pytest.approx(13.5, abs=2)


@pytest.mark.slow
@pytest.mark.parametrize("name", FOUR_GPUS)
def test_communication_that_is_hidden_gains_little(name: str) -> None:
    now = simulator(name).measured_ns
    assert now / predict(name, "comm=free").likely_ns - 1 <= 0.04
    assert diagnosis_of(name).change != "communication"


@pytest.mark.parametrize("name", ["n21_baseline", "n21_8workers"])
def test_without_waits_a_step_is_like_the_fastest_measured(name: str) -> None:
    steps = simulator(name).program.op_step_ns[1:]
    found = predict(name, "input", "host_stalls").ceiling_ns
    assert found == pytest.approx(quantiles(steps, n=10)[0], rel=0.07)


@pytest.mark.slow
def test_advice_is_not_given_in_vain() -> None:
    def advised(name: str) -> set[str]:
        return {cause.cause for cause in diagnosis_of(name).causes if cause.advice}

    assert not {c for c in advised("n21_apex_jit") if "matmul" in c}
    assert simulator("zx_27").measured_ns / predict("zx_27", "graph").likely_ns <= 1.01
    assert "host" not in advised("zx_27")
    assert "input_pipeline" not in advised("n21_dali")


@pytest.mark.slow
def test_steps_and_not_layers() -> None:
    for name in ("zx_27", "zx_27_nvtx"):
        base = diagnosis_of(name).base
        assert base is not None
        assert base.steps_marked == 4  # the last one has no end
