"""Recognise SQLite databases by their tables."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path

from tbd_trace.errors import InputError
from tbd_trace.sqlite_io.header import SQLITE_MAGIC


def has_tables(
    path: Path,
    head: bytes,
    are_known: Callable[[Collection[str]], bool],
    is_in_head: Callable[[bytes], bool],
) -> bool:
    """Return True for a SQLite database with certain tables.

    Args:
        head: first bytes of the file.
        are_known: decides by the names of all tables.
        is_in_head: decides by ``head`` if the database is damaged. Its first page still contains
            names of tables, and the reader reports the damage.
    """
    if not head.startswith(SQLITE_MAGIC):
        return False
    from tbd_trace.sqlite_io import SqliteFile  # noqa: PLC0415 - pyarrow takes 0.2 s to import

    try:
        with SqliteFile(path) as file:
            tables = file.tables
    except InputError:
        return is_in_head(head)
    return are_known(tables)
