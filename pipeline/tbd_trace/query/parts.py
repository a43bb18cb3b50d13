"""Divide traces into parts that are asked one after another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tbd_trace.model.canonical_tables import CATALOGUE
from tbd_trace.runtime.duckdb_connection import scratch_connection, spill_directory
from tbd_trace.store.read_errors import reading

if TYPE_CHECKING:
    import duckdb

    from tbd_trace.runtime.executors import Executor
    from tbd_trace.store.base import TraceStore

# Smaller traces are asked together, which costs less than a connection for each of them.
_SMALL_BYTES = 4 << 20
_FILES_AT_ONCE = 64  # DuckDB opens all files of a statement: 1,000 take 0.2 GB


def divide(
    database: TraceStore,
    trace_ids: Sequence[str],
    executor: Executor | None = None,
    together: str = "",
) -> list[list[str]]:
    """Return the parts of some traces that are asked one after another: one part if all are small.

    Args:
        together: ``job`` keeps the ranks of a job together, too.
        executor: one that was chosen by the user; small traces are then divided, too.
    """
    if len(trace_ids) < 2 or (executor is None and _are_small(database, trace_ids)):
        return [list(trace_ids)]
    rows = f"SELECT trace_id, coalesce(capture_id, trace_id) FROM {CATALOGUE} ORDER BY trace_id"
    parts: dict[str, list[str]] = {}
    jobs = database.jobs() if together == "job" else {}
    job_of = {trace_id: f"job {job}" for job, some in jobs.items() for trace_id in some}
    with catalogue(database, trace_ids) as connection:
        for trace_id, capture in connection.execute(rows).fetchall():
            parts.setdefault(job_of.get(trace_id, capture), []).append(trace_id)
    return sorted(parts.values())


@contextmanager
def catalogue(
    database: TraceStore, trace_ids: Sequence[str]
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Connect to the table ``trace`` of some traces."""
    with reading(database), scratch_connection(spill_directory()) as connection:
        into = f"CREATE TEMP TABLE {CATALOGUE} AS"
        for first in range(0, len(trace_ids), _FILES_AT_ONCE):
            some = trace_ids[first : first + _FILES_AT_ONCE]
            connection.execute(f"{into} {database.relation(CATALOGUE, some)}")
            into = f"INSERT INTO {CATALOGUE}"
        yield connection


def _are_small(database: TraceStore, trace_ids: Iterable[str]) -> bool:
    left = _SMALL_BYTES
    for trace_id in trace_ids:
        left -= database.size_bytes(trace_id)
        if left < 0:
            return False
    return True
