"""Check the path of a database, and explain why it holds none."""

from __future__ import annotations

import contextlib
from pathlib import Path
from shlex import join

import duckdb

from tbd_trace.errors import StoreError, UsageError
from tbd_trace.sqltext import parquet_relation
from tbd_trace.store.capture import is_capture
from tbd_trace.store.staging import remove_stale
from tbd_trace.store.views import is_duckdb


def check_path(path: Path, setting: str) -> None:
    """Check that a path can name a database.

    Raises:
        UsageError: it is not a file name, not valid UTF-8, or DuckDB cannot read below it.
    """
    if path.name in ("", ".."):
        raise UsageError(f"{setting} {str(path)!r}: name a file, such as tbd-trace.duckdb")
    if not _is_unicode(str(path)):
        raise UsageError(f"{setting} {str(path)!r}: its name is not valid UTF-8; use another")
    if "\\" in _absolute(path).as_posix():
        raise UsageError(f"{setting} {path}: DuckDB reads nothing below a backslash; use another")


def prepare_for_ingest(path: Path, traces_directory: Path, setting: str) -> None:
    """Check that a path is free or a DuckDB database, and remove what killed processes left.

    Raises:
        StoreError: it is another file.
    """
    if not is_duckdb(path) and path.exists():
        raise StoreError(f"{path}: exists and is not a DuckDB database; choose another {setting}")
    remove_stale(traces_directory)


def why_missing(path: Path, traces_directory: Path, setting: str) -> str:
    """Return the problem and the action, as a sentence.

    Args:
        path: the ``.duckdb`` file.
        traces_directory: the directory of traces in the current layout.
        setting: the option or variable that chose the path.
    """
    beside = traces_directory.parent
    layouts = sorted(entry.name for entry in beside.glob("v*") if entry != traces_directory)
    if layouts:
        return (
            f"{path} was made by another version of tbd-trace (layout {layouts[-1]}, this one "
            f"reads {traces_directory.name}); rebuild it with "
            f"`tbd-trace ingest --db {path} {_profiles(beside / layouts[-1])}`"
        )
    if is_duckdb(path):
        return (
            f"{path} has no traces: {traces_directory} belongs beside it; copy that too, or "
            "ingest the profiles again"
        )
    if path.exists():
        return f"{path} is not a database of traces; name another with {setting}"
    return (
        f"there is no database {path}; "
        "make one with `tbd-trace ingest FILE…`, or name a profiler file"
    )


def _profiles(directory: Path) -> str:
    # The profiles of an old database, as arguments of a command line.
    files = sorted(directory.glob("*/trace.parquet"))
    if not files:
        return "FILE…"
    with contextlib.suppress(duckdb.Error), duckdb.connect() as connection:
        rows = connection.execute(
            f"SELECT DISTINCT path FROM ({parquet_relation(files)}) WHERE path IS NOT NULL "
            "ORDER BY path"
        ).fetchall()
        profiles = [Path(path) for (path,) in rows]
        named = (file.parent if is_capture(file.parent) else file for file in profiles)
        return join(dict.fromkeys(map(str, named)))
    return "FILE…"


def _absolute(path: Path) -> Path:
    try:
        return path.absolute()
    except OSError:  # the working directory is gone
        return path


def _is_unicode(text: str) -> bool:
    # File names can hold bytes that are not UTF-8.
    with contextlib.suppress(UnicodeEncodeError):
        text.encode()
        return True
    return False
