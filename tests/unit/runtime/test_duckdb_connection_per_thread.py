"""No two threads use one DuckDB connection, whatever the program is asked."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import made_nvprof
from corpus import ROOT
from tbd_trace.archive import store as archive_store
from tbd_trace.cli.main import app
from tbd_trace.cli.mcp import Tools
from tbd_trace.query import connection as query_connection
from tbd_trace.query import execution, pages, relation_cache, relation_slices
from tbd_trace.query.pages import sql_batches
from tbd_trace.query.relation_cache import RelationCache
from tbd_trace.runtime import duckdb_connection, worker_pool, worker_process
from tbd_trace.runtime.duckdb_connection import release, scratch_connection
from tbd_trace.runtime.worker_process import Worker, WorkerFailed
from tbd_trace.sources.kineto import event_list
from tbd_trace.sqlite_io.sqlite_file import READER_VARIABLE
from tbd_trace.store import Database, parallel_ingest
from tbd_trace.store import database as store_database
from thread_connections import CheckedConnection, Idle, connector, use_in_two_threads

pytestmark = pytest.mark.slow

SAMPLES = ROOT / "data" / "samples"
CNN, MLP = SAMPLES / "synthetic_cnn", SAMPLES / "synthetic_mlp"
SNAPSHOT = SAMPLES / "synthetic_memory" / "snapshot.pickle"


@pytest.fixture
def record(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Check every new connection; all computed relations are worth a file."""
    path = elsewhere / "wrong_uses.txt"
    monkeypatch.setattr(duckdb, "connect", connector(path))
    monkeypatch.setattr(duckdb_connection, "_idle", Idle())
    monkeypatch.setattr(archive_store, "_thread_local", archive_store._ThreadLocal())
    for name in ("_SHORTEST_SECONDS", "_SHORTEST_AT_FIRST"):
        monkeypatch.setattr(relation_cache, name, 0)
    checks = (
        "import sys; sys.path[:] = {path!r}; from thread_connections import check_process; "
        f"check_process({str(path)!r}); "
    )
    monkeypatch.setattr(worker_process, "_PROGRAM", checks + worker_process._PROGRAM)
    yield path
    assert not path.exists(), path.read_text()


def run(*words: str | Path) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words])


def succeeds(*words: str | Path) -> str:
    result = run(*words)
    assert result.exit_code == 0, (words, result.output, result.exception)
    return result.stdout


def test_a_worker_notes_wrong_uses(record: Path) -> None:
    worker = Worker()
    with pytest.raises(WorkerFailed):
        worker.call(use_in_two_threads)
    worker.close()
    assert "calls execute of the connection of MainThread" in record.read_text()
    record.unlink()


@pytest.fixture
def a_connection(tmp_path: Path) -> CheckedConnection:
    return connector(tmp_path / "wrong_uses.txt")()


def in_another_thread(connection: CheckedConnection, method: str, *given: object) -> Any:
    with ThreadPoolExecutor(1) as executor:
        return executor.submit(lambda: getattr(connection, method)(*given)).result()


def test_a_connection_belongs_to_a_thread_until_it_ends(
    a_connection: CheckedConnection, tmp_path: Path
) -> None:
    in_another_thread(a_connection, "execute", "CREATE TABLE t AS SELECT 1 AS a")
    assert a_connection.execute("FROM t").fetchall() == [(1,)]
    rows = a_connection.sql("FROM t")
    in_another_thread(a_connection, "interrupt")
    assert not (tmp_path / "wrong_uses.txt").exists()
    for used in (a_connection, rows):
        with pytest.raises(AssertionError, match="calls fetchall of the connection of MainThread"):
            in_another_thread(used, "fetchall")
    assert (tmp_path / "wrong_uses.txt").read_text().count("calls fetchall") == 2


def test_a_cursor_and_what_was_given_back_belong_to_others(a_connection: CheckedConnection) -> None:
    a_connection.execute("SELECT 1")
    in_another_thread(a_connection.cursor(), "execute", "SELECT 1")
    Idle().append((0, a_connection))
    in_another_thread(a_connection, "execute", "SELECT 1")


def test_rows_are_streamed_in_the_thread_of_the_connection(a_connection: CheckedConnection) -> None:
    rows = a_connection.sql("FROM range(300000)")
    assert pl.DataFrame(rows).height == 300_000
    stream = pa.RecordBatchReader.from_stream(rows)
    with ThreadPoolExecutor(1) as executor, pytest.raises(pa.ArrowInvalid, match="next batch"):
        executor.submit(stream.read_next_batch).result()


@pytest.mark.usefixtures("record")
def test_first_questions_that_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(10):
        monkeypatch.setenv("TBD_TRACE_CACHE", f"cache {number}")
        refused = run("query", "kernel_summary", SNAPSHOT, "--format", "csv")
        assert refused.exit_code == 3, (refused.output, refused.exception)
        assert list(Path(f"cache {number}").glob("*/derived/*.parquet"))


@pytest.mark.usefixtures("record")
def test_first_questions_that_are_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    succeeds("query", "kernel_summary", CNN, "--format", "csv")
    succeeds("query", "layer_time", CNN)
    for module in (query_connection, execution, pages):
        monkeypatch.setattr(module, "LARGE_ROWS", 1)
    monkeypatch.setattr(pages, "PAGE_ROWS", 40)
    assert succeeds("query", "nvtx_kernels", CNN, "--format", "csv").count("\n") > 120
    many = "SELECT r.range FROM range(300000) r, (SELECT count(*) FROM op_scope)"
    assert succeeds("sql", many, "--trace", CNN, "--format", "csv").count("\n") == 300_001


@pytest.mark.usefixtures("record")
def test_what_is_kept_beside_the_answer_depends_on_its_parameters() -> None:
    words = ("query", "nvtx_kernels", CNN, "--set", "by=range", "--format", "csv")
    answer = succeeds(*words)
    kept = {path: path.stat().st_ino for path in Path().rglob("range_kernel-*.parquet")}
    assert len(kept) == 1
    assert succeeds(*words) == answer
    assert {path: path.stat().st_ino for path in Path().rglob("range_kernel-*.parquet")} == kept


@pytest.mark.usefixtures("record")
@pytest.mark.parametrize("wait_s", [0, 0.5], ids=["during a statement", "before it"])
def test_ctrl_c_while_the_answer_is_written_ends_what_is_kept(
    wait_s: float, sample_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    began = threading.Event()

    def keep_long(_: RelationCache, connection: CheckedConnection) -> None:
        began.set()
        time.sleep(wait_s)
        connection.execute("SELECT count(*) FROM range(1_000_000) a, range(100_000) b")

    monkeypatch.setattr(RelationCache, "keep_rest", keep_long)
    monkeypatch.setattr(RelationCache, "puts_off", True)
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        for _ in sql_batches(sample_database, "SELECT 1"):
            began.wait()
            time.sleep(0.2)
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(1)
    assert time.monotonic() - started < 10


@pytest.mark.usefixtures("record")
def test_relations_of_large_traces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relation_cache, "_LARGE", 1)
    monkeypatch.setattr(relation_slices, "_SLICE_ROWS", 30)
    succeeds("query", "layer_time", CNN, "--format", "csv")


@pytest.mark.usefixtures("record")
@pytest.mark.parametrize(
    "words",
    [
        ["check", CNN],
        ["why", CNN],
        ["whatif", CNN, "--change", "overlap_copies"],
        pytest.param(["report", CNN, "-o", "page.html"], marks=pytest.mark.nightly),
        ["diff", CNN, CNN],
        ["export", "perfetto", CNN, "-o", "a.pftrace"],
        ["query", "kernel_summary", CNN, MLP, "--workers", "2", "--format", "csv"],
    ],
    ids=lambda words: "-".join(word for word in words[:2] if isinstance(word, str)),
)
def test_commands(words: list[str | Path]) -> None:
    succeeds(*words)


@pytest.mark.usefixtures("record")
def test_ingest(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    strings, kernels = ["gemm"], [made_nvprof.kernel()]
    made_nvprof.make(elsewhere / "a.nvprof", strings, {"CONCURRENT_KERNEL": kernels})
    monkeypatch.setattr(event_list, "BLOCK_BYTES", 20_000)
    monkeypatch.setattr(event_list, "_TAIL_BYTES", 4_000)
    for path in (CNN, MLP, SNAPSHOT.parent, elsewhere / "a.nvprof"):
        Database(elsewhere / "tbd-trace.duckdb").ingest([path])
        _, given_back = duckdb_connection._idle[-1]
        assert relation_cache.existing_relations(given_back) == {}
    succeeds("ingest", MLP, "--python-frames")
    succeeds("ingest", CNN, MLP, "--workers", "2", "--db", "two.duckdb")
    succeeds("archive", "create", "-o", "a.zip")
    succeeds("archive", "verify", "a.zip")
    succeeds("info", "--db", "a.zip")


@pytest.mark.usefixtures("record")
def test_ingest_in_parts(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_pool, "cpus", lambda: 2)
    monkeypatch.setattr(store_database, "LARGE_FILE", 1)
    for name in ("_WORTH_A_PART", "_WORTH_WORKERS", "_WORTH_CUTTING"):
        monkeypatch.setattr(parallel_ingest, name, 1)
    monkeypatch.setattr(parallel_ingest, "_MOST_ROWS", 100)
    monkeypatch.setenv(READER_VARIABLE, "pages")
    succeeds("ingest", CNN / "timeline.sqlite", "--db", "a.duckdb")
    assert list(Path("a.traces").rglob("annotation.*.parquet"))


@pytest.mark.usefixtures("record")
def test_tools_of_an_assistant_run_in_several_threads(elsewhere: Path) -> None:
    succeeds("ingest", CNN)
    for name in ("a.zip", "b.zip"):
        succeeds("archive", "create", "-o", name)
    tools = Tools(elsewhere)
    begin = threading.Barrier(3)

    def ask(archive: str) -> list[dict[str, Any]]:
        begin.wait()
        return [tools.query("kernel_summary", [archive])["rows"] for _ in range(2)]

    with ThreadPoolExecutor(3) as executor:
        answers = list(executor.map(ask, ["a.zip", "b.zip", "a.zip"]))
    assert all(answer == answers[0] for answer in answers)


@pytest.mark.usefixtures("record")
def test_a_database_is_taken_by_one_of_several_threads(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = threading.Barrier(4)
    has_idle = duckdb_connection._has_idle

    def has_idle_for_a_while() -> bool:
        found = has_idle()
        time.sleep(0.02)
        return found

    monkeypatch.setattr(duckdb_connection, "_has_idle", has_idle_for_a_while)

    def use(number: int) -> int:
        begin.wait()
        with scratch_connection(elsewhere / "spill") as connection:
            connection.execute(f"CREATE TABLE t AS SELECT {number} AS n")
            return connection.execute("FROM t").fetchone()[0]

    release(scratch_connection(elsewhere / "spill"))
    with ThreadPoolExecutor(4) as executor:
        assert list(executor.map(use, range(4))) == [0, 1, 2, 3]
