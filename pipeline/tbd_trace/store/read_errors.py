"""Reading the files of a database, whatever happened to them."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Protocol

import duckdb

from tbd_trace.errors import StoreError
from tbd_trace.runtime.sigint import translate_interrupts

_PART = re.compile(r"([0-9a-f]{12})[/\\][\w.]+\.parquet")  # of a trace, as errors name it


class HasTraces(Protocol):
    """A store that can name what is wrong with a trace."""

    def damaged(self, trace_id: str, reason: str) -> StoreError:
        """Return the error that a file of a trace could not be read."""


@contextlib.contextmanager
def reading(database: HasTraces) -> Iterator[None]:
    """Explain DuckDB's errors about a store's own files; others pass.

    Raises:
        StoreError: a trace is damaged, or was removed while it was read, or memory ran out.
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
        part = _PART.search(str(error))
        if part is None:
            raise
        raise database.damaged(part[1], str(error).splitlines()[0]) from error
