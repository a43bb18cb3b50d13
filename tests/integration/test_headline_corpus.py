"""What a reader sees first of every real trace: how long, how busy, and over what.

The table of docs/steady_state.md holds the numbers. Written again by

    TBD_TRACE_CORPUS=... python tests/integration/test_headline_corpus.py
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from real_traces import Traces

from corpus import CORPUS, ROOT, corpus_files
from tbd_trace.api import Traces as Opened
from tbd_trace.checks import evaluate
from tbd_trace.errors import CannotAnswerError

PAGE = ROOT / "docs" / "steady_state.md"
FILES = corpus_files("nsys/*", "nvprof/*")
HEADER = (
    *("trace", "found by", "iterations", "counted", "mean ms", "counted × mean ms"),
    *("stalls %", "GPU busy %", "stability"),
)
MILLISECOND = 1_000_000
MANY_KERNELS = 1000
Row = dict[str, Any]


def rows(traces: Traces, path: Path, query: str) -> list[Row]:
    try:
        return traces.ask(f"{path.parent.name}/{path.name}", query).rows(named=True)
    except CannotAnswerError:
        return []


def periods(traces: Traces, path: Path) -> list[Row]:
    return [r for r in rows(traces, path, "iteration_summary") if r["measure"] == "period_ns"]


def of_process(rows: list[Row], pid: int | None) -> list[Row]:
    return [row for row in rows if row["pid"] == pid]


@pytest.mark.parametrize("path", FILES)
def test_the_counted_periods_reach_from_the_first_start_to_the_last(
    traces: Traces, path: Path
) -> None:
    for summary in periods(traces, path):
        timing = of_process(rows(traces, path, "iteration_timing"), summary["pid"])
        starts = [row["start_ns"] for row in timing]
        counted = [i for i, row in enumerate(timing) if row["in_window"]]
        if len(timing) == 1:
            assert (summary["n"], summary["mean_ns"]) == (0, None)
            continue
        assert counted == list(range(counted[0], counted[-1] + 1))
        assert summary["n"] == len(counted)
        elapsed = starts[counted[-1] + 1] - starts[counted[0]]
        assert abs(summary["n"] * summary["mean_ns"] - elapsed) < MILLISECOND
        (rate,) = of_process(rows(traces, path, "throughput"), summary["pid"])
        assert rate["iterations_per_s"] == pytest.approx(len(counted) / elapsed * 1e9, rel=1e-6)


@pytest.mark.parametrize("path", FILES)
def test_no_iteration_after_the_warm_up_is_left_out(traces: Traces, path: Path) -> None:
    """Warm-up is a prefix of at most half, and a faster rate has its stall share beside it."""
    for summary in periods(traces, path):
        timing = of_process(rows(traces, path, "iteration_timing"), summary["pid"])
        counted = [i for i, row in enumerate(timing) if row["in_window"]]
        warm_up = ("first use of a kernel", "allocator growth", "slow start")
        for i, row in enumerate(timing):
            if row["dropped"] in warm_up:
                assert i < counted[0]
        whole = [row for row in timing if row["in_window"] or row["dropped"] in warm_up]
        assert 2 * len(counted) >= len(whole)
        known = [row["period_ns"] for row in whole if row["period_ns"] is not None]
        if known and summary["mean_ns"] < statistics.mean(known) / 1.1:
            (rate,) = of_process(rows(traces, path, "throughput"), summary["pid"])
            assert rate["stall_share_pct"] is not None
            assert counted[0] > 0  # by warm-up alone: every stall counts


@pytest.mark.parametrize("path", FILES)
def test_busy_and_idle_make_up_the_elapsed_time(traces: Traces, path: Path) -> None:
    busy = {(r["pid"], r["device_id"]): r for r in rows(traces, path, "compute_util")}
    parts = rows(traces, path, "step_breakdown")
    assert busy.keys() == {(r["pid"], r["device_id"]) for r in parts}
    for part in parts:
        whole = busy[part["pid"], part["device_id"]]
        assert whole["gpu_busy_ns"] + part["idle_ns"] == whole["elapsed_ns"] == part["elapsed_ns"]
        assert (part["idle_between_ns"] is None) == (part["iterations"] is None)
        assert (part["idle_between_ns"] or 0) <= part["idle_ns"]
    causes = rows(traces, path, "idle_causes")
    for (pid, device), row in busy.items():
        mine = [c["idle_ns"] for c in causes if (c["pid"], c["device_id"]) == (pid, device)]
        assert sum(mine) == row["elapsed_ns"] - row["gpu_busy_ns"]


@pytest.mark.parametrize("path", FILES)
def test_all_answers_are_about_the_same_iterations(traces: Traces, path: Path) -> None:
    said = {row["pid"]: (row["n"] or 1, row["measured_over"]) for row in periods(traces, path)}
    for query in ("compute_util", "step_breakdown", "idle_causes"):
        for row in rows(traces, path, query):
            told = row["iterations"], row["measured_over"]
            if row["iterations"] is None:
                assert told == (None, "whole trace")
            else:  # a device may be used in some of the iterations alone
                assert told[0] <= said[row["pid"]][0]
                assert told[1] == said[row["pid"]][1]
    for row in rows(traces, path, "throughput"):
        assert ((row["iterations"] or 1), row["measured_over"]) == said[row["pid"]]


@pytest.mark.parametrize("path", FILES)
def test_two_groups_of_times_are_called_that(traces: Traces, path: Path) -> None:
    for summary in periods(traces, path):
        timing = of_process(rows(traces, path, "iteration_timing"), summary["pid"])
        times = sorted(row["period_ns"] for row in timing if row["in_window"])
        if len(times) < 8 or "bimodal" not in summary["stability"]:
            continue
        gaps = [b - a for a, b in pairwise(times)]
        assert max(times) >= 1.5 * min(times)
        assert max(gaps) > statistics.mean(gaps)


@pytest.fixture(scope="module")
def verdicts(traces: Traces) -> tuple[pl.DataFrame, dict[str, int]]:
    """Return what all rules say, and the kernels of each trace by its id."""
    if not CORPUS.is_dir():
        pytest.skip(f"no real traces at {CORPUS} (set TBD_TRACE_CORPUS)")
    kernels = {}
    for path in (p for pattern in ("nsys/*", "nvprof/*") for p in sorted(CORPUS.glob(pattern))):
        (info,) = rows(traces, path, "trace_info")
        kernels[info["trace_id"]] = info["kernels"]
    return evaluate(Opened(traces.database, list(kernels))), kernels


def test_every_trace_of_many_kernels_is_told_about_its_time(
    verdicts: tuple[pl.DataFrame, dict[str, int]],
) -> None:
    frame, kernels = verdicts
    about_time = frame.filter(pl.col("rule").is_in(["OBS04", "ROB01", "COM01"]))
    for trace_id, count in kernels.items():
        if count <= MANY_KERNELS:
            continue
        mine = about_time.filter(pl.col("trace_id") == trace_id)
        (busy,) = mine.filter(pl.col("rule") == "OBS04").rows(named=True)
        told = mine.filter(pl.col("verdict") != "not evaluable")
        # replayed for counters, or graphs traced as a whole: how busy the GPU was is not known
        excused = busy["reason"].startswith("CUDA graphs") or "timeline" in busy["reason"]
        assert not told.is_empty() or excused, busy


# -- the table of the page -------------------------------------------------------------------------


def figures(traces: Traces, path: Path) -> list[list[str]]:
    """Return the rows of the page's table about a trace, one per process with iterations."""
    busy = rows(traces, path, "compute_util")
    made = []
    for summary in periods(traces, path):
        timing = of_process(rows(traces, path, "iteration_timing"), summary["pid"])
        shares = [row["gpu_busy_pct"] for row in of_process(busy, summary["pid"])]
        mean = summary["mean_ns"]
        made.append(
            [
                path.name,
                summary["method"],
                str(len(timing)),
                str(summary["n"]),
                "–" if mean is None else f"{mean / 1e6:.3f}",
                "–" if mean is None else f"{summary['n'] * mean / 1e6:.3f}",
                "–" if mean is None else f"{summary['stall_share_pct']:.1f}",
                f"{max(shares):.1f}" if shares else "–",
                summary["stability"],
            ]
        )
    return made


def committed() -> dict[str, list[list[str]]]:
    """Return the page's rows by trace."""
    found: dict[str, list[list[str]]] = {}
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    at = lines.index("| " + " | ".join(HEADER) + " |")
    for line in lines[at + 2 :]:
        if not line.startswith("|"):
            break
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        found.setdefault(cells[0], []).append(cells)
    return found


@pytest.mark.parametrize("path", FILES)
def test_the_page_shows_the_numbers(traces: Traces, path: Path) -> None:
    """Of the traces that it lists: a new one is judged by the tests above."""
    if path.name in committed():
        assert committed()[path.name] == figures(traces, path)


def write() -> None:
    text = PAGE.read_text(encoding="utf-8")
    head = "| " + " | ".join(HEADER) + " |\n"
    before, after = text.split(head)
    rest = after.split("\n\n", 1)[1:] if "\n\n" in after else []
    with tempfile.TemporaryDirectory() as folder:
        traces = Traces(Path(folder))
        files = [p for pattern in ("nsys/*", "nvprof/*") for p in sorted(CORPUS.glob(pattern))]
        lines = [f"| {' | '.join(row)} |" for path in files for row in figures(traces, path)]
    table = "|" + "---|" * 2 + "---:|" * 6 + "---|\n" + "\n".join(lines) + "\n"
    PAGE.write_text(before + head + table + "".join("\n" + part for part in rest), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(write())
