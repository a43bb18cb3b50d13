"""Reduce the answers for parts of the traces to one, as the header of the query says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tbd_trace.query.catalogue import with_defaults
from tbd_trace.query.header import Query, Scalar
from tbd_trace.query.statements import explained, fetch_rows
from tbd_trace.runtime.duckdb_connection import scratch_connection, spill_directory
from tbd_trace.sqltext import identifier, set_variable

if TYPE_CHECKING:
    import duckdb
    import polars as pl

# The rows of all parts, in the order of trace ids, as ``reduce = "sql:FILE"`` names them.
_MAPPED = "mapped"


def changes_rows(query: Query) -> bool:
    """Return True if the reduction of a query needs all rows."""
    return query.reduce not in ("", "concat")


def reduced(
    query: Query, frames: Sequence[pl.DataFrame], values: Mapping[str, Scalar]
) -> pl.DataFrame:
    """Return the answer of a query from its answers for parts of the traces.

    Args:
        frames: at least one, in the order of trace ids.
        values: the parameters, which a reduction in SQL may read, too.

    Raises:
        UsageError: the SQL of a user's reduction is invalid.
    """
    import polars as pl  # noqa: PLC0415 - listing queries does without

    rows = frames[0] if len(frames) == 1 else pl.concat(frames)
    if not changes_rows(query):
        return rows
    with explained(query, values), scratch_connection(spill_directory()) as connection:
        for name, value in values.items():
            connection.execute(set_variable(name, value))
        connection.register("rows_of_parts", rows)
        connection.execute(f"CREATE TEMP TABLE {_MAPPED} AS FROM rows_of_parts")
        connection.unregister("rows_of_parts")
        return fetch_rows(connection, _sql(connection, query))


def _sql(connection: duckdb.DuckDBPyConnection, query: Query) -> str:
    if query.reduce != "sum":
        file = query.path.parent / query.reduce.removeprefix("sql:")
        return with_defaults(query, file.read_text(encoding="utf-8"))
    types = connection.execute(f"DESCRIBE {_MAPPED}").fetchall()
    columns = {row[0]: row[1] for row in types}
    added = {name for name, column in query.columns.items() if column.unit} & columns.keys()
    parts = [
        f"sum({identifier(name)})::{kind} AS {identifier(name)}"
        if name in added
        else identifier(name)
        for name, kind in columns.items()
    ]
    keys = ", ".join(identifier(name) for name in columns if name not in added)
    order = f" GROUP BY {keys} ORDER BY {keys}" if keys else ""
    return f"SELECT {', '.join(parts)} FROM {_MAPPED}{order}"
