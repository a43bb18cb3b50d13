"""Write-ahead logs: what is in the database already, and what is not."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tbd_trace.errors import InputError
from tbd_trace.sqlite_io import SqliteFile
from tbd_trace.sqlite_io.wal import holds_changes


def killed(folder: Path, steps: list[str]) -> tuple[Path, int]:
    """Return a copy of a database and its log as a killed program leaves them, and its rows.

    Args:
        folder: where to make them.
        steps: ``insert`` (a hundred rows), ``checkpoint`` or ``rollback``.
    """
    path = folder / "a.sqlite"
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("CREATE TABLE t (x, y)")
    writer.execute("PRAGMA journal_mode = wal")
    writer.execute("PRAGMA wal_autocheckpoint = 0")
    for step in steps:
        if step == "checkpoint":
            writer.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
            continue
        writer.execute("PRAGMA cache_size = 1")  # pages go to the log before the end
        writer.execute("BEGIN")
        writer.executemany("INSERT INTO t VALUES (?, ?)", [(i, "x" * 300) for i in range(100)])
        writer.execute("ROLLBACK" if step == "rollback" else "COMMIT")
    ((rows,),) = writer.execute("SELECT count(*) FROM t").fetchall()
    copy = Path(shutil.copy(path, folder / "b.sqlite"))
    log = path.with_name("a.sqlite-wal")
    if log.exists():
        shutil.copy(log, folder / "b.sqlite-wal")
    writer.close()
    return copy, rows


def rows_without_log(path: Path) -> int | None:
    """Return the rows that a reader sees who leaves the log alone."""
    reader = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    try:
        return int(reader.execute("SELECT count(*) FROM t").fetchall()[0][0])
    except sqlite3.DatabaseError:
        return None
    finally:
        reader.close()


@pytest.mark.slow
@given(st.lists(st.sampled_from(["insert", "checkpoint", "rollback"]), max_size=6))
def test_a_log_holds_changes_if_rows_are_missing_without_it(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str]
) -> None:
    path, rows = killed(tmp_path_factory.mktemp("wal"), steps)
    log = path.with_name("b.sqlite-wal")
    is_complete = rows_without_log(path) == rows
    assert (log.exists() and holds_changes(path, log)) == (not is_complete)
    if is_complete:
        with SqliteFile(path) as file:
            assert file.rows("SELECT count(*) FROM t") == [(rows,)]
    else:
        with pytest.raises(InputError, match=r"still in b\.sqlite-wal"):
            SqliteFile(path)


@pytest.mark.parametrize("content", [b"", bytes(32), bytes(4096)])
def test_an_empty_log_holds_nothing(tmp_path: Path, content: bytes) -> None:
    path, _ = killed(tmp_path, [])
    log = path.with_name("b.sqlite-wal")
    log.write_bytes(content)
    assert not holds_changes(path, log)


def test_what_is_no_log_may_hold_anything(tmp_path: Path) -> None:
    path, _ = killed(tmp_path, [])
    log = path.with_name("b.sqlite-wal")
    for content in (b"x", b"text" * 100):
        log.write_bytes(content)
        assert holds_changes(path, log)
