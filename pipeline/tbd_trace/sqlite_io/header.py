"""Whether all of a SQLite database is in its file, from its header and the files beside it."""

from __future__ import annotations

import os
import struct
from pathlib import Path

from tbd_trace.errors import InputError
from tbd_trace.sqlite_io.wal import holds_changes

SQLITE_MAGIC = b"SQLite format 3\x00"
_HEADER_BYTES = 100


def check_complete(path: Path) -> None:
    """Make sure that a database is not cut short and has no changes waiting in another file.

    Raises:
        InputError: it is or has, or the file cannot be read.
    """
    for suffix in ("-wal", "-journal"):
        companion = path.with_name(path.name + suffix)
        if _is_in_use(path, companion):
            raise InputError(
                f"{path}: some of it is still in {companion.name}: a program is writing it or was "
                "interrupted; end that program, or open and close the file once with sqlite3"
            )
    try:
        with path.open("rb") as file:
            expected = _expected_size(file.read(_HEADER_BYTES))
            size = os.fstat(file.fileno()).st_size
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    if size < expected:
        raise InputError(damaged(path, f"{size:,} of {expected:,} bytes"))


def damaged(path: Path, reason: str) -> str:
    """Return what to tell the user about a damaged file."""
    return (
        f"{path}: damaged or incomplete SQLite file ({reason}); "
        "copy it again, or export the report again "
        "(`nsys export --type sqlite --force-overwrite true REPORT`)"
    )


def _is_in_use(path: Path, journal: Path) -> bool:
    """Tell whether a journal holds changes: SQLite zeroes, empties or deletes a finished one."""
    try:
        if journal.name.endswith("-wal"):
            return holds_changes(path, journal)
        with journal.open("rb") as file:
            return file.read(1) not in (b"", b"\x00")
    except OSError:
        return False


def _expected_size(head: bytes) -> int:
    """Return the bytes that a database's header promises, 0 if it promises nothing."""
    if len(head) < _HEADER_BYTES or not head.startswith(SQLITE_MAGIC):
        return 0
    (page_size,) = struct.unpack_from(">H", head, 16)
    change, pages = struct.unpack_from(">II", head, 24)
    (valid_for,) = struct.unpack_from(">I", head, 92)
    return pages * (65_536 if page_size == 1 else page_size) if change == valid_for else 0
