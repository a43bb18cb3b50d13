"""Reading the files of a database, whatever happened to them."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import duckdb

from tbd_trace.errors import StoreError
from tbd_trace.interrupts import recognized

if TYPE_CHECKING:
    from tbd_trace.store.database import Database

_PART = re.compile(r"([0-9a-f]{12})[/\\]\w+\.parquet")  # of a trace, as errors name it


@contextlib.contextmanager
def reading(database: Database) -> Iterator[None]:
    """Explain DuckDB's errors about a database's own files; others pass.

    Raises:
        StoreError: a trace is damaged, or was removed while it was read, or memory ran out.
        KeyboardInterrupt: the user pressed Ctrl-C.
    """
    try:
        with recognized():
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
        directory = database.traces_directory / part[1]
        if not directory.is_dir():
            raise StoreError(f"trace {part[1]} was removed while it was read; ask again") from error
        reason = str(error).splitlines()[0]
        raise StoreError(
            f"{directory}: damaged ({reason}); remove this directory and ingest the profile again"
        ) from error
