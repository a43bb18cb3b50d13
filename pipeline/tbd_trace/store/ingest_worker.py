"""Prepare a worker process for reading a profiler file.

The module is small because a worker imports it before anything else.
"""

from __future__ import annotations

from pathlib import Path

from tbd_trace.model.canonical_tables import event_tables
from tbd_trace.runtime.duckdb_connection import prefetch


def get_ready(path: Path) -> None:
    """Open a database and import the reader of a file, while the main process does the same."""
    prefetch()
    # Imported after the database is opened, which uses another thread.
    import_reader(path)


def import_reader(path: Path) -> None:
    """Import what reads a profiler file, and parse the canonical tables.

    Raises:
        InputError: the file is missing, unreadable or of an unsupported format.
    """
    from tbd_trace.sources.registry import identify  # noqa: PLC0415 - see `get_ready`
    from tbd_trace.store import parallel_ingest  # noqa: F401, PLC0415

    event_tables()
    identify(path)
