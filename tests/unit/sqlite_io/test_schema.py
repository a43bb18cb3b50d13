"""SQLite files of strangers: no code of the file runs while its tables are read."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from tbd_trace.errors import InputError
from tbd_trace.sqlite_io import SqliteFile
from tbd_trace.sqlite_io.schema import Schema

ENDLESS = "WITH RECURSIVE r(a) AS (SELECT 1 UNION ALL SELECT a + 1 FROM r) SELECT a FROM r"
COMPUTED = {
    "endless view": [f"CREATE VIEW bad AS {ENDLESS}"],
    "view of an endless view": [
        f"CREATE VIEW inside AS {ENDLESS}",
        "CREATE VIEW bad AS SELECT a FROM inside",
    ],
    "large values": ["CREATE VIEW bad AS SELECT hex(zeroblob(400000000)) AS a FROM good"],
    "virtual table": ["CREATE VIRTUAL TABLE bad USING fts4(a)"],
    "generated column": [
        "CREATE TABLE bad (b, a AS (hex(zeroblob(b))))",
        "INSERT INTO bad VALUES (400000000)",
    ],
    "stored generated column": ["CREATE TABLE bad (b, a AS (b + 1) STORED)"],
}
# Rows of a table are counted without its generated columns.
COUNTED = ("endless view", "view of an endless view", "large values")
READS: dict[str, Callable[[SqliteFile], object]] = {
    "batches": lambda file: list(file.batches("bad", {"a": pa.int64()})),
    "rows": lambda file: file.rows("SELECT max(a) FROM bad"),
    "subquery": lambda file: file.rows("SELECT * FROM good WHERE a IN (SELECT a FROM bad)"),
}


def written(path: Path, statements: list[str]) -> Path:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE good (a)")
        connection.execute("INSERT INTO good VALUES (7)")
        for statement in statements:
            connection.execute(statement)
    connection.close()
    return path


@pytest.fixture(scope="module")
def computed_files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return a file of each kind; SQLite computes a generated column when its row is written."""
    return {
        kind: written(tmp_path_factory.mktemp("computed") / "file.sqlite", statements)
        for kind, statements in COMPUTED.items()
    }


@pytest.mark.slow
@pytest.mark.parametrize("reader", ["pages", "sqlalchemy"])
@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("kind", COMPUTED)
def test_computed_tables_are_refused_by_name_and_others_read(
    kind: str,
    read: str,
    reader: str,
    computed_files: dict[str, Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TBD_TRACE_READER", reader)
    with SqliteFile(computed_files[kind]) as file:
        (batch,) = file.batches("good", {"a": pa.int64()})
        assert batch.column("a").to_pylist() == [7]
        with pytest.raises(InputError, match=r"file\.sqlite: (bad|inside) is not an ordinary"):
            READS[read](file)


@pytest.mark.parametrize("kind", COUNTED)
def test_rows_of_views_are_not_counted(kind: str, tmp_path: Path) -> None:
    with SqliteFile(written(tmp_path / "file.sqlite", COMPUTED[kind])) as file:
        with pytest.raises(InputError, match=r"file\.sqlite: (bad|inside) is not an ordinary"):
            file.has_rows("bad")
        with pytest.raises(InputError, match=r"file\.sqlite: (bad|inside) is not an ordinary"):
            file.rows("SELECT count(*) FROM bad")


@pytest.mark.slow
@pytest.mark.parametrize("reader", ["pages", "sqlalchemy"])
def test_a_value_longer_than_any_profiler_writes(
    reader: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TBD_TRACE_READER", reader)
    long = ["CREATE TABLE bad (a)", "INSERT INTO bad VALUES (zeroblob(300000000))"]
    with (
        SqliteFile(written(tmp_path / "file.sqlite", long)) as file,
        pytest.raises(InputError, match="a value of more than 256 MiB"),
    ):
        list(file.batches("bad", {"a": pa.binary()}))


def test_a_view_without_its_table(tmp_path: Path) -> None:
    view = "CREATE VIEW bad AS SELECT a FROM absent"
    with SqliteFile(written(tmp_path / "file.sqlite", [view])) as file:
        assert file.rows("SELECT a FROM good") == [(7,)]
        with pytest.raises(InputError, match=r"no such table: main\.absent"):
            file.has_rows("bad")


def test_a_trigger_stays_idle(tmp_path: Path) -> None:
    """Files are opened read-only, and triggers run for writes only."""
    trigger = "CREATE TRIGGER t AFTER INSERT ON good BEGIN DELETE FROM good; END"
    with SqliteFile(written(tmp_path / "file.sqlite", [trigger])) as file:
        assert file.rows("SELECT a FROM good") == [(7,)]


@pytest.mark.slow
@pytest.mark.parametrize("reader", ["pages", "sqlalchemy"])
def test_a_file_of_many_tables(
    reader: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """20,000 entries of the schema refer to one empty table, which is quick to write."""
    monkeypatch.setenv("TBD_TRACE_READER", reader)
    many = [
        "CREATE TABLE bad (a)",
        "PRAGMA writable_schema = ON",
        "INSERT INTO sqlite_master WITH RECURSIVE n(i) AS"
        " (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)"
        " SELECT 'table', 't' || i, 't' || i, rootpage, 'CREATE TABLE t' || i || ' (a)'"
        " FROM n, sqlite_master WHERE name = 'bad'",
    ]
    with SqliteFile(written(tmp_path / "file.sqlite", many)) as file:
        assert len(file.tables) == 20_002
        (batch,) = file.batches("good", {"a": pa.int64()})
        assert batch.column("a").to_pylist() == [7]
        assert sum(empty.num_rows for empty in file.batches("t20000", {"a": pa.int64()})) == 0


@pytest.mark.parametrize("reader", ["pages", "sqlalchemy"])
@pytest.mark.parametrize("read", ["batches", "rows"])
def test_an_interrupt_while_sqlite_asks(
    read: str, reader: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """sqlite3 drops an exception of the authorizer and reports `not authorized`."""
    monkeypatch.setenv("TBD_TRACE_READER", reader)

    def interrupted(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(Schema, "authorize", interrupted)
    with (
        SqliteFile(written(tmp_path / "file.sqlite", COMPUTED["endless view"])) as file,
        pytest.raises(KeyboardInterrupt),
    ):
        READS[read](file)
