"""Reading the same table with both readers of SQLite files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from tbd_trace.errors import InputError
from tbd_trace.sqlite_io import tables
from tbd_trace.sqlite_io.sqlite_file import READER_VARIABLE, SqliteFile


@contextmanager
def reader(name: str) -> Iterator[None]:
    before = os.environ.get(READER_VARIABLE)
    os.environ[READER_VARIABLE] = name
    try:
        yield
    finally:
        if before is None:
            del os.environ[READER_VARIABLE]
        else:
            os.environ[READER_VARIABLE] = before


def read(
    path: Path,
    table: str,
    columns: Mapping[str, pa.DataType],
    rowid: str | None = None,
    not_integer: str | None = None,
) -> pa.Table:
    with SqliteFile(path) as file:
        batches = file.batches(table, columns, rowid=rowid, not_integer=not_integer)
        return batches.read_all().combine_chunks()


def outcome(
    path: Path, table: str, columns: Mapping[str, pa.DataType], rowid: str | None = None
) -> pa.Table | str:
    try:
        return read(path, table, columns, rowid)
    except (InputError, pa.ArrowException) as error:
        return type(error).__name__


def both(
    path: Path,
    table: str,
    columns: Mapping[str, pa.DataType],
    rowid: str | None = None,
    not_integer: str | None = None,
) -> tuple[pa.Table, pa.Table]:
    """Return what the page reader and what SQLite gives."""
    with reader("pages"):
        pages = read(path, table, columns, rowid, not_integer)
    with reader("sqlalchemy"):
        return pages, read(path, table, columns, rowid, not_integer)


class Reasons:
    """Records why and whether tables were left to SQLite, by watching the page reader."""

    def __init__(self) -> None:
        self.yielded = 0

    def watch(self, stream: Callable[..., Iterator[pa.RecordBatch]]) -> Callable[..., object]:
        def watched(*arguments: object) -> Iterator[pa.RecordBatch]:
            for batch in stream(*arguments):
                self.yielded += batch.num_rows
                yield batch

        return watched


@contextmanager
def watching() -> Iterator[Reasons]:
    """Count the rows that come from pages."""
    reasons = Reasons()
    original = tables.stream
    tables.stream = reasons.watch(original)  # type: ignore[assignment]
    try:
        yield reasons
    finally:
        tables.stream = original
