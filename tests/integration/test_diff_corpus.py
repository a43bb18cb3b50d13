"""diff on real traces: two runs of a model, and traces with themselves."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import tbd_trace
from corpus import corpus_file
from fast import one_in
from tbd_trace.cli.main import app

pytestmark = pytest.mark.needs("corpus")
PAIR = "nsys/GindaChen_nsys-ai__tests__fixtures__mfu_2gpu_{}.sqlite"
NERSC = "nsys/NERSC_sc22-dl-tutorial__sample_nsys_profiles__{}.qdrep.exp2022.4.sqlite"


def compared(a: Path, b: Path) -> dict[str, Any]:
    result = CliRunner().invoke(app, ["diff", str(a), str(b), "--format", "json"])
    assert result.exit_code == 0, result.output
    answer: dict[str, Any] = json.loads(result.stdout)
    return answer


def test_before_and_after() -> None:
    """Two slices of 0.3 s of a run on two GPUs, whose periods are blocks of a transformer.

    Blocks are no steps, so it is unknown if both slices did the same work. The kernels take as long
    as before, but those of communication; the GPUs wait longer between them.
    """
    before, after = corpus_file(PAIR.format("before")), corpus_file(PAIR.format("after"))
    answer = compared(before, after)
    for path in (before, after):  # no block runs twice on a GPU, as it would in another step
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as database:
            calls = database.execute(
                """SELECT count(*) FROM (
                       SELECT coalesce(text, value) AS call, globalTid
                       FROM NVTX_EVENTS LEFT JOIN StringIds ON textId = id)
                   WHERE call GLOB 'FSDP::pre_forward (blocks.[0-9]*, op_id = *'
                   GROUP BY substr(call, 1, instr(call, ',')), globalTid"""
            ).fetchall()
        assert len(calls) > 20
        assert set(calls) == {(1,)}
    assert answer["iterations"] == []
    verdict = answer["verdict"]
    assert (verdict["word"], verdict["change_pct"]) == ("not comparable", None)
    assert verdict["sentence"].startswith("without iterations on both sides, it is unknown")
    assert "Exposed communication" in verdict["sentence"]
    assert not any(row["differs"] for row in answer["comparability"])
    idle = [row for row in answer["utilization"] if row["measure"] == "idle_pct"]
    assert [row["rank"] for row in idle] == [0, 1]
    assert all(row["change_points"] > 4 for row in idle)
    kernels = answer["kernels"]
    assert {row["per"] for row in kernels} == {"whole trace"}
    # 15 blocks in the second slice, 17 in the first
    assert all(0.88 < row["b_calls"] / row["a_calls"] < 0.95 for row in kernels)
    longer = sum(row["duration_effect_ns"] for row in kernels)
    communication = next(row for row in kernels if "SendRecv" in row["kernel_name"])
    assert communication["duration_effect_ns"] > 0.8 * longer > 0


def test_a_training_run_made_faster() -> None:
    """The baseline, and the same model with DALI, mixed precision and fused kernels."""
    answer = compared(
        corpus_file(NERSC.format("baseline")), corpus_file(NERSC.format("dali_amp_apex_jit"))
    )
    assert answer["verdict"]["word"] == "faster"
    assert answer["verdict"]["high_pct"] < -50
    kernels = answer["kernels"]
    assert {row["per"] for row in kernels} == {"iteration of a process"}
    gone = [row for row in kernels if row["status"] == "gone"]
    new = [row for row in kernels if row["status"] == "new"]
    assert any("float" in row["kernel_name"] for row in gone)
    assert any("__half" in row["kernel_name"] for row in new)
    # every kernel of the counted steps: 470 a step in A, in B more in the first ones
    assert sum(row["a_calls"] for row in kernels) == pytest.approx(470)
    steps = tbd_trace.open(corpus_file(NERSC.format("dali_amp_apex_jit")))
    (counted,) = steps.sql(
        "SELECT sum(kernels)::BIGINT, count(*) FROM iteration WHERE in_window"
    ).rows()
    assert counted[1] == 28  # all but the last of 29: a quarter of the time lies between ranges
    assert sum(row["b_calls"] for row in kernels) == pytest.approx(counted[0] / 28)
    for row in kernels:
        assert row["calls_effect_ns"] + row["duration_effect_ns"] == row["change_ns"]


@pytest.mark.parametrize(
    "name",
    one_in(
        8,
        [
            PAIR.format("before"),
            NERSC.format("4gpu_baseline"),
            "nvprof/josiahdavis_profiling-lm__net.sql",
            "nvprof/esarmstrong_ece408__timeline.nvprof",
            "nsys/zx3xyy_assignment2-systems__result_2_7B_compile_ro.sqlite",
            "ncu/chia7_ece408_project__analysis_file.raw.csv",
            "nvprof_csv/josiahdavis_profiling-lm__net.summary.csv",
            "odd/Better-Call-Paul_CUDA-Transformer__src__report1.sqlite",  # holds no kernel
        ],
        then_one_in=7,
    ),
)
def test_a_trace_with_itself(name: str) -> None:
    answer = compared(corpus_file(name), corpus_file(name))
    assert not any(row["differs"] for row in answer["comparability"])
    for part, column in (
        ("iterations", "change_ns"),
        ("utilization", "change_points"),
        ("layers", "change_ns"),
        ("kernels", "change_ns"),
    ):
        assert {row[column] for row in answer[part]} <= {0}
    assert {row["status"] for row in answer["kernels"]} <= {None}
    assert answer["verdict"]["word"] == "no change beyond noise"
    assert answer["verdict"]["change_pct"] == 0


def test_another_profiler_is_not_comparable() -> None:
    answer = compared(
        corpus_file(NERSC.format("baseline")),
        corpus_file("nvprof/josiahdavis_profiling-lm__net.sql"),
    )
    assert answer["verdict"]["word"] == "not comparable"
    assert "profiler is nsys in A, but nvprof in B" in answer["verdict"]["sentence"]
