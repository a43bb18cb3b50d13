"""What a reader sees first of every real trace: how long, how busy, and over what.

The table of docs/explanation/steady_state.md holds the numbers. Written again by

    PYTHONPATH=tests/helpers:tests/integration python tests/integration/test_headline_corpus.py
"""

from __future__ import annotations

import statistics
import tempfile
from collections import defaultdict
from collections.abc import Collection
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from corpus import ROOT, corpus_files, matching
from fast import first_of_each_format, nightly, slow
from real_traces import Traces
from requirements import require
from tbd_trace.analysis.checks import evaluate
from tbd_trace.api import Traces as Opened
from tbd_trace.query import Catalogue, execute

PAGE = ROOT / "docs" / "explanation" / "steady_state.md"
PATTERNS = ("nsys/*", "nvprof/*")
HEADER = (
    *("trace", "found by", "iterations", "counted", "mean ms", "total ms"),
    *("stalls %", "GPU busy %", "stability"),
)


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


def _effort(path: Path) -> tuple[bool, int]:
    """Return a sort key: traces without iterations last, large ones after small ones."""
    return path.name not in committed(), path.stat().st_size


# The answers about a large trace take minutes: in CI there is only the first of the slow ones.
FILES = first_of_each_format(corpus_files(*PATTERNS, key=_effort), then_one_in=100)
QUERIES = (
    *("trace_info", "iteration_summary", "iteration_timing", "throughput"),
    *("compute_util", "step_breakdown", "idle_causes"),
)
MILLISECOND = 1_000_000
MANY_KERNELS = 1000
Row = dict[str, Any]


class Answers:
    """Answers of the queries about several traces of the corpus, computed together.

    Args:
        traces: the database of real traces.
        files: the traces; None means all that match ``PATTERNS``.
    """

    def __init__(self, traces: Traces, files: list[Path] | None = None) -> None:
        if files is None:
            files = matching(*PATTERNS)
        self.ids = {path: traces.id(f"{path.parent.name}/{path.name}") for path in files}
        self._rows: dict[tuple[str, str], list[Row]] = defaultdict(list)
        for name in QUERIES:
            query = Catalogue().get(name)
            for row in execute(traces.database, query, list(self.ids.values())).frame.to_dicts():
                self._rows[row["trace_id"], name].append(row)

    def __call__(self, path: Path, query: str) -> list[Row]:
        """Return the rows of a query about a trace."""
        return self._rows[self.ids[path], query]

    def periods(self, path: Path) -> list[Row]:
        summary = self(path, "iteration_summary")
        return [row for row in summary if row["measure"] == "period_ns"]


@pytest.fixture(scope="module")
def all_answers(traces: Traces) -> Answers:
    return Answers(traces)


@pytest.fixture(scope="module")
def some_answers(traces: Traces) -> Answers:
    """Return the answers about the files whose tests are marked slow and not nightly."""
    return Answers(traces, _files_with("some"))


@pytest.fixture(scope="module")
def few_answers(traces: Traces) -> Answers:
    """Return the answers about the files whose tests are not marked."""
    return Answers(traces, _files_with("few"))


def _files_with(answers: str) -> list[Path]:
    return [file.values[0] for file in FILES if _answers_with(file.marks) == answers]


def _answers_with(marks: Collection[Any]) -> str:
    return "all" if nightly in marks else "some" if slow in marks else "few"


@pytest.fixture
def answers(request: pytest.FixtureRequest) -> Answers:
    require("corpus")
    asked = getattr(request.node, "callspec", None)  # None: the test is about all files
    path = asked.params["path"] if asked else None
    name = next((_answers_with(file.marks) for file in FILES if file.values[0] == path), "all")
    found: Answers = request.getfixturevalue(f"{name}_answers")
    return found


def process_rows(rows: list[Row], pid: int | None) -> list[Row]:
    return [row for row in rows if row["pid"] == pid]


@pytest.mark.slow
@pytest.mark.parametrize("path", FILES)
def test_the_counted_periods_reach_from_the_first_start_to_the_last(
    answers: Answers, path: Path
) -> None:
    for summary in answers.periods(path):
        timing = process_rows(answers(path, "iteration_timing"), summary["pid"])
        starts = [row["start_ns"] for row in timing]
        counted = [i for i, row in enumerate(timing) if row["in_window"]]
        if not counted:
            assert (summary["n"], summary["mean_ns"], len(timing)) == (0, None, 1)
            continue
        assert counted == list(range(counted[0], counted[-1] + 1))
        assert summary["n"] == len(counted)
        if counted[-1] == len(timing) - 1:  # no start follows: it ends with its range or GPU work
            last = timing[-1]
            shortest = last["gpu_ns"] if last["clock"] == "gpu" else last["host_ns"]
            assert last["period_ns"] >= shortest > 0
            starts.append(starts[-1] + last["period_ns"])
        elapsed = starts[counted[-1] + 1] - starts[counted[0]]
        assert abs(summary["n"] * summary["mean_ns"] - elapsed) < MILLISECOND
        (rate,) = process_rows(answers(path, "throughput"), summary["pid"])
        assert rate["iterations_per_s"] == pytest.approx(len(counted) / elapsed * 1e9, rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("path", FILES)
def test_no_iteration_after_the_warm_up_is_left_out(answers: Answers, path: Path) -> None:
    """Warm-up is a prefix of at most half, and a faster rate has its stall share beside it."""
    for summary in answers.periods(path):
        timing = process_rows(answers(path, "iteration_timing"), summary["pid"])
        counted = [i for i, row in enumerate(timing) if row["in_window"]]
        warm_up = ("first use of a kernel", "allocator growth", "slow start")
        for i, row in enumerate(timing):
            if row["dropped"] in warm_up:
                assert i < counted[0]
        whole = [row for row in timing if row["in_window"] or row["dropped"] in warm_up]
        assert 2 * len(counted) >= len(whole)
        known = [row["period_ns"] for row in whole if row["period_ns"] is not None]
        if known and summary["mean_ns"] < statistics.mean(known) / 1.1:
            (rate,) = process_rows(answers(path, "throughput"), summary["pid"])
            assert rate["stall_share_pct"] is not None
            assert counted[0] > 0  # by warm-up alone: every stall counts


@pytest.mark.parametrize("path", FILES)
def test_busy_and_idle_make_up_the_elapsed_time(answers: Answers, path: Path) -> None:
    busy = {(r["pid"], r["device_id"]): r for r in answers(path, "compute_util")}
    parts = answers(path, "step_breakdown")
    assert busy.keys() == {(r["pid"], r["device_id"]) for r in parts}
    for part in parts:
        whole = busy[part["pid"], part["device_id"]]
        assert whole["gpu_busy_ns"] + part["idle_ns"] == whole["elapsed_ns"] == part["elapsed_ns"]
        assert (part["idle_between_ns"] is None) == (part["iterations"] is None)
        assert (part["idle_between_ns"] or 0) <= part["idle_ns"]
    causes = answers(path, "idle_causes")
    for (pid, device), row in busy.items():
        mine = [c["idle_ns"] for c in causes if (c["pid"], c["device_id"]) == (pid, device)]
        assert sum(mine) == row["elapsed_ns"] - row["gpu_busy_ns"]


@pytest.mark.parametrize("path", FILES)
def test_all_answers_are_about_the_same_iterations(answers: Answers, path: Path) -> None:
    said = {row["pid"]: (row["n"] or 1, row["measured_over"]) for row in answers.periods(path)}
    for query in ("compute_util", "step_breakdown", "idle_causes"):
        for row in answers(path, query):
            counted = row["iterations"], row["measured_over"]
            if row["iterations"] is None:
                assert counted == (None, "whole trace")
            else:  # a device may be used in some of the iterations alone
                assert counted[0] <= said[row["pid"]][0]
                assert counted[1] == said[row["pid"]][1]
    for row in answers(path, "throughput"):
        assert ((row["iterations"] or 1), row["measured_over"]) == said[row["pid"]]


@pytest.mark.parametrize("path", FILES)
def test_two_groups_of_times_are_called_that(answers: Answers, path: Path) -> None:
    for summary in answers.periods(path):
        timing = process_rows(answers(path, "iteration_timing"), summary["pid"])
        times = sorted(row["period_ns"] for row in timing if row["in_window"])
        if len(times) < 8 or "bimodal" not in summary["stability"]:
            continue
        gaps = [b - a for a, b in pairwise(times)]
        assert max(times) >= 1.5 * min(times)
        assert max(gaps) > statistics.mean(gaps)


@slow
@nightly
def test_every_trace_of_many_kernels_has_a_verdict_about_its_time(
    traces: Traces, answers: Answers
) -> None:
    many = [
        trace_id
        for path, trace_id in answers.ids.items()
        if answers(path, "trace_info")[0]["kernels"] > MANY_KERNELS
    ]
    about_time = evaluate(Opened(traces.database, many), ["OBS04", "ROB01", "COM01"])
    for trace_id in many:
        mine = about_time.filter(pl.col("trace_id") == trace_id)
        (busy,) = mine.filter(pl.col("rule") == "OBS04").rows(named=True)
        verdicts = mine.filter(pl.col("verdict") != "not evaluable")
        # replayed for counters, or graphs traced as a whole: how busy the GPU was is not known
        excused = busy["reason"].startswith("graphs were") or "timeline" in busy["reason"]
        assert not verdicts.is_empty() or excused, busy


# -- the table of the page -------------------------------------------------------------------------


def figures(answers: Answers, path: Path) -> list[list[str]]:
    """Return the rows of the page's table about a trace, one per process with iterations."""
    busy = answers(path, "compute_util")
    made = []
    for summary in answers.periods(path):
        timing = process_rows(answers(path, "iteration_timing"), summary["pid"])
        shares = [row["gpu_busy_pct"] for row in process_rows(busy, summary["pid"])]
        mean = summary["mean_ns"]
        made.append(
            [
                path.name,
                summary["method"],
                str(len(timing)),
                str(summary["n"]),
                "" if mean is None else f"{mean / 1e6:.3f}",
                "" if mean is None else f"{summary['n'] * mean / 1e6:.3f}",
                "" if mean is None else f"{summary['stall_share_pct']:.1f}",
                f"{max(shares):.1f}" if shares else "",
                summary["stability"],
            ]
        )
    return made


@pytest.mark.parametrize("path", FILES)
def test_the_page_shows_the_numbers(answers: Answers, path: Path) -> None:
    """Of the traces that it lists: a new one is checked by the tests above."""
    if path.name in committed():
        assert committed()[path.name] == figures(answers, path)


def write() -> None:
    text = PAGE.read_text(encoding="utf-8")
    head = "| " + " | ".join(HEADER) + " |\n"
    before, after = text.split(head)
    rest = after.split("\n\n", 1)[1:] if "\n\n" in after else []
    with tempfile.TemporaryDirectory() as folder:
        answers = Answers(Traces(Path(folder)))
        lines = [f"| {' | '.join(row)} |" for path in answers.ids for row in figures(answers, path)]
    table = "|" + "---|" * 2 + "---:|" * 6 + "---|\n" + "\n".join(lines) + "\n"
    PAGE.write_text(before + head + table + "".join("\n" + part for part in rest), encoding="utf-8")


if __name__ == "__main__":
    write()
