"""Run SQL text that only reads, and translate errors about it."""

from __future__ import annotations

import contextlib
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import duckdb

from tbd_trace.errors import RenamedWarning, SqlError, UsageError
from tbd_trace.query.catalogue import names_used
from tbd_trace.query.connection import Connected, connected, is_shipped, prepare, tables_of_text
from tbd_trace.query.header import Query, Scalar
from tbd_trace.query.renamed import column_hint, resolve_old_names
from tbd_trace.runtime.result_frames import frame
from tbd_trace.runtime.sigint import interruptible
from tbd_trace.sqltext import set_variable

if TYPE_CHECKING:
    import polars as pl

    from tbd_trace.query.relation_cache import RelationCache
    from tbd_trace.store.base import TraceStore

FIRST_ROW, LAST_ROW = "first_row", "last_row"
"""DuckDB variables: the rows of its answer that a query must compute, counted from 1; NULL: all."""

_READING = {
    duckdb.StatementType.SELECT,
    duckdb.StatementType.PRAGMA,
    duckdb.StatementType.SET,
}
_SPACE = r"(?:\s|--[^\n]*\n|/\*.*?\*/)*"  # white space and comments
_EXPLAIN = re.compile(
    rf"{_SPACE}EXPLAIN{_SPACE}(?:ANALYZE\b|\([^)]*\))?(?P<explained>.*)", re.IGNORECASE | re.DOTALL
)


def sql(
    database: TraceStore, statement: str, trace_ids: Sequence[str] | None = None
) -> pl.DataFrame:
    """Run one reading SQL statement over some traces.

    Raises:
        StoreError: a trace is damaged, or was removed while it was read.
        UsageError: the statement is invalid, or would write.
    """
    with connected_for_sql(database, statement, trace_ids) as (connection, _):
        return fetch_rows(connection, statement)


@contextlib.contextmanager
def connected_for_sql(
    database: TraceStore, statement: str, trace_ids: Sequence[str] | None
) -> Iterator[Connected]:
    """Connect to traces with the relations that a statement names; errors as in :func:`sql`."""
    tables = tables_of_text(statement)
    with connected(database, trace_ids, own_sql("SQL"), tables) as (connection, cache):
        for note in resolve_old_names(names_used(statement)).notes:
            warnings.warn(note, RenamedWarning, stacklevel=2)
        prepare(connection, names_used(statement), cache, transient=True)
        yield connection, cache


def execute_reading(
    connection: duckdb.DuckDBPyConnection, statement: str, cache: RelationCache | None = None
) -> pl.DataFrame:
    """Run the statements of a text, which must only read; return the rows of the last one.

    The derived relations that the text names are computed first.

    Raises:
        UsageError: a statement is invalid, or would write.
    """
    with own_sql("SQL"), interruptible(connection):
        prepare(connection, names_used(statement), cache)
        return fetch_rows(connection, statement)


def fetch_rows(
    connection: duckdb.DuckDBPyConnection, text: str, rows: int | None = None
) -> pl.DataFrame:
    """Run statements that only read; return the first ``rows`` rows of the last one, None: all."""
    if rows is not None:
        connection.execute(set_variable(LAST_ROW, rows))
    return frame(last_relation(connection, text, rows))


def last_relation(
    connection: duckdb.DuckDBPyConnection, text: str, rows: int | None = None
) -> duckdb.DuckDBPyRelation:
    """Run all statements of a text but the last; return the last one's relation, not computed.

    Raises:
        UsageError: a statement would write, or there is none.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UsageError("SQL: not valid UTF-8") from None
    statements = connection.extract_statements(text)
    if not statements:
        raise UsageError("no SQL statement given")
    if not all(_only_reads(connection, parsed) for parsed in statements):
        raise UsageError("only statements that read are run here; profiles are evidence")
    for parsed in statements[:-1]:
        connection.execute(parsed).fetchall()
    relation: duckdb.DuckDBPyRelation | None = connection.sql(statements[-1])
    if relation is None:  # DuckDB 1 returns None for a statement without rows
        return connection.sql("SELECT true AS Success WHERE false")
    if rows is not None and statements[-1].type == duckdb.StatementType.SELECT:
        return relation.limit(rows)
    return relation


@contextlib.contextmanager
def own_sql(name: str) -> Iterator[None]:
    """Translate DuckDB's errors about a user's SQL.

    Raises:
        SqlError: DuckDB raised an error.
    """
    try:
        yield
    except duckdb.Error as error:
        raise SqlError(f"{name}: {error}{column_hint(str(error))}") from error


@contextlib.contextmanager
def explained(query: Query, values: Mapping[str, Scalar]) -> Iterator[None]:
    """Translate DuckDB's errors into errors about parameters or a user's query.

    Raises:
        UsageError: DuckDB rejects a parameter's value, or the user's SQL.
    """
    given = ", ".join(f"{name}={value}" for name, value in values.items())
    if given:
        with own_sql(f"{query.name} with {given}"):
            yield
    elif is_shipped(query):
        yield
    else:
        with own_sql(query.path.name):
            yield


def _only_reads(connection: duckdb.DuckDBPyConnection, statement: duckdb.Statement) -> bool:
    if statement.type != duckdb.StatementType.EXPLAIN:
        return statement.type in _READING
    # EXPLAIN ANALYZE runs its statement, which may be a COPY.
    match = _EXPLAIN.match(statement.query)
    inner = connection.extract_statements(match["explained"]) if match else []
    return len(inner) == 1 and inner[0].type == duckdb.StatementType.SELECT
