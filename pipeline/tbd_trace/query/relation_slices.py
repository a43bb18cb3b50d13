"""Compute a derived relation from slices of a canonical table, within bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import duckdb

from tbd_trace.query.header import Query
from tbd_trace.sqltext import identifier

_SLICE_ROWS = 6_000_000  # sorting them fits in the 700 MB of ``relation_cache``


def create_in_slices(connection: duckdb.DuckDBPyConnection, relation: Query) -> None:
    """Compute a relation as a table, one slice of its canonical table at a time.

    Sorting a slice fits in memory; sorting all rows spills to disk and takes twice the time.
    """
    name, table = identifier(relation.name), relation.slices
    whole, key = f"whole_{table}", f"{table}_id"
    connection.execute(f"ALTER VIEW {table} RENAME TO {whole}")
    try:
        into = f"CREATE OR REPLACE TABLE {name} AS"
        for first, last in _slices(connection, whole, key):
            rows = f"FROM {whole} WHERE {key} BETWEEN {first} AND {last}"
            connection.execute(f"CREATE OR REPLACE VIEW {table} AS {rows}")
            connection.execute(f"{into} {relation.sql}")
            into = f"INSERT INTO {name}"
    finally:
        connection.execute(f"DROP VIEW IF EXISTS {table}")
        connection.execute(f"ALTER VIEW {whole} RENAME TO {table}")


def _slices(
    connection: duckdb.DuckDBPyConnection, table: str, key: str
) -> Iterator[tuple[int, int]]:
    # An empty table is one slice.
    ((first, last, rows),) = connection.execute(
        f"SELECT coalesce(min({key}), 0), coalesce(max({key}), 0), count(*) FROM {table}"
    ).fetchall()
    count = max(-(-rows // _SLICE_ROWS), 1)
    starts = [first + (last + 1 - first) * number // count for number in range(count + 1)]
    for start, following in pairwise(starts):
        yield start, following - 1
