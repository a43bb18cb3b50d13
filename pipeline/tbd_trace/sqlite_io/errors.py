"""Errors of the page reader and of SQLite."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

from tbd_trace.sqlite_io.header import LONGEST_RECORD, damage_message

# sqlite3 raises UnicodeDecodeError for an error message with a damaged table name in it.
SQLITE_ERRORS = (sqlite3.DatabaseError, UnicodeDecodeError)

_DENIED = re.compile("not authorized( to use function: .+)?|access to .+ is prohibited")
_NO_SPACE = ("database or disk is full", "disk I/O error")  # SQLite sorts in temporary files
_TOO_LONG = "string or blob too big"


class UnsupportedLayout(Exception):
    """The page reader cannot read a file, table or page; SQLite has to.

    Any function of the page reader raises it for unusual or damaged data.
    """


def error_message(path: Path, error: Exception) -> str:
    """Return the message for a file that SQLite cannot read: the fault, and the remedy."""
    reason = _reason(error)
    if reason in _NO_SPACE:
        return f"{path}: cannot be read ({reason}); free space for temporary files (TMPDIR)"
    if reason == _TOO_LONG:
        reason = f"a value of more than {LONGEST_RECORD >> 20} MiB"
    return damage_message(path, reason)


def is_denied(error: Exception) -> bool:
    """Return True if the authorizer of the connection denied the statement."""
    return _DENIED.fullmatch(_reason(error)) is not None


def _reason(error: Exception) -> str:
    # SQLAlchemy wraps SQLite's error in its own.
    return str(getattr(error, "orig", None) or error).splitlines()[0]
