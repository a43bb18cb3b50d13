"""Iterations of real traces: what their authors marked, and what the kernels show."""

from __future__ import annotations

import sqlite3
from collections import Counter
from itertools import pairwise
from statistics import median
from typing import Any

import pytest

from corpus import corpus_file
from fast import one_in
from real_traces import Traces, oracle_rows

NERSC = "nsys/NERSC_sc22-dl-tutorial__sample_nsys_profiles__{}.qdrep.exp2022.4.sqlite"
RUNS = ["baseline", "4gpu_baseline", "4gpu_bucketcap100mb", "dali_amp_apex_jit"]
BASELINE = NERSC.format("baseline")
MODEL = "nsys/zx3xyy_assignment2-systems__{}.sqlite"
SCOPE = """
    SELECT s.iteration, s.evidence, s.phase, s.layer, t.tid
    FROM kernel_scope s
    LEFT JOIN (SELECT DISTINCT process_id, thread_id, tid FROM thread) t USING (thread_id)
"""


def plain(name: str, statement: str, *values: str) -> list[Any]:
    """Ask the trace itself, without the reader."""
    with sqlite3.connect(f"file:{corpus_file(name)}?mode=ro", uri=True) as database:
        return database.execute(statement, values).fetchall()


def marked(name: str, pattern: str) -> list[tuple[int, int]]:
    """Return start and end of the NVTX ranges whose text is like a pattern."""
    return plain(
        name,
        """SELECT start, end FROM NVTX_EVENTS LEFT JOIN StringIds ON textId = id
           WHERE coalesce(text, value) GLOB ? AND eventType = 59 ORDER BY start""",
        pattern,
    )


@pytest.mark.slow
@pytest.mark.parametrize("run", RUNS)
def test_marked_steps_are_the_iterations(traces: Traces, run: str) -> None:
    answer = traces.ask(NERSC.format(run), "iteration_timing")
    steps = marked(NERSC.format(run), "step [0-9]*")
    assert len(steps) == 29
    assert answer.select("start_ns", "host_ns").rows() == [(s, e - s) for s, e in steps]
    assert answer["label"].to_list() == [f"step {number}" for number in range(29)]
    periods = [b[0] - a[0] for a, b in pairwise(steps)]
    assert answer["period_ns"].to_list() == [*periods, None]
    assert set(answer["method"]) == {"nvtx range"}


@pytest.mark.slow
def test_every_kernel_of_a_training_run_has_an_iteration(traces: Traces) -> None:
    """29 steps of 470 kernels: 308 from the main thread, 162 from the autograd thread."""
    rows = traces.sql(BASELINE, SCOPE).rows(named=True)
    per_step = Counter((row["iteration"], row["evidence"], row["tid"]) for row in rows)
    main, autograd = 20387, 21109
    assert per_step == {
        (step, *how): kernels
        for step in range(29)
        for how, kernels in ((("nvtx", main), 308), (("time", autograd), 162))
    }
    # The main thread marks the forward pass and the optimizer, and waits in between, where the
    # other thread runs the backward pass; the loss it does not mark.
    nvidia = Counter[str]()
    for row in oracle_rows("nsys_stats_2022.4__NERSC_baseline_qdrep_nvtxkernsum.csv"):
        nvidia[row["NVTX Range"]] += int(row["Kern Inst"])
    assert Counter((row["phase"], row["tid"]) for row in rows) == {
        ("forward", main): nvidia["forward"],
        ("optimizer", main): nvidia["optimizer"],
        (None, main): 29 * 308 - nvidia["forward"] - nvidia["optimizer"],
        ("backward", autograd): 29 * 162,
    }


@pytest.mark.slow
def test_a_loader_s_kernels_are_data_whatever_the_program_does_meanwhile(traces: Traces) -> None:
    """DALI and NCCL annotate their own work; the kernels of their threads come in between."""
    run = NERSC.format("4gpu_baseline")
    rows = traces.sql(run, SCOPE).rows(named=True)
    found = Counter(row["phase"] for row in rows)
    (communication,) = plain(
        run,
        """SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL JOIN StringIds ON shortName = id
           WHERE value LIKE 'nccl%'""",
    )
    (data,) = plain(
        run,
        """SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL k
           JOIN CUPTI_ACTIVITY_KIND_RUNTIME r ON r.correlationId = k.correlationId
           WHERE r.globalTid IN (
               SELECT e.globalTid FROM NVTX_EVENTS e JOIN NVTX_EVENTS d ON d.domainId = e.domainId
               WHERE d.eventType = 75 AND d.text = 'DALI' AND e.eventType = 59)
             AND r.globalTid NOT IN (
               SELECT globalTid FROM NVTX_EVENTS WHERE text = 'forward')""",
    )
    assert (found["communication"], found["data"]) == (*communication, *data)
    assert found["communication"] == 184
    assert {row["phase"] for row in rows if row["iteration"] is None} == {"data"}


def test_steps_after_the_profiler_stopped_are_not_measured(traces: Traces) -> None:
    """The recording of the GPU ends in step 12 of 29: fewer kernels in it, none in later steps.

    The first step counts: it is less than 10 % slower than the others.
    """
    rows = traces.ask(NERSC.format("4gpu_bucketcap100mb"), "iteration_timing").rows(named=True)
    assert [row["kernels"] for row in rows] == [293] * 12 + [188] + [0] * 16
    assert [row["iteration"] for row in rows if row["in_window"]] == list(range(12))
    assert {row["dropped"] for row in rows[12:]} == {"GPU work not fully recorded"}


def test_a_loader_that_stalls_counts_with_its_stalls(traces: Traces) -> None:
    """0.09 s to 1.37 s in turn: the mean of all whole steps, and not the best of them.

    The first step is the first to use each kernel, but as fast as the fastest. The loader works
    between the steps, most of the time: when the last one is over is unknown.
    """
    steps = marked(BASELINE, "step [0-9]*")
    periods = [b[0] - a[0] for a, b in pairwise(steps)]
    rows = traces.ask(BASELINE, "iteration_timing").rows(named=True)
    assert [row["iteration"] for row in rows if row["in_window"]] == list(range(28))
    (summary,) = traces.ask(BASELINE, "iteration_summary").filter(measure="period_ns").to_dicts()
    assert summary["measured_over"] == "steady state"
    assert summary["mean_ns"] == pytest.approx(sum(periods) / 28)
    long = [period for period in periods if period > 1.5 * median(periods)]
    assert (summary["stalls"], summary["stall_spacing"]) == (len(long), 2)
    assert summary["stall_share_pct"] == pytest.approx(100 * sum(long) / sum(periods))
    assert summary["stability"].startswith("bimodal") and "in turn" in summary["stability"]


@pytest.mark.slow
def test_a_stall_at_every_eighth_step_is_reported(traces: Traces) -> None:
    """Eight loader workers that are late together.

    All 29 steps count: the first is fast, and steps follow each other without a gap. The window
    ends with the GPU work of the last one, which the host does not wait for.
    """
    run = NERSC.format("8workers")
    (summary,) = traces.ask(run, "iteration_summary").filter(measure="period_ns").to_dicts()
    assert (summary["n"], summary["stalls"], summary["stall_spacing"]) == (29, 3, 8)
    (start, _), *_ = marked(run, "step [0-9]*")
    (end,) = plain(run, "SELECT max(end) FROM CUPTI_ACTIVITY_KIND_KERNEL")[0]
    assert summary["mean_ns"] == pytest.approx((end - start) / 29)
    assert summary["mean_ns"] / summary["median_ns"] > 1.15  # the median alone hides them


@pytest.mark.slow
@pytest.mark.parametrize(
    ("trace", "iterations", "kernels"),
    [("result", 4, 692), ("result_2_7B", 4, 1832), ("result_2_7B_nvtx", 4, 1832)],
)
def test_unmarked_forward_passes(traces: Traces, trace: str, iterations: int, kernels: int) -> None:
    answer = traces.ask(MODEL.format(trace), "iteration_timing")
    assert answer["kernels"].to_list() == [kernels] * iterations
    assert set(answer["method"]) == {"anchor kernel"}
    assert set(answer["confidence"]) == {1.0}


@pytest.mark.slow
def test_graphs_replayed_are_iterations(traces: Traces) -> None:
    """Ten replays of one graph and three kernels each; the host is done long before the GPU."""
    rows = traces.ask(MODEL.format("result_2_7B_compile_ro"), "iteration_timing").rows(named=True)
    assert [row["kernels"] for row in rows] == [3] * 10
    for row in rows[:-1]:
        assert row["period_ns"] == pytest.approx(781e6, rel=0.01)  # the GPU's time
        assert row["host_ns"] < 2e6


@pytest.mark.slow
def test_steps_that_name_a_span(traces: Traces) -> None:
    """`Step 0 to 10`, `Step 10 to 20`, …, in a range `Loop`."""
    trace = "nsys/brycelelbach_nsightful__tests__power_iteration__baseline.sqlite"
    answer = traces.ask(trace, "iteration_timing")
    assert answer["start_ns"].to_list() == [s for s, _ in marked(trace, "Step [0-9]* to [0-9]*")]
    layers = {row["layer"] for row in traces.sql(trace, SCOPE).rows(named=True)}
    assert layers == {"Compute #", "Compute & Residual #", None}  # not one layer per step


APERIODIC = [
    "nsys/MohanadOdema_DLProf__w_Relu__nsys_profile.sqlite",
    "nsys/LeiWang1999_memfusion_artifact__report1.sqlite",
    "nsys/gartangh_Master-s-Dissertation__Flux_Darknet-19_without_head.qdrep.exp2022.4.sqlite",
    "nsys/gartangh_Master-s-Dissertation__Darknet-19.qdrep.exp2022.4.sqlite",
    "nsys/gartangh_Master-s-Dissertation__Keras_Darknet-19_without_head.qdrep.exp2022.4.sqlite",
    "nsys/PolPuigPuy_OpenACC_Project_PolPuig__report12.sqlite",
    "nsys/yyhtbs-yye_mmagic_vsr_v2__net.sqlite",
    "nvprof/josiahdavis_profiling-lm__net.sql",
    "nvprof/m-goldstein_GPU_ML__timeline.nvvp",
    "nvprof/syed-ahmed_TensorFlow-Tutorial__out.nvvp",
    "nvprof/esarmstrong_ece408__timeline.nvprof",
    "nvprof/prg-titech_traffic-simulation__metrics.0067a50c.nvprof",
]


@pytest.mark.slow
@pytest.mark.parametrize(
    "trace", one_in(12, APERIODIC, then_one_in=4), ids=lambda trace: trace.split("/")[1][:40]
)
def test_one_pass_is_no_loop(traces: Traces, trace: str) -> None:
    """One pass through a network whose layers resemble each other, or a replayed metric run."""
    assert traces.sql(trace, "SELECT * FROM iteration").is_empty()
