"""Compute derived relations whose rows a Python function returns."""

from __future__ import annotations

import hashlib
from importlib import import_module
from pathlib import Path

import duckdb

from tbd_trace.query.header import Query
from tbd_trace.sqltext import identifier


def create_table(connection: duckdb.DuckDBPyConnection, relation: Query) -> None:
    """Create the table of a relation whose inputs exist, by its SQL or its function.

    Raises:
        duckdb.Error: it cannot be computed.
    """
    name = identifier(relation.name)
    connection.execute(f"CREATE OR REPLACE TABLE {name} AS {relation.sql}")
    if not relation.computed_by:
        return
    function = getattr(import_module(relation.computed_by), relation.name)
    rows = function(connection)
    known = [identifier(column) for column in rows.columns if column in relation.columns]
    if rows.is_empty():
        return
    connection.register("computed_rows", rows)
    connection.execute(f"INSERT INTO {name} BY NAME SELECT {', '.join(known)} FROM computed_rows")
    connection.unregister("computed_rows")


def code_of(relation: Query) -> bytes:
    """Return a hash of the code that computes a relation; empty for SQL."""
    if not relation.computed_by:
        return b""
    module = import_module(relation.computed_by)
    assert module.__file__ is not None
    digest = hashlib.sha256()
    for file in sorted(Path(module.__file__).parent.glob("*.py")):
        digest.update(file.read_bytes())
    return digest.digest()
