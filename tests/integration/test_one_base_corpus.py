"""Every answer about a real trace is about the same steps: their number, time and busy share."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from corpus import corpus_files
from fast import one_in
from tbd_trace import open as open_traces
from tbd_trace.api import Traces
from tbd_trace.errors import CannotAnswerError, InputError
from tbd_trace.why.diagnosis import Diagnosis
from tbd_trace.why.screen import text

SMALL = 3_000_000
FILES = corpus_files(
    "nsys/*.sqlite", "nvprof/*", "kineto/*", where=lambda path: path.stat().st_size < SMALL
)


def rows_about(one: Diagnosis, traces: Traces, query: str) -> list[dict[str, object]]:
    frame = traces.query(query).filter(
        pl.col("trace_id") == one.trace_id, pl.col("pid").eq_missing(one.pid)
    )
    if "device_id" in frame.columns:
        frame = frame.filter(pl.col("device_id").fill_null(-1) == one.device_id)
    return frame.to_dicts()


@pytest.mark.needs("corpus")
@pytest.mark.slow
@pytest.mark.parametrize("path", one_in(12, FILES, then_one_in=4))
def test_answers_are_about_the_same_steps(path: Path) -> None:
    try:
        traces = open_traces(path)
        found = traces.why()
    except (CannotAnswerError, InputError) as error:
        pytest.skip(f"no answer: {error}")
    one = found.slowest
    assert one.base is not None
    used = one.base.steps_used
    assert one.base.steps_marked == used + sum(left.steps for left in one.base.left_out)
    assert sum(cause.share_pct for cause in one.causes) == pytest.approx(100)
    if used:
        (periods,) = (
            row
            for row in rows_about(one, traces, "iteration_summary")
            if row["measure"] == "period_ns"
        )
        assert (periods["n"], periods["mean_ns"]) == (used, pytest.approx(one.step_ns))
        assert (
            f"{used} of" in text(found.diagnoses)
            or f"{used} step" in text(found.diagnoses)
            or (f"{used} repeat" in text(found.diagnoses))
        )
    if one.busy_pct is None:
        return
    (utilization,) = rows_about(one, traces, "compute_util")
    (breakdown,) = rows_about(one, traces, "step_breakdown")
    assert (utilization["iterations"] or 0) == used
    assert (breakdown["iterations"] or 0) == used
    # Shares are sums of many intervals.
    busy = pytest.approx(one.busy_pct, abs=1e-6)
    assert utilization["gpu_busy_pct"] == busy
    assert 100 - float(str(breakdown["idle_pct"])) == busy
