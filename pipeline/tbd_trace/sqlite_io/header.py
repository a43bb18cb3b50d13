"""Check the database header and the journals of a SQLite file."""

from __future__ import annotations

import os
import struct
from pathlib import Path

from tbd_trace.errors import InputError
from tbd_trace.sqlite_io.wal import holds_changes

SQLITE_MAGIC = b"SQLite format 3\x00"
LONGEST_RECORD = 1 << 28
"""Longest row that is read, in bytes. SQLite allows 2³¹ - 1; profilers write a few kilobytes."""

_HEADER_BYTES = 100


def check_complete(path: Path) -> None:
    """Check that a database file is not truncated and that no journal holds changes to it.

    Raises:
        InputError: the file is truncated, being written, or unreadable.
    """
    for suffix in ("-wal", "-journal"):
        journal = path.with_name(path.name + suffix)
        if _holds_changes(path, journal):
            raise InputError(
                f"{path}: some of its data is still in {journal.name}; end the program that "
                "writes it, or open and close the file once with sqlite3"
            )
    try:
        with path.open("rb") as file:
            expected = _expected_size(file.read(_HEADER_BYTES))
            size = os.fstat(file.fileno()).st_size
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    if size < expected:
        raise InputError(damage_message(path, f"{size:,} of {expected:,} bytes"))


def damage_message(path: Path, reason: str) -> str:
    """Return the error message for a damaged file."""
    return (
        f"{path}: damaged or incomplete SQLite file ({reason}); "
        "copy it again, or export the report again "
        "(`nsys export --type sqlite --force-overwrite true REPORT`)"
    )


def _holds_changes(path: Path, journal: Path) -> bool:
    try:
        if journal.name.endswith("-wal"):
            return holds_changes(path, journal)
        with journal.open("rb") as file:
            # A finished rollback journal is deleted, truncated or has a zeroed header, depending
            # on PRAGMA journal_mode (https://www.sqlite.org/fileformat2.html, section 3).
            return file.read(1) not in (b"", b"\x00")
    except OSError:
        return False


def _expected_size(head: bytes) -> int:
    if len(head) < _HEADER_BYTES or not head.startswith(SQLITE_MAGIC):
        return 0
    (page_size,) = struct.unpack_from(">H", head, 16)
    change_counter, pages = struct.unpack_from(">II", head, 24)
    (version_valid_for,) = struct.unpack_from(">I", head, 92)
    # The page count is valid only if both counters agree (fileformat2, section 1.3.7). SQLite
    # before 3.7.0 did not write it.
    if change_counter != version_valid_for:
        return 0
    # The two-byte field stores a page size of 65,536 as 1 (section 1.3.2).
    return int(pages * (65_536 if page_size == 1 else page_size))
