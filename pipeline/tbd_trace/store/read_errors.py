"""Translate DuckDB's read errors into StoreError."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Protocol

import duckdb

from tbd_trace.errors import StoreError
from tbd_trace.runtime.sigint import translate_interrupts

_PART = re.compile(r"([0-9a-f]{12})[/\\][\w.]+\.parquet")  # of a trace, as errors name it

# A removal deletes derived relations before they are looked for, or before they are opened.
_GONE = re.compile(
    r"No files found that match the pattern .*[/\\]derived[/\\]"
    r"|Cannot open file .*[/\\]derived[/\\].*: No such file"
)


class HasTraces(Protocol):
    """A store that names its damaged traces."""

    def damaged(self, trace_id: str, reason: str) -> StoreError:
        """Return the error that a file of a trace could not be read."""


@contextlib.contextmanager
def reading(database: HasTraces) -> Iterator[None]:
    """Translate DuckDB's errors about a store's files; other errors pass.

    Raises:
        StoreError: a trace is damaged or was removed, or memory is exhausted.
        KeyboardInterrupt: the user pressed Ctrl-C.
    """
    try:
        with translate_interrupts():
            yield
    except duckdb.OutOfMemoryException as error:
        raise StoreError(
            "this takes more memory than there may be used; raise --memory-limit, or take fewer "
            "--threads"
        ) from error
    except duckdb.Error as error:
        if _GONE.search(str(error)):
            raise StoreError(
                "another process removed traces during this query; ask again"
            ) from error
        part = _PART.search(str(error))
        if part is None:
            raise
        raise database.damaged(part[1], str(error).splitlines()[0]) from error
