"""Scratch databases: used again as if new; what killed queries leave on disk is removed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest

from corpus import ROOT
from tbd_trace.errors import InputError, UsageError
from tbd_trace.runtime import duckdb_connection
from tbd_trace.runtime.duckdb_connection import (
    prefetch,
    release,
    return_memory,
    scratch_connection,
)
from tbd_trace.runtime.settings_env import MEMORY_LIMIT, THREADS
from tbd_trace.store import Database, writer

SAMPLE = ROOT / "data" / "samples" / "synthetic_cnn"


@pytest.fixture
def idle(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    monkeypatch.setattr(duckdb_connection, "_idle", [])
    return duckdb_connection._idle


def as_it_is(connection: duckdb.DuckDBPyConnection) -> list[tuple[object, ...]]:
    """Return what somebody may have changed of a database: settings, tables, types, functions."""
    return [
        *connection.execute(
            "SELECT name, value FROM duckdb_settings() WHERE name <> 'temp_directory' ORDER BY name"
        ).fetchall(),
        *connection.execute("SELECT table_name FROM duckdb_tables() ORDER BY 1").fetchall(),
        *connection.execute("SELECT view_name FROM duckdb_views() ORDER BY 1").fetchall(),
        *connection.execute("SELECT type_name FROM duckdb_types() ORDER BY 1").fetchall(),
        *connection.execute(
            "SELECT function_name FROM duckdb_functions() WHERE NOT internal"
        ).fetchall(),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("limits", [{}, {THREADS: "1", MEMORY_LIMIT: "500MB"}])
def test_after_an_ingest_a_question_gets_its_database_as_if_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, idle: list[object], limits: dict[str, str]
) -> None:
    for variable, value in limits.items():
        monkeypatch.setenv(variable, value)
    with scratch_connection(tmp_path / "spill") as new:
        expected = as_it_is(new)
    Database(tmp_path / "x.duckdb").ingest([SAMPLE / "timeline.sqlite"])
    assert len(idle) == 1
    with scratch_connection(tmp_path / "spill") as again:
        assert not idle
        assert as_it_is(again) == expected
        where = again.execute("SELECT current_setting('temp_directory')").fetchall()
        assert where == [(str(tmp_path / "spill"),)]


def test_a_database_opened_ahead_is_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, idle: list[object]
) -> None:
    monkeypatch.setenv(THREADS, "1")
    with scratch_connection(tmp_path / "spill") as new:
        expected = as_it_is(new)
    opened: list[object] = []
    connect = duckdb.connect
    monkeypatch.setattr(duckdb, "connect", lambda **o: opened.append(o) or connect(**o))
    for _ in range(2):
        prefetch()
    with scratch_connection(tmp_path / "spill") as ahead:
        assert as_it_is(ahead) == expected
    assert len(opened) == 1
    assert not idle


def test_what_goes_wrong_ahead_is_said_when_a_database_is_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, idle: list[object]
) -> None:
    monkeypatch.setenv(MEMORY_LIMIT, "much")
    prefetch()
    with pytest.raises(UsageError, match="TBD_TRACE_MEMORY_LIMIT=much"):
        scratch_connection(tmp_path)
    assert not idle


@pytest.mark.slow
def test_several_ingests_leave_one_database(tmp_path: Path, idle: list[object]) -> None:
    for name in ("a", "b"):
        Database(tmp_path / f"{name}.duckdb").ingest([SAMPLE])
    assert len(idle) == 1


def test_a_database_is_used_eight_times(tmp_path: Path, idle: list[object]) -> None:
    """It keeps some memory of each file that it has read."""
    kept = []
    for _ in range(9):
        release(scratch_connection(tmp_path / "spill"))
        kept.append(len(idle))
    assert kept == [1, 1, 1, 1, 1, 1, 1, 0, 1]


def test_a_copy_of_a_process_takes_none_of_its_databases(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, idle: list[object]
) -> None:
    release(scratch_connection(tmp_path / "spill"))
    original = duckdb_connection.ingest_database(tmp_path, os.getpid())
    release(scratch_connection(tmp_path / "spill"))
    assert len(idle) == 1
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with (
        duckdb_connection.ingest_database(tmp_path, os.getpid()) as own,
        scratch_connection(tmp_path),
    ):
        assert own is not original
        assert len(idle) == 1
    original.close()
    duckdb_connection.ingest_database.cache_clear()


def test_a_database_takes_the_limits_of_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, idle: list[object]
) -> None:
    monkeypatch.setenv(MEMORY_LIMIT, "1GB")
    release(scratch_connection(tmp_path))
    monkeypatch.setenv(THREADS, "1")
    monkeypatch.delenv(MEMORY_LIMIT)
    with scratch_connection(tmp_path) as connection:
        assert not idle
        limited = as_it_is(connection)
    with scratch_connection(tmp_path) as connection:
        assert limited == as_it_is(connection)
    release(scratch_connection(tmp_path))
    monkeypatch.setenv(THREADS, "none")
    with pytest.raises(UsageError):
        scratch_connection(tmp_path)


@pytest.mark.slow
def test_a_database_that_has_spilled_is_not_used_again(tmp_path: Path, idle: list[object]) -> None:
    spilled = scratch_connection(tmp_path / "one")
    spilled.execute("SET threads = 1")
    spilled.execute("SET memory_limit = '40MB'")
    with spilled.cursor() as cursor:
        cursor.execute("CREATE TEMP TABLE t AS SELECT range, random() AS x FROM range(5_000_000)")
    assert list((tmp_path / "one").iterdir())
    release(spilled)
    with scratch_connection(tmp_path / "two") as connection:
        where = connection.execute("SELECT current_setting('temp_directory')").fetchall()
        assert where == [(str(tmp_path / "two"),)]


@pytest.mark.parametrize("spilled", [False, True])
def test_an_ingest_leaves_no_database_that_holds_files(
    tmp_path: Path, idle: list[object], *, spilled: bool
) -> None:
    with writer._ingest_connection(tmp_path, size=1) as connection:
        connection.execute("SET memory_limit = '40MB'")
        rows = 5_000_000 if spilled else 5
        connection.execute(f"CREATE TEMP TABLE t AS SELECT range, random() FROM range({rows})")
    assert bool(idle) != spilled


def test_an_ingest_that_fails_leaves_no_database_with_tables(
    tmp_path: Path, idle: list[Any]
) -> None:
    damaged = tmp_path / "damaged.sqlite"
    damaged.write_bytes((SAMPLE / "timeline.sqlite").read_bytes()[:60_000])
    with pytest.raises(InputError):
        Database(tmp_path / "x.duckdb").ingest([damaged])
    # A file that is refused before it is read leaves the database that was opened for it, unused.
    for _, connection in idle:
        rows = "SELECT 1 FROM duckdb_tables() UNION ALL SELECT 1 FROM duckdb_views() "
        assert connection.execute(f"{rows} WHERE NOT internal").fetchall() == []


_RESIDENT_BYTES = """
import os, sys
from pathlib import Path
from tbd_trace.runtime.duckdb_connection import return_memory, scratch_connection

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

rows = "SELECT i::VARCHAR || repeat('-', 20) FROM range(1_000_000) t(i) ORDER BY hash(i)"
with scratch_connection(Path(sys.argv[1])) as connection:
    print(resident())
    connection.execute(f"CREATE TEMP TABLE t AS {rows}")
    connection.execute("DROP TABLE t")
    print(resident())
    return_memory(connection)
    print(resident())
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_memory_of_earlier_queries_is_returned(tmp_path: Path) -> None:
    # In a process of its own: this one may hold free memory of earlier tests.
    command = [sys.executable, "-c", _RESIDENT_BYTES, str(tmp_path)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    before, after_query, after_return = map(int, printed.split())
    kept = after_query - before
    assert kept > 50e6
    assert after_return - before < kept / 2


@pytest.mark.parametrize("limit", ["380000001B", "2GB", "18.7GB"])
def test_returning_memory_keeps_its_limit(tmp_path: Path, limit: str) -> None:
    with scratch_connection(tmp_path) as connection:
        connection.execute(f"SET memory_limit = '{limit}'")
        shown = connection.execute("SELECT current_setting('memory_limit')").fetchall()
        for _ in range(20):
            return_memory(connection)
        assert connection.execute("SELECT current_setting('memory_limit')").fetchall() == shown


def test_cursors_have_the_settings_of_the_database(tmp_path: Path, idle: list[object]) -> None:
    """A plain SET reaches no cursor."""
    with scratch_connection(tmp_path / "spill") as connection, connection.cursor() as cursor:
        found = cursor.execute(
            "SELECT current_setting('asof_loop_join_threshold'), "
            "current_setting('parquet_metadata_cache')"
        ).fetchall()
    assert found == [(0, True)]
