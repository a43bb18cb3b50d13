"""Jobs with missing, damaged, renamed and shifted ranks: the rest is answered, nothing fails."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

import all_answers
import tbd_trace
from fast import one_in
from made_job import write_job
from query_files import NETWORK
from tbd_trace.analysis.checks import evaluate
from tbd_trace.cli.main import app
from tbd_trace.query import Result
from tbd_trace.store import Database

HOUR = 3600 * 10**6  # microseconds


class Job:
    """The job of a folder, in a database beside it."""

    def __init__(self, folder: Path) -> None:
        database = folder.with_suffix(".duckdb")
        arguments = ["ingest", "--job", "run", str(folder), "--db", str(database)]
        self.result = CliRunner().invoke(app, arguments)
        self.database = Database(database)

    @cached_property
    def answers(self) -> dict[str, pl.DataFrame | None]:
        """The rows of each query about networks; None if it says what it needs instead."""
        found: dict[str, pl.DataFrame | None] = {}
        for name, result in all_answers.answers(self.database, sorted(NETWORK)).items():
            assert isinstance(result, Result) or "\n" not in str(result)
            found[name] = result.frame if isinstance(result, Result) else None
        return found

    @cached_property
    def summary(self) -> dict[str, Any]:
        frame = self.answers["job_summary"]
        assert frame is not None
        [row] = frame.to_dicts()
        return row

    def verdicts(self) -> set[str]:
        rows = evaluate(tbd_trace.open(db=self.database.path), ["NET02", "NET03"])
        return set(rows["verdict"].to_list())


def edited(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


def without(kind: str) -> Callable[[dict[str, Any]], None]:
    """Remove the events whose name begins so."""

    def change(document: dict[str, Any]) -> None:
        events = document["traceEvents"]
        document["traceEvents"] = [event for event in events if not event["name"].startswith(kind)]

    return change


@pytest.mark.slow
@pytest.mark.parametrize("rank", one_in(4, range(4), then_one_in=3))
def test_without_any_one_rank(tmp_path: Path, rank: int) -> None:
    folder = write_job(tmp_path / "run", 4, late=1)
    (folder / f"rank{rank}.json").unlink()
    job = Job(folder)
    assert job.result.exit_code == 0
    summary = job.summary
    names = ("ranks_present", "missing_ranks", "complete", "collectives_matched")
    assert tuple(summary[name] for name in names) == (3, str(rank), False, 4)
    answers = job.answers
    straggler = answers["straggler"]
    assert straggler is not None
    assert straggler.filter("is_straggler")["rank"].to_list() == ([1] if rank != 1 else [])
    assert "pass" not in job.verdicts()


@pytest.mark.slow
def test_a_rank_that_does_not_communicate(tmp_path: Path) -> None:
    folder = write_job(tmp_path / "run", 3, late=1)
    edited(folder / "rank2.json", without("gloo"))
    job = Job(folder)
    assert (job.summary["ranks_present"], job.summary["complete"]) == (3, True)
    answers = job.answers
    assert answers["straggler"] is not None
    assert answers["straggler"]["rank"].to_list() == [1, 0]
    assert answers["comm_overlap"] is not None
    assert answers["comm_overlap"]["rank"].to_list() == [0, 1]


@pytest.mark.slow
def test_ranks_without_iterations(tmp_path: Path) -> None:
    folder = write_job(tmp_path / "run", 3, late=1)
    for path in folder.iterdir():
        edited(path, without("ProfilerStep"))
    job = Job(folder)
    assert job.summary["iterations_matched"] is None
    straggler = job.answers["straggler"]
    assert straggler is not None
    # An iteration is then the 200 ms from one collective to the next.
    assert straggler["lateness_pct"][0] == pytest.approx(20)


@pytest.mark.slow
def test_no_rank_communicates(tmp_path: Path) -> None:
    folder = write_job(tmp_path / "run", 2)
    for path in folder.iterdir():
        edited(path, without("gloo"))
    job = Job(folder)
    assert job.summary["collectives"] == 0
    assert {name for name, frame in job.answers.items() if frame is not None} == {"job_summary"}
    assert job.verdicts() == {"not evaluable"}


@pytest.mark.slow
def test_world_sizes_that_differ(tmp_path: Path) -> None:
    folder = write_job(tmp_path / "run", 2, late=1)
    edited(folder / "rank1.json", lambda made: made["distributedInfo"].update(world_size=3))
    job = Job(folder)
    assert "world sizes differ: 2, 3" in job.result.output
    assert job.summary["complete"] is False
    assert job.answers["straggler"] is not None


def test_two_jobs_in_one_folder_are_refused(tmp_path: Path) -> None:
    folder = write_job(tmp_path / "run", 2)
    for path in write_job(tmp_path / "other", 2, late=1).iterdir():
        path.rename(folder / f"other_{path.name}")
    job = Job(folder)
    assert job.result.exit_code == 2
    [line] = [text for text in job.result.output.splitlines() if text.startswith("error")]
    assert "are both rank 0" in line
    assert not job.database.trace_ids()


@pytest.mark.slow
@pytest.mark.parametrize("share", one_in(3, [0.2, 0.9, 0.5], then_one_in=2))
def test_a_truncated_rank(tmp_path: Path, share: float) -> None:
    folder = write_job(tmp_path / "run", 4, late=1, iterations=8)
    content = (folder / "rank3.json").read_bytes()
    (folder / "rank3.json").write_bytes(content[: int(share * len(content))])
    job = Job(folder)
    assert job.result.exit_code in {0, 1}
    assert "Traceback" not in job.result.output
    rows = job.answers["comm_overlap"]
    assert rows is not None
    assert {0, 1, 2} <= set(rows["rank"])
    verdicts = job.answers["straggler"]
    assert verdicts is not None
    assert not set(verdicts.filter(pl.col("is_straggler"))["rank"]) - {1}


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> dict[str, pl.DataFrame | None]:
    """Return the answers about ranks that were not moved."""
    return Job(write_job(tmp_path_factory.mktemp("plain") / "run", 4, late=2)).answers


def moved(folder: Path, *, is_stated: bool) -> Path:
    """Shuffle, rename and shift a folder's ranks by hours, which their headers state or not."""
    paths = sorted(folder.iterdir())
    names = random.sample("abcdefgh", len(paths))
    for path, name in zip(paths, names, strict=True):
        hours = random.randint(-9, 9)

        def shift(document: dict[str, Any], hours: int = hours) -> None:
            for event in document["traceEvents"]:
                event["ts"] += hours * HOUR
            if is_stated:
                document["baseTimeNanoseconds"] -= hours * HOUR * 1000

        edited(path, shift)
        path.rename(folder / f"{name}.pt.trace.json")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("is_stated", [True, False])
def test_shuffled_renamed_and_shifted_ranks(
    tmp_path: Path, plain: dict[str, pl.DataFrame | None], is_stated: bool
) -> None:
    again = Job(moved(write_job(tmp_path / "again", 4, late=2), is_stated=is_stated)).answers
    unlike = {"trace_id"} if is_stated else {"trace_id", "clock", "uncertainty_ns",
                                             "clock_uncertainty_ns"}  # fmt: skip
    for name, frame in plain.items():
        other = again[name]
        assert (frame is None) == (other is None)
        if frame is not None and other is not None:
            assert frame.drop(unlike, strict=False).equals(other.drop(unlike, strict=False)), name
