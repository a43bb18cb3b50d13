"""Find a trace with the same events, which was read from a file of other bytes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from pathlib import Path

import duckdb

from tbd_trace.errors import StoreError
from tbd_trace.model.canonical_tables import CATALOGUE, canonical_tables
from tbd_trace.sqltext import parquet_relation
from tbd_trace.store.base import TraceStore
from tbd_trace.store.identified_file import IdentifiedFile
from tbd_trace.store.read_errors import reading
from tbd_trace.store.tables import table_files

# Of two processes that ingest equal events at the same time, only the later one finds the other.
_CANDIDATES = """
    SELECT old.trace_id::VARCHAR
    FROM ({traces}) AS old
    JOIN ({traces}) AS new ON new.trace_id = $trace
        AND (old.format, old.tool, old.kind) = (new.format, new.tool, new.kind)
        AND old.holds = new.holds
        AND old.tool_version IS NOT DISTINCT FROM new.tool_version
        AND old.schema_version IS NOT DISTINCT FROM new.schema_version
        AND old.export_version IS NOT DISTINCT FROM new.export_version
        AND old.start_ns IS NOT DISTINCT FROM new.start_ns
        AND old.end_ns IS NOT DISTINCT FROM new.end_ns
        AND old.capture_id IS NULL
        AND (old.ingested_at, old.trace_id) < (new.ingested_at, new.trace_id)
    WHERE len(new.holds) > 0
    ORDER BY old.ingested_at, old.trace_id"""
_TOLERANCE = 100  # files of equal events differ by less than a hundredth: by the trace id alone
_DIFFERENCE = """
    SELECT 1
    FROM (SELECT o FROM (SELECT * EXCLUDE (trace_id) FROM ({old})) AS o)
    POSITIONAL JOIN (SELECT n FROM (SELECT * EXCLUDE (trace_id) FROM ({new})) AS n)
    WHERE o IS DISTINCT FROM n
    LIMIT 1"""


def same_events(
    store: TraceStore, traces_directory: Path, identified: IdentifiedFile
) -> str | None:
    """Return an older trace with the same rows in all tables, None if there is none.

    Indexes of another tool in an export, and compression, change the bytes of a file and so its
    trace id, but not its events. Exports by several versions of a tool stay apart.
    Files of captures and jobs are never compared.

    Args:
        store: has the trace of the file.
        traces_directory: has a directory per trace of the store.
    """
    if identified.file.salt or identified.file.job:
        return None
    trace_id = identified.trace_id
    # A large table differs most likely, and many runs of one program can be alike in others.
    tables = _largest_first(traces_directory / trace_id)
    alike = list(_traces_of_same_size(store, traces_directory, trace_id, tables[0]))
    if not alike:
        return None
    try:
        with reading(store), duckdb.connect() as connection:
            traces = _CANDIDATES.format(traces=store.relation(CATALOGUE, [trace_id, *alike]))
            candidates = [
                old for (old,) in connection.execute(traces, {"trace": trace_id}).fetchall()
            ]
            return next(
                (old for old in candidates if _are_equal(connection, store, tables, old, trace_id)),
                None,
            )
    except StoreError:  # another process removed a trace, or an old one is damaged
        return None


def _traces_of_same_size(
    store: TraceStore, traces_directory: Path, trace_id: str, largest: str
) -> Iterable[str]:
    # By the largest table, so that few of many traces are opened.
    size = _size(traces_directory / trace_id, largest)
    for other in store.trace_ids():
        difference = abs(_size(traces_directory / other, largest) - size)
        if other != trace_id and difference <= size // _TOLERANCE:
            yield other


def _largest_first(directory: Path) -> list[str]:
    tables = sorted(canonical_tables().keys() - {CATALOGUE})
    return sorted(tables, key=lambda table: _size(directory, table), reverse=True)


def _size(directory: Path, table: str) -> int:
    size = 0
    for file in table_files(directory, table):
        with contextlib.suppress(OSError):  # removed
            size += file.stat().st_size
    return size


def _are_equal(
    connection: duckdb.DuckDBPyConnection,
    store: TraceStore,
    tables: Sequence[str],
    old: str,
    new: str,
) -> bool:
    for table in tables:
        rows = [parquet_relation(store.files(table, [trace_id])) for trace_id in (old, new)]
        if connection.execute(_DIFFERENCE.format(old=rows[0], new=rows[1])).fetchall():
            return False
    return True
