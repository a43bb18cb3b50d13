"""Ctrl-C while DuckDB is at work."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

import duckdb

_INTERRUPTED = re.compile(r"Query interrupted|^INTERRUPT Error|\bKeyboardInterrupt\b")


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Let Ctrl-C come out of DuckDB as what it is.

    DuckDB reports it as an error of its own, or of the Python stream that it was reading.

    Raises:
        KeyboardInterrupt: the user pressed Ctrl-C.
    """
    try:
        yield
    except (duckdb.Error, RuntimeError) as error:
        if _INTERRUPTED.search(str(error)):
            raise KeyboardInterrupt from None
        raise
