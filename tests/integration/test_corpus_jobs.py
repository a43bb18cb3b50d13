"""Jobs of several ranks: stragglers, clocks and damaged jobs against reference tables."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

import all_answers
import tbd_trace
from corpus import corpus_folder, reference_file, reference_rows
from fast import one_in
from real_traces import Traces
from tbd_trace.cli.main import app
from tbd_trace.errors import CannotAnswerError
from tbd_trace.query import Result
from tbd_trace.store import Database

MFU = "nsys/GindaChen_nsys-ai__tests__fixtures__mfu_2gpu_{}.sqlite"
HOUR = 3600 * 10**6  # microseconds


class Job:
    """One job in a database."""

    def __init__(self, directory: Path, database: Path, *options: str) -> None:
        arguments = ["ingest", "--job", "job", str(directory), "--db", str(database), *options]
        self.result = CliRunner().invoke(app, arguments)
        self.database = database

    def query(self, name: str, **parameters: object) -> pl.DataFrame:
        return tbd_trace.open(db=self.database).query(name, **parameters)

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        return tbd_trace.open(db=self.database).sql(statement).rows()

    def ask(self, *names: str) -> list[pl.DataFrame]:
        """Return the answers of several queries, over one connection."""
        found = all_answers.answers(Database(self.database), names)
        frames = [answer.frame for answer in found.values() if isinstance(answer, Result)]
        assert len(frames) == len(names)
        return frames

    def summary(self) -> dict[str, Any]:
        [row] = self.query("job_summary").to_dicts()
        return row


def expected(name: str) -> list[dict[str, str]]:
    return reference_rows(f"network/straggler/{name}.csv")


FOLDERS = {"gloo_2rank": "gloo_ddp_2rank", "gloo_4rank": "gloo_ddp_4rank_straggler"}


def folder(name: str) -> Path:
    return corpus_folder(f"jobs/{FOLDERS[name]}")


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Job]:
    """Return a function that returns a job, ingested once."""

    @cache
    def job(name: str) -> Job:
        return Job(folder(name), tmp_path_factory.mktemp(name) / "job.duckdb")

    return job


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(FOLDERS))
def test_skew_of_each_collective(jobs: Callable[[str], Job], name: str) -> None:
    found = jobs(name).query("rank_skew").to_dicts()
    wanted = expected(name)
    ranks = sum(column.startswith("wait_rank") for column in wanted[0])
    assert len(found) == ranks * len(wanted)
    for row in found:
        one = wanted[row["sequence"]]
        assert (row["last_rank"], row["bytes"]) == (int(one["last_rank"]), int(one["bytes"]))
        for column, reference in {
            "start_skew_ns": "start_skew_us",
            "end_skew_ns": "end_skew_us",
            "transfer_ns": "transfer_us",
            "wait_ns": f"wait_rank{row['rank']}_us",
        }.items():
            assert row[column] == pytest.approx(1000 * float(one[reference]), abs=60)


@pytest.mark.slow
def test_the_delayed_rank_is_the_straggler(jobs: Callable[[str], Job]) -> None:
    truth = json.loads(reference_file("network/straggler/gloo_4rank_truth.json").read_text())
    rows = jobs("gloo_4rank").query("straggler").to_dicts()
    assert (rows[0]["rank"], rows[0]["is_straggler"]) == (truth["slow_rank"], True)
    assert {row["verdict"] for row in rows} == {"same rank"}
    delay = pytest.approx(truth["delay_ms"] * 1e6, abs=1e7)
    assert rows[0]["median_lateness_when_last_ns"] == delay
    # It sleeps in Python.
    assert (rows[0]["phase"], rows[0]["cause"], rows[0]["extra_ns"]) == ("host", "host", delay)


@pytest.mark.slow
def test_nobody_is_blamed_without_a_straggler(jobs: Callable[[str], Job]) -> None:
    rows = jobs("gloo_2rank").query("straggler")
    assert (set(rows["verdict"]), set(rows["cause"])) == ({"rotating"}, {None})


@pytest.mark.slow
def test_shuffled_renamed_and_shifted_files_give_the_same_answer(tmp_path: Path) -> None:
    source = folder("gloo_4rank")
    moved = tmp_path / "moved"
    moved.mkdir()
    for number, path in enumerate(sorted(source.glob("rank*"))):
        document = json.loads(gzip.decompress(path.read_bytes()))
        for event in document["traceEvents"]:
            if "ts" in event:
                event["ts"] += (3, -2, 5, 0)[number] * HOUR
        name = f"{'dbca'[number]}.pt.trace.json"
        (moved / name).write_text(json.dumps(document))
    rows = Job(moved, tmp_path / "moved.duckdb").query("straggler").to_dicts()
    assert (rows[0]["rank"], rows[0]["verdict"]) == (3, "same rank")
    assert {row["clock"] for row in rows} == {"reference", "collective ends"}


@pytest.mark.slow
def test_clocks_of_two_nsys_reports(tmp_path: Path) -> None:
    source = corpus_folder("jobs/nsys_gloo_2rank")
    job = Job(source, tmp_path / "job.duckdb")
    truth = json.loads((source / "truth.json").read_text())
    estimates = {
        method: (offset, used)
        for method, offset, used in job.sql("SELECT method, offset_ns, is_used FROM clock_estimate")
    }
    assert estimates == {
        "UTC": (truth["utc_session_start_estimate_ns"], True),
        "collective ends": (truth["collective_end_estimate_ns"], False),
    }
    real = truth["clock_difference_rank1_minus_rank0_ns"]
    assert estimates["UTC"][0] == pytest.approx(real, abs=100_000)
    assert job.summary()["collectives_matched"] == 51


@pytest.mark.slow
@pytest.mark.parametrize(
    ("which", "waits", "transfer"),
    [("before", {0: 10_898_336, 1: 2_477_480}, 5_739_662)],
)
def test_two_ranks_in_one_nsys_report(
    traces: Traces, which: str, waits: dict[int, int], transfer: int
) -> None:
    frame = traces.ask(MFU.format(which), "rank_skew")
    assert frame.height == 2 * 33
    assert frame["mismatch"].null_count() == frame["transfer_ns"].len() == 66
    assert {rank: frame.filter(pl.col("rank") == rank)["wait_ns"].sum() for rank in waits} == waits
    assert frame.filter(pl.col("rank") == 0)["transfer_ns"].sum() == transfer


@pytest.mark.parametrize("which", ["before", "after"])
def test_collectives_of_one_nsys_report_match_the_reference(traces: Traces, which: str) -> None:
    table = reference_rows("network/oracle/nsys_matched_2rank.csv")
    rows = [row for row in table if f"_{which}." in row["file"]]
    if not rows:
        pytest.skip(f"the reference table has no rows of {which}")
    frame = traces.sql(
        MFU.format(which),
        "SELECT sequence, rank, wait_ns, transfer_ns, end_skew_ns "
        "FROM matched_collective ORDER BY ALL",
    )
    wanted = [
        (int(row["seq"]), rank, int(row[f"wait{rank}_ns"]),
         int(row["transfer_ns"]) if int(row["overlap"]) else None, abs(int(row["end_skew_ns"])))
        for row in rows for rank in (0, 1)
    ]  # fmt: skip
    assert frame.rows() == wanted


# --- damaged jobs -------------------------------------------------------------------------------


def damaged(name: str, tmp_path: Path, *options: str) -> Job:
    return Job(reference_file(f"network/bad/{name}"), tmp_path / "job.duckdb", *options)


@pytest.mark.slow
def test_missing_rank(tmp_path: Path) -> None:
    job = damaged("missing_rank", tmp_path)
    assert (job.result.exit_code, "3 of 4 ranks; missing 2" in job.result.output) == (0, True)
    summary, straggler, skew = job.ask("job_summary", "straggler", "rank_skew")
    names = ("world_size", "ranks_present", "missing_ranks", "complete")
    assert summary[list(names)].rows() == [(4, 3, "2", False)]
    rows = straggler.to_dicts()
    assert (len(rows), rows[0]["rank"], rows[0]["verdict"]) == (3, 3, "same rank")
    assert set(skew["missing_ranks"]) == {"2"}


@pytest.mark.slow
def test_fewer_iterations(tmp_path: Path) -> None:
    job = damaged("fewer_iterations", tmp_path)
    summary = job.summary()
    assert (summary["iterations_matched"], summary["collectives_matched"]) == (3, 3)
    assert "rank 1 has 3 of 4 iterations" in summary["problems"]
    reasons = dict(job.sql("SELECT DISTINCT sequence, mismatch FROM matched_collective"))
    assert reasons == {0: None, 1: None, 2: None, 3: "not on rank 1"}


@pytest.mark.slow
def test_mismatched_collective(tmp_path: Path) -> None:
    job = damaged("mismatched_collective", tmp_path)
    reasons = dict(job.sql("SELECT DISTINCT sequence, mismatch FROM matched_collective"))
    why = "rank 2 has 4000 bytes against 23960000"
    assert reasons == {0: None, 1: why, 2: None, 3: None}


@pytest.mark.slow
def test_duplicate_rank(tmp_path: Path) -> None:
    job = damaged("duplicate_rank", tmp_path)
    assert job.result.exit_code == 2
    assert not Database(job.database).trace_ids()
    job = damaged("duplicate_rank", tmp_path, "--rank-from", "name")
    assert job.result.exit_code == 0
    summary = job.summary()
    assert (summary["present"], summary["complete"]) == ("0, 1, 2, 3", True)


@pytest.mark.slow
def test_no_distributed_info(tmp_path: Path) -> None:
    job = damaged("no_distributed_info", tmp_path)
    summary, straggler = job.ask("job_summary", "straggler")
    assert summary[["present", "rank_evidence"]].rows() == [("0, 1, 2, 3", "file name")]
    assert straggler["rank"][0] == 3


@pytest.mark.slow
def test_one_rank(tmp_path: Path) -> None:
    job = damaged("one_rank", tmp_path)
    summary = job.summary()
    assert (summary["world_size"], summary["complete"]) == (1, True)
    for name in ("straggler", "rank_skew"):
        with pytest.raises(CannotAnswerError, match="at least two ranks"):
            job.query(name)


@pytest.mark.slow
@pytest.mark.parametrize("rank", one_in(4, [3, 0, 1, 2], then_one_in=3))  # 3 is the straggler
def test_any_rank_can_be_missing(tmp_path: Path, rank: int) -> None:
    source = folder("gloo_4rank")
    rest = tmp_path / "rest"
    rest.mkdir()
    for path in source.glob("rank*"):
        if f"rank{rank}." not in path.name:
            (rest / path.name).write_bytes(path.read_bytes())
    job = Job(rest, tmp_path / "job.duckdb")
    summary, verdicts = job.ask("job_summary", "straggler")
    assert summary[["missing_ranks", "complete"]].rows() == [(str(rank), False)]
    assert (verdicts["rank"][0] == 3) == (rank != 3)


@pytest.mark.slow
def test_a_truncated_rank(tmp_path: Path) -> None:
    source = folder("gloo_4rank")
    cut = tmp_path / "cut"
    cut.mkdir()
    for path in source.glob("rank*"):
        content = path.read_bytes()
        (cut / path.name).write_bytes(content[:9000] if "rank2" in path.name else content)
    job = Job(cut, tmp_path / "job.duckdb")
    # The rest of the file has the second and the fourth collective; its second is nobody's third.
    reasons = dict(job.sql("SELECT DISTINCT sequence, mismatch FROM matched_collective"))
    missing = "not on rank 2"
    assert reasons == {
        0: missing, 1: None, 2: "rank 2 begins after the end of another", 3: missing
    }  # fmt: skip
    assert set(job.query("straggler")["verdict"]) == {"not evaluable"}
