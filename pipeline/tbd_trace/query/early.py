"""Compute at ingest what nearly every question about a large trace reads."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from functools import cache

import duckdb

from tbd_trace import resources
from tbd_trace.query.catalogue import derived_relation
from tbd_trace.query.connection import connected, prepare
from tbd_trace.sqltext import identifier
from tbd_trace.store.base import TraceStore

# With fewer rows, a query computes them in half a second.
_LARGE = 500_000


def derive_at_ingest(database: TraceStore, trace_ids: Iterable[str]) -> None:
    """Cache the relations with ``at_ingest`` in their header, for traces of that many rows.

    Without memory or disk space for them, the first query computes them.
    """
    for trace_id in trace_ids:
        with (
            contextlib.suppress(duckdb.Error),
            connected(database, [trace_id], contextlib.nullcontext(), None) as (connection, kept),
        ):
            wanted = [
                name
                for table, names in _relations().items()
                if _rows(connection, table) >= _LARGE
                for name in names
            ]
            prepare(connection, wanted, kept)


@cache
def _relations() -> dict[str, list[str]]:
    # By the canonical table that decides.
    by_table: dict[str, list[str]] = {}
    for name, file in sorted(resources.sql_files("derive").items()):
        # Few headers have the key, and parsing all of them takes 0.1 s.
        has_key = "at_ingest" in file.read_text(encoding="utf-8")
        if has_key and (table := derived_relation(name).at_ingest):
            by_table.setdefault(table, []).append(name)
    return by_table


def _rows(connection: duckdb.DuckDBPyConnection, table: str) -> int:
    ((rows,),) = connection.execute(f"SELECT count(*) FROM {identifier(table)}").fetchall()
    return int(rows)
