"""Yield the rows of large answers in batches, so that they need not fit the memory together."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Generator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import duckdb

from tbd_trace.query.connection import LARGE_ROWS, is_shipped
from tbd_trace.query.header import Query
from tbd_trace.query.relation_cache import RelationCache
from tbd_trace.query.statements import (
    FIRST_ROW,
    LAST_ROW,
    connected_for_sql,
    fetch_rows,
    last_relation,
)
from tbd_trace.runtime.result_frames import frames
from tbd_trace.runtime.sigint import interruptible
from tbd_trace.sqltext import set_variable

if TYPE_CHECKING:
    import polars as pl

    from tbd_trace.store.base import TraceStore

PAGE_ROWS = 200_000  # 0.2 GB of nvtx_kernels, whose rows are the longest
_PREFETCHED = 2  # batches that are computed before the first is written


def query_batches(
    connection: duckdb.DuckDBPyConnection, query: Query, cache: RelationCache
) -> Generator[pl.DataFrame]:
    """Yield the rows of a query whose relations are prepared."""
    # A query that reads the variables first_row and last_row is run once per page.
    has_pages = is_shipped(query) and f"getvariable('{FIRST_ROW}')" in query.sql
    if has_pages and cache.rows(connection) >= LARGE_ROWS:
        yield from _pages(connection, query, cache)
    else:
        yield from batches(connection, query.sql, cache)


def sql_batches(
    database: TraceStore, statement: str, trace_ids: Sequence[str] | None = None
) -> Generator[pl.DataFrame]:
    """Run one reading SQL statement, and yield its rows in batches; errors as in ``sql``."""
    with connected_for_sql(database, statement, trace_ids) as (connection, cache):
        yield from batches(connection, statement, cache)


def batches(
    connection: duckdb.DuckDBPyConnection, text: str, cache: RelationCache
) -> Generator[pl.DataFrame]:
    """Yield the rows of statements: one batch for small traces, several for large ones."""
    if cache.rows(connection) < LARGE_ROWS:
        yield from _caching([fetch_rows(connection, text)], connection, cache)
    else:
        yield from _caching(frames(last_relation(connection, text)), connection, cache)


def _caching(
    batch_frames: Iterable[pl.DataFrame],
    connection: duckdb.DuckDBPyConnection,
    cache: RelationCache,
) -> Generator[pl.DataFrame]:
    if not cache.puts_off:
        yield from batch_frames
        return
    coming = iter(batch_frames)
    ahead = deque(itertools.islice(coming, _PREFETCHED))
    for batch in coming:
        yield ahead.popleft()
        ahead.append(batch)
    # On its own connection: the caller asks more on the other one, such as why there are no rows.
    with (
        connection.cursor() as own,
        interruptible(own),
        ThreadPoolExecutor(1) as executor,
    ):
        caching = executor.submit(cache.keep_rest, own)
        yield from ahead
        caching.result()


def _pages(
    connection: duckdb.DuckDBPyConnection, query: Query, cache: RelationCache
) -> Generator[pl.DataFrame]:
    with cache.bounded(connection):
        for first in itertools.count(1, PAGE_ROWS):
            connection.execute(set_variable(FIRST_ROW, first))
            connection.execute(set_variable(LAST_ROW, first + PAGE_ROWS - 1))
            rows = fetch_rows(connection, query.sql)
            yield rows
            if rows.height < PAGE_ROWS:
                return
