"""Large files are read in parts by several processes, and the result is that of one."""

from __future__ import annotations

import random
import subprocess
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest

import made_nsys
from corpus import corpus_files
from fast import one_in
from tbd_trace.api import find_query, open_traces
from tbd_trace.errors import InputError
from tbd_trace.model.canonical_tables import canonical_tables
from tbd_trace.query import Catalogue, execute
from tbd_trace.runtime import worker_pool
from tbd_trace.runtime.worker_process import Worker
from tbd_trace.sources.nsys import reader
from tbd_trace.sources.nsys.reader import NsysReader
from tbd_trace.sources.nsys.tables import NsysTables
from tbd_trace.sqlite_io.sqlite_file import READER_VARIABLE
from tbd_trace.store import Database, parallel_ingest
from tbd_trace.store import database as store_database
from tbd_trace.store.tables import table_files

ROWS = 6000
EXPORTS = corpus_files("nsys/*.sqlite")


@pytest.fixture(autouse=True)
def two_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let two processes read files of any size."""
    monkeypatch.setattr(worker_pool, "cpus", lambda: 2)
    monkeypatch.setattr(parallel_ingest, "_WORTH_A_PART", 1)
    monkeypatch.setattr(parallel_ingest, "_WORTH_WORKERS", 1)
    monkeypatch.setattr(parallel_ingest, "_WORTH_CUTTING", 100)
    monkeypatch.setattr(parallel_ingest, "_MOST_ROWS", 1000)
    monkeypatch.setenv(READER_VARIABLE, "pages")


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return what workers did, as it goes on."""
    done: list[str] = []
    original = Worker.call

    def noted(worker: Worker, work: Any, *args: Any) -> Any:
        result = original(worker, work, *args)
        done.append(work.func.__name__)
        return result

    monkeypatch.setattr(Worker, "call", noted)
    return done


def export(path: Path) -> Path:
    """Write an export with thousands of rows, domains and open ranges."""
    chance = random.Random(7)
    kernels = [
        made_nsys.kernel(
            start=10 * i, end=10 * i + 7, correlationId=i + 1, pid=chance.choice([100, 200])
        )
        for i in range(ROWS)
    ]
    calls = [
        made_nsys.call(4, start=10 * i - 5, end=10 * i - 2, correlationId=i + 1)
        for i in range(ROWS)
    ]
    ranges = [
        made_nsys.nvtx(
            chance.choice([59, 60]),
            start=10 * i,
            end=None if i % 997 == 5 else 10 * i + chance.randrange(90),
            text=f"range {i}",
            domainId=chance.randrange(3),
        )
        for i in range(ROWS)
    ]
    # The domain is named when almost everything in it is over.
    ranges.append(made_nsys.nvtx(75, start=10 * ROWS, end=None, text="late", domainId=2))
    return made_nsys.write(
        path,
        {
            "StringIds": made_nsys.strings(),
            made_nsys.KERNEL: kernels,
            made_nsys.RUNTIME: calls,
            made_nsys.NVTX: ranges,
        },
    )


@pytest.fixture(scope="module")
def made_by_one(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Database]:
    """Return the export and a database that one process made of it; both stay as they are."""
    folder = tmp_path_factory.mktemp("made by one")
    path = export(folder / "f.sqlite")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(READER_VARIABLE, "pages")
        return path, whole(path, folder / "whole")


def ingested(path: Path, directory: Path) -> Database:
    database = Database(directory / "made.duckdb")
    database.ingest([path])
    return database


def whole(path: Path, directory: Path) -> Database:
    """Ingest a file by one process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worker_pool, "cpus", lambda: 1)
        return ingested(path, directory)


def rows(database: Database, table: str) -> list[tuple[Any, ...]]:
    """Return the rows of a table; they lie in the order of one of the file's tables each."""
    return duckdb.execute(_select(database, table)).fetchall()


def frame(database: Database, table: str) -> pl.DataFrame:
    return pl.DataFrame(duckdb.sql(_select(database, table)))


def _select(database: Database, table: str) -> str:
    relation = database.relation(table, database.trace_ids())
    kept = "* EXCLUDE (ingested_at)" if table == "trace" else "*"
    return f"SELECT {kept} FROM ({relation}) ORDER BY ALL"


def assert_same(one: Database, other: Database) -> None:
    for table in canonical_tables():
        if not frame(one, table).equals(frame(other, table)):  # compares faster than rows
            assert rows(one, table) == rows(other, table), table


def cut_tables(database: Database) -> set[str]:
    (trace_id,) = database.trace_ids()
    return {
        table
        for table in canonical_tables()
        if len(table_files(database.traces_directory / trace_id, table)) > 1
    }


@pytest.mark.slow
def test_parts_together_are_the_whole(
    made_by_one: tuple[Path, Database], tmp_path: Path, called: list[str]
) -> None:
    path, one = made_by_one
    database = ingested(path, tmp_path / "parts")
    assert cut_tables(database) == {"kernel", "api_call", "annotation"}
    assert set(called) == {"_write_part"}
    assert cut_tables(one) == set()
    assert_same(database, one)
    assert len(rows(database, "annotation")) == ROWS
    trace = database.relation("trace", database.trace_ids())
    ((notes,),) = duckdb.execute(f"SELECT notes FROM ({trace})").fetchall()
    relation = database.relation("kernel", database.trace_ids())
    unlaunched = "(process_id >> 24) & 16777215 = 200"  # all calls are those of process 100
    kernels = duckdb.execute(f"SELECT count(*) FROM ({relation}) WHERE {unlaunched}").fetchall()
    assert notes[0].startswith(f"{kernels[0][0]} kernels have no launching call in the trace")
    assert {row[11] for row in rows(database, "annotation")} == {None, "late"}
    ids = duckdb.execute(f"SELECT kernel_id FROM ({relation})").fetchall()
    assert ids == [(number,) for number in range(1, ROWS + 1)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("left_open", "named_at", "again"),
    one_in(4, [((), 0, 0), ((4500,), 0, 1), ((10, 20, 4500), 0, 2), ((), 5000, 8)], then_one_in=3),
    ids=["as expected", "one open", "two parts with open ones", "a late domain"],
)
def test_parts_are_read_again_where_others_say_more(
    left_open: tuple[int, ...],
    named_at: int,
    again: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ranges that were left open end with the last event of all; a name is its whole domain's."""
    asked: list[list[tuple[str, int]]] = []
    original = parallel_ingest._Writer.write

    def noted(writer: Any, pool: Any, several: list[tuple[str, int]]) -> None:
        asked.append(several)
        original(writer, pool, several)

    monkeypatch.setattr(parallel_ingest._Writer, "write", noted)
    ranges = [
        made_nsys.nvtx(59, start=10 * i, end=None if i in left_open else 10 * i + 5, domainId=1)
        for i in range(ROWS)
    ]
    ranges.insert(named_at, made_nsys.nvtx(75, start=10 * named_at, end=None, text="d", domainId=1))
    tables = {"StringIds": made_nsys.strings(), made_nsys.NVTX: ranges}
    path = made_nsys.write(tmp_path / "f.sqlite", tables)
    database = ingested(path, tmp_path / "parts")
    first, second = asked
    assert {table for table, _ in first} == {"annotation"}
    assert len(first) == 8
    assert len(second) == again
    assert_same(database, whole(path, tmp_path / "whole"))
    assert {row[11] for row in rows(database, "annotation")} == {"d"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "path", one_in(20, EXPORTS[::6], then_one_in=20), ids=lambda path: path.name[:60]
)
def test_real_exports(path: Path, tmp_path: Path) -> None:
    assert_same(ingested(path, tmp_path / "parts"), whole(path, tmp_path / "whole"))


@pytest.mark.slow
def test_queries_views_and_removal(made_by_one: tuple[Path, Database], tmp_path: Path) -> None:
    path, one = made_by_one
    database = ingested(path, tmp_path / "parts")
    for name in ("kernel_summary", "nvtx_projection"):
        query = Catalogue().get(name)
        assert execute(database, query).frame.equals(execute(one, query).frame)
    for table in ("kernel", "annotation", "kernel_metric"):
        with duckdb.connect(str(database.path), read_only=True) as shell:
            ((count,),) = shell.execute(f"SELECT count(*) FROM {table}").fetchall()
        assert count == len(rows(one, table)), table
    database.remove(database.trace_ids())
    assert not any(database.traces_directory.glob("[0-9a-f]*"))


@pytest.mark.slow
@pytest.mark.parametrize("worth", [1, 10 * ROWS], ids=["wanted", "not wanted after all"])
def test_helpers_of_a_large_file_get_ready_first(
    worth: int,
    made_by_one: tuple[Path, Database],
    tmp_path: Path,
    called: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started: list[Worker] = []
    original = Worker.__init__

    def noted(worker: Worker) -> None:
        original(worker)
        started.append(worker)

    monkeypatch.setattr(Worker, "__init__", noted)
    monkeypatch.setattr(store_database, "LARGE_FILE", 0)
    monkeypatch.setattr(parallel_ingest, "_WORTH_WORKERS", worth)
    path, one = made_by_one
    database = ingested(path, tmp_path / "parts")
    (worker,) = started
    assert worker._process.returncode is not None
    if worth == 1:
        assert called[0] == "get_ready"
        assert set(called[1:]) == {"_write_part"}
    assert_same(database, one)


def test_a_question_about_kernels_alone_starts_no_helper(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_database, "LARGE_FILE", 0)
    monkeypatch.setattr(parallel_ingest, "_WORTH_WORKERS", 10 * ROWS)
    monkeypatch.setattr(Worker, "__init__", cannot_start)
    path = str(export(tmp_path / "f.sqlite"))
    question = find_query("kernel_summary")
    opened = open_traces(path, question=question)
    assert execute(opened.database, question).frame.height > 0
    with pytest.raises(OSError, match="no more processes"):
        open_traces(path)


def killed(worker: Worker, work: Any) -> Any:
    worker._process.kill()
    return ORIGINAL(worker, work)


ORIGINAL = Worker.call


def cannot_start(*_: object, **__: object) -> None:
    raise OSError("no more processes")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("place", "name", "value"),
    [(Worker, "call", killed), (subprocess, "Popen", cannot_start)],
    ids=["killed", "no process"],
)
def test_without_helpers_this_process_does_it_all(
    *,
    place: Any,
    name: str,
    value: Callable[..., Any],
    made_by_one: tuple[Path, Database],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path, one = made_by_one
    monkeypatch.setattr(place, name, value)
    assert_same(ingested(path, tmp_path / "parts"), one)


@pytest.mark.slow
def test_a_table_that_fails_in_parts_is_written_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Most grids are no numbers, which the page reader leaves to SQLite."""
    monkeypatch.setattr(parallel_ingest, "_MOST_ROWS", ROWS)
    path = tmp_path / "f.sqlite"
    kernels = [
        made_nsys.kernel(start=10 * i, end=10 * i + 7, gridX="many" if i % 3 else 1)
        for i in range(ROWS)
    ]
    calls = [made_nsys.call(4, start=i, end=i + 1) for i in range(ROWS)]
    tables = {made_nsys.KERNEL: kernels, made_nsys.RUNTIME: calls}
    made_nsys.write(path, {"StringIds": made_nsys.strings(), **tables})
    database = ingested(path, tmp_path / "parts")
    assert cut_tables(database) == {"api_call"}
    assert len(rows(database, "kernel")) == ROWS
    assert_same(database, whole(path, tmp_path / "whole"))


@pytest.mark.slow
@pytest.mark.parametrize("failing", [False, True])
def test_small_tables_are_read_once_for_all_parts_unless_one_fails(
    failing: bool,
    made_by_one: tuple[Path, Database],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path, one = made_by_one
    opened: list[NsysReader] = []
    closed: list[NsysReader] = []
    loaded: list[str] = []
    opens, loads = reader._RangeOpener.__call__, NsysTables.load
    closes, maps = NsysReader.__exit__, NsysReader.relation

    def noted_open(opener: reader._RangeOpener) -> NsysReader:
        opened.append(opens(opener))
        return opened[-1]

    def noted_close(reader: NsysReader, *error: Any) -> None:
        closed.append(reader)
        closes(reader, *error)

    def noted_load(tables: NsysTables, connection: Any, table: str) -> None:
        loaded.append(table)
        loads(tables, connection, table)

    def mapped(reader: NsysReader, connection: Any, table: str) -> str | None:
        if failing and reader is opened[0] and table == "api_call":
            raise InputError("only this time")
        return maps(reader, connection, table)

    monkeypatch.setattr(subprocess, "Popen", cannot_start)  # so that this process reads all parts
    monkeypatch.setattr(reader._RangeOpener, "__call__", noted_open)
    monkeypatch.setattr(NsysReader, "__exit__", noted_close)
    monkeypatch.setattr(NsysReader, "relation", mapped)
    monkeypatch.setattr(NsysTables, "load", noted_load)
    database = ingested(path, tmp_path / "parts")
    again = 1  # as a domain is named late
    assert len(opened) == 1 + again + failing
    assert set(closed).issuperset(opened)
    # Another time by the reader of what is no part.
    assert loaded.count("StringIds") <= len(opened) + 1
    monkeypatch.undo()
    assert_same(database, one)


@pytest.mark.slow
def test_what_parts_expected_does_not_outlast_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last third has texts where numbers should be, which the page reader leaves to SQLite."""
    monkeypatch.setattr(parallel_ingest, "_MOST_ROWS", ROWS)
    ranges = [
        made_nsys.nvtx(
            59,
            start=10 * i,
            end=None if i == 4500 else 10 * i + 5,
            domainId=1,
            endGlobalTid="many" if i > ROWS * 2 // 3 and i % 20 else None,
        )
        for i in range(ROWS)
    ]
    ranges.append(made_nsys.nvtx(75, start=10 * ROWS, end=None, text="late", domainId=1))
    tables = {"StringIds": made_nsys.strings(), made_nsys.NVTX: ranges}
    database = ingested(made_nsys.write(tmp_path / "f.sqlite", tables), tmp_path / "parts")
    assert cut_tables(database) == set()
    assert_same(database, whole(tmp_path / "f.sqlite", tmp_path / "whole"))
    found = rows(database, "annotation")
    assert {row[11] for row in found} == {"late"}
    assert max(row[5] for row in found if row[6]) == 10 * ROWS


def test_damage_is_reported_as_by_one_process(tmp_path: Path) -> None:
    path = export(tmp_path / "f.sqlite")
    image = bytearray(path.read_bytes())
    for page in range(4096 * (len(image) // 8192), len(image), 4096):
        image[page] = 7
    path.write_bytes(image)
    said = []
    for read in (ingested, whole):
        with pytest.raises(InputError) as raised:
            read(path, tmp_path / "db")
        said.append(str(raised.value))
    assert said[0] == said[1]
    assert "damaged" in said[0]
    assert not (tmp_path / "db").exists() or not list((tmp_path / "db").rglob("*.parquet"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("variable", "value"), [("TBD_TRACE_THREADS", "1"), ("TBD_TRACE_MEMORY_LIMIT", "300MB")]
)
def test_a_bounded_ingest_is_by_one_process(
    *,
    variable: str,
    value: str,
    made_by_one: tuple[Path, Database],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    called: list[str],
) -> None:
    monkeypatch.setenv(variable, value)
    assert cut_tables(ingested(made_by_one[0], tmp_path)) == set()
    assert called == []


@pytest.mark.slow
def test_a_damaged_part_is_reported(made_by_one: tuple[Path, Database], tmp_path: Path) -> None:
    database = ingested(made_by_one[0], tmp_path)
    (trace_id,) = database.trace_ids()
    file = table_files(database.traces_directory / trace_id, "kernel")[1]
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(Exception, match="ingest the profile again"):
        execute(database, Catalogue().get("kernel_summary"))


def test_ctrl_c_ends_the_helpers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Worker] = []
    original = Worker.__init__

    def noted(worker: Worker) -> None:
        original(worker)
        started.append(worker)

    def interrupted(_work: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Worker, "__init__", noted)
    monkeypatch.setattr(worker_pool, "_here", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ingested(export(tmp_path / "f.sqlite"), tmp_path / "db")
    (worker,) = started
    assert worker._process.returncode == -9
    assert list((tmp_path / "db").iterdir()) == []


def test_all_helpers_start_before_there_are_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[int] = []
    original = Worker.__init__

    def noted(worker: Worker) -> None:
        threads.append(threading.active_count())
        original(worker)

    monkeypatch.setattr(Worker, "__init__", noted)
    monkeypatch.setattr(worker_pool, "processes", lambda: 4)
    works = {number: partial(abs, -number) for number in range(20)}
    with worker_pool.WorkerPool() as four:
        four.start_workers(partial(abs, 1))
        four.start_workers(partial(abs, 1))
        assert four.run(works) == {number: number for number in works}
    assert threads == [threads[0]] * 3
