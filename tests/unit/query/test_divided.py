"""Queries over many traces, one at a time and in several processes, answer as over all together."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import polars as pl
import pytest
from typer.testing import CliRunner

from all_answers import answers
from corpus import ROOT
from deadly_store import TRACE, DeadlyDatabase, deadly
from fast import one_in
from made_kineto import document, event, kernel, launch, write
from tbd_trace.cli.main import app
from tbd_trace.errors import CannotAnswerError, StoreError, UsageError
from tbd_trace.query import Catalogue, Query, Result, execute, execute_batches, execution
from tbd_trace.query import parts as parts_module
from tbd_trace.query.catalogue import read_query
from tbd_trace.query.parts import divide
from tbd_trace.runtime.executors import Executor, Processes, ThisProcess
from tbd_trace.store import Database
from tbd_trace.store.ranks import job_files

pytestmark = pytest.mark.slow

RANKS = 3
DIVISIBLE = [query.name for query in Catalogue().metrics() if query.reduce]
# Kernels of a job, the counters of a capture, memory, ranges, rows in the order of ranks.
CHOSEN = ["kernel_summary", "occupancy", "memory_peak", "nvtx_projection", "comm_overlap"]
SUM = """/*
reduce = "sum"
[columns.kernel]
doc = "name"
[columns.instances]
doc = "runs"
unit = "kernels"
*/
SELECT name AS kernel, count(*) AS instances FROM kernel GROUP BY ALL ORDER BY instances, kernel
"""


def rank_file(directory: Path, rank: int) -> Path:
    name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)"
    events = [event("user_annotation", "ProfilerStep#0", 0, 100)]
    for number in range(4 + rank):
        events += [
            launch(10 * number, number + 1),
            kernel(10 * number + 2, 5, number + 1, name if number % 2 else "gemm"),
        ]
    header = {"distributedInfo": {"backend": "nccl", "rank": rank, "world_size": RANKS}}
    return write(directory / f"{rank}.pt.trace.json", document(events, **header))


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Database:
    """Return a database of a job, a capture with counters, and memory."""
    directory = tmp_path_factory.mktemp("divided")
    database = Database(directory / "many.duckdb")
    files = [rank_file(directory, rank) for rank in range(RANKS)]
    database.ingest_files(job_files("job", files))
    samples = ROOT / "data" / "samples"
    database.ingest([samples / "synthetic_cnn", samples / "synthetic_memory"])
    return database


@pytest.fixture(scope="module")
def processes() -> Iterator[Executor]:
    with Processes(2) as executor:
        yield executor


@pytest.fixture
def deadly_traces(
    traces: Database, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[DeadlyDatabase, str]]:
    """Yield the database and the rank that ends its readers."""
    frame = traces.traces()
    trace_id = frame.filter(pl.col("name").str.ends_with("1.pt.trace.json"))["trace_id"].item()
    monkeypatch.setenv(TRACE, deadly(trace_id))
    yield DeadlyDatabase(traces.path), trace_id


def together(database: Database, query: Query) -> Result | str:
    try:
        return execution.execute(database, query)
    except CannotAnswerError as error:
        return str(error)


def same(first: pl.DataFrame, second: pl.DataFrame) -> bool:
    return first.schema == second.schema and first.equals(second)


@pytest.fixture(scope="module")
def all_together(traces: Database) -> dict[str, Result | CannotAnswerError]:
    return answers(traces, DIVISIBLE)


@pytest.mark.parametrize("name", one_in(25, DIVISIBLE, then_one_in=12))
def test_answer_one_at_a_time(
    traces: Database, all_together: dict[str, Result | CannotAnswerError], name: str
) -> None:
    query, expected = Catalogue().get(name), all_together[name]
    if isinstance(expected, CannotAnswerError):
        with pytest.raises(CannotAnswerError):
            execute(traces, query, executor=ThisProcess())
        return
    found = execute(traces, query, executor=ThisProcess())
    assert same(found.frame, expected.frame)
    assert found.notes == expected.notes
    assert not found.missing


@pytest.mark.parametrize("name", CHOSEN)
def test_answer_of_several_processes(traces: Database, processes: Executor, name: str) -> None:
    query = Catalogue().get(name)
    expected = together(traces, query)
    assert isinstance(expected, Result)
    assert expected.frame["trace_id"].n_unique() > 1 or name == "occupancy"
    assert same(execute(traces, query, executor=processes).frame, expected.frame)
    batches = list(execute_batches(traces, query, executor=processes))
    assert same(pl.concat([batch.rows for batch in batches]), expected.frame)


def test_large_traces_are_divided(traces: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = traces.trace_ids()
    assert divide(traces, ids) == [ids]
    monkeypatch.setattr(parts_module, "_SMALL_BYTES", 0)
    monkeypatch.setattr(parts_module, "_FILES_AT_ONCE", 2)
    parts = divide(traces, ids)
    # The two traces of each capture stay together.
    assert sorted(map(len, parts)) == [1] * RANKS + [2, 2]
    ranks = sorted(traces.jobs()["job"])
    assert ranks in divide(traces, ids, together="job")
    assert sorted(map(len, divide(traces, ids, together="job"))) == [2, 2, RANKS]
    query = Catalogue().get("kernel_summary")
    expected = together(traces, query)
    assert isinstance(expected, Result)
    batches = list(execute_batches(traces, query))
    assert len(batches) > 1
    assert same(pl.concat([batch.rows for batch in batches]), expected.frame)


def test_limited_rows(traces: Database) -> None:
    query = Catalogue().get("kernel_summary")
    found = execute(traces, query, rows=3, executor=ThisProcess())
    everything = execute(traces, query)
    assert found.more
    assert same(found.frame, everything.frame[:3])
    exact = execute(traces, query, rows=everything.frame.height, executor=ThisProcess())
    assert not exact.more
    assert same(exact.frame, everything.frame)


def test_sum(traces: Database, tmp_path: Path, processes: Executor) -> None:
    path = tmp_path / "runs.sql"
    path.write_text(SUM)
    query = read_query(path)
    with duckdb.connect() as connection:
        rows = traces.relation("kernel", traces.trace_ids())
        expected = connection.sql(
            f"SELECT name, count(*) FROM ({rows}) GROUP BY ALL ORDER BY name"
        ).fetchall()
    for executor in (None, ThisProcess(), processes):
        found = execute(traces, query, executor=executor)
        assert found.frame.rows() == expected
        assert found.frame.schema["instances"] == pl.Int64


def test_reduction_in_sql(traces: Database, tmp_path: Path) -> None:
    path = tmp_path / "longest.sql"
    (tmp_path / "largest.sql").write_text(
        "SELECT max(ns) AS ns, getvariable('scale') AS scale FROM mapped"
    )
    path.write_text(
        '/*\nreduce = "sql:largest.sql"\n[params.scale]\ndoc = "any"\ndefault = 1\n*/\n'
        "SELECT max(end_ns - start_ns) AS ns FROM kernel"
    )
    query = read_query(path)
    with duckdb.connect() as connection:
        rows = traces.relation("kernel", traces.trace_ids())
        [(longest,)] = connection.sql(f"SELECT max(end_ns - start_ns) FROM ({rows})").fetchall()
    for executor in (None, ThisProcess()):
        found = execute(traces, query, parameters={"scale": "7"}, executor=executor)
        assert found.frame.rows() == [(longest, 7)]
    (tmp_path / "largest.sql").write_text("SELECT nothing FROM mapped")
    with pytest.raises(UsageError, match="nothing"):
        execute(traces, query, executor=ThisProcess())


@pytest.mark.parametrize(
    ("header", "problem"),
    [
        ('reduce = "mean"', "none of"),
        ('reduce = "sql:"', "none of"),
        ('reduce = "sql:nowhere.sql"', "nowhere.sql"),
        ("reduce = 1", "not a text"),
        ('reduce = "concat"\n[columns.name]\ndoc = "x"', "trace_id"),
        ('reduce = "sum"\n[columns.name]\ndoc = "x"', "unit"),
        ('reduce = "sum"\nleaves_out = "capture_left_out"\n[columns.n]\ndoc = "x"\nunit = "ns"',
         "leaves_out"),
    ],
)  # fmt: skip
def test_invalid_reductions(tmp_path: Path, header: str, problem: str) -> None:
    path = tmp_path / "own.sql"
    path.write_text(f"/*\n{header}\n*/\nSELECT 1 AS name")
    with pytest.raises(UsageError, match=problem):
        read_query(path)


def test_query_that_compares_ranks(traces: Database, processes: Executor) -> None:
    query = Catalogue().get("straggler")
    expected = together(traces, query)
    assert isinstance(expected, Result)
    found = execute(traces, query, executor=processes)
    assert same(found.frame, expected.frame)
    assert found.notes == [
        *expected.notes, "straggler needs all traces together; it was not shared among processes"
    ]  # fmt: skip


def test_process_that_ends_once(
    deadly_traces: tuple[DeadlyDatabase, str],
    traces: Database,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    database, trace_id = deadly_traces
    monkeypatch.setenv(TRACE, deadly(trace_id, tmp_path / "ended"))
    query = Catalogue().get("kernel_summary")
    with Processes(2) as executor:
        found = execute(database, query, executor=executor)
    assert (tmp_path / "ended").exists()
    assert not found.missing
    assert same(found.frame, execute(traces, query).frame)


def test_process_that_always_ends(
    deadly_traces: tuple[DeadlyDatabase, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    database, trace_id = deadly_traces
    monkeypatch.setattr("tbd_trace.api.Database", DeadlyDatabase)
    written = tmp_path / "rows.csv"
    for output in ([], ["-o", str(written)]):
        command = ["query", "kernel_summary", "--db", str(database.path), "--workers", "1"]
        result = CliRunner().invoke(app, [*command, *output])
        assert result.exit_code == 1
        assert "no answer for 1.pt.trace.json: the process that asked ended" in result.output
    # The other traces are answered.
    others = {row for row in database.trace_ids() if row != trace_id}
    assert set(pl.read_csv(written)["trace_id"]) < others
    memory = next(row for row in others if database.kernels(row) == 0)
    with Processes(1) as executor, pytest.raises(StoreError, match=r"1\.pt\.trace"):
        execute(
            database,
            Catalogue().get("nvtx_kernels"),
            [trace_id, memory],
            executor=executor,
        )


def test_error_in_another_process(traces: Database, processes: Executor, tmp_path: Path) -> None:
    path = tmp_path / "wrong.sql"
    path.write_text('/*\nreduce = "sum"\n[columns.n]\nunit = "ns"\ndoc = "x"\n*/\nSELECT nope')
    with pytest.raises(UsageError, match="nope"):
        execute(traces, read_query(path), executor=processes)
    # The processes go on.
    assert not execute(traces, Catalogue().get("memory_peak"), executor=processes).missing
