"""Building single relations for tests: canonical tables, data tables, derived relations."""

from __future__ import annotations

from typing import Any

import duckdb
import polars as pl

from corpus import ROOT
from tbd_trace import resources
from tbd_trace.query import Catalogue
from tbd_trace.query.catalogue import derived_relation, read_query


def canonical(connection: duckdb.DuckDBPyConnection, *names: str) -> None:
    """Create empty canonical tables."""
    for name in names:
        connection.execute(resources.sql_files("canonical")[name].read_text())


def data(connection: duckdb.DuckDBPyConnection, *names: str) -> None:
    """Create data tables from their CSV files."""
    for name in names:
        file = ROOT / "data" / f"{name}.csv"
        connection.execute(
            f"CREATE TABLE {name} AS FROM read_csv('{file}', header = true, sample_size = -1)"
        )


def insert(connection: duckdb.DuckDBPyConnection, table: str, rows: list[dict[str, Any]]) -> None:
    """Insert rows by column name; columns left out are NULL."""
    frame = pl.DataFrame(rows, infer_schema_length=None)
    connection.register("rows_to_insert", frame)
    connection.execute(f"INSERT INTO {table} BY NAME SELECT * FROM rows_to_insert")
    connection.unregister("rows_to_insert")


def derive(connection: duckdb.DuckDBPyConnection, *names: str) -> None:
    """Create or renew derived relations, in the order given."""
    for name in names:
        sql = derived_relation(name).sql
        connection.execute(f"CREATE OR REPLACE TABLE {name} AS {sql}")


def rows(connection: duckdb.DuckDBPyConnection, statement: str) -> list[dict[str, Any]]:
    """Return the rows of a statement as dictionaries."""
    found: list[dict[str, Any]] = connection.sql(statement).pl().to_dicts()
    return found


def metric(connection: duckdb.DuckDBPyConnection, name: str) -> list[dict[str, Any]]:
    """Return the rows of a metric query."""
    return rows(connection, Catalogue().get(name).sql)


def documented_columns(kind: str, name: str) -> list[str]:
    """Return the columns that the header of a query file documents, in order."""
    return list(read_query(resources.sql_files(kind)[name]).columns)
