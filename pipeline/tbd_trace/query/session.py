"""Running a query over some traces.

Every run has an in-memory DuckDB connection of its own, in which the canonical tables are views of
the selected traces' Parquet files, the data tables are views of their CSV files, and the derived
relations that the query builds on are computed once, in order.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import polars as pl

from tbd_trace import resources
from tbd_trace.errors import CannotAnswerError, UsageError
from tbd_trace.query.advice import how_to_collect
from tbd_trace.query.catalogue import derive_relations, names_used, required_relations
from tbd_trace.query.header import Param, Query, Scalar
from tbd_trace.schema import canonical_tables
from tbd_trace.sqltext import csv_relation, identifier, literal

if TYPE_CHECKING:
    from tbd_trace.store.database import Database

_READING = {
    duckdb.StatementType.SELECT,
    duckdb.StatementType.EXPLAIN,
    duckdb.StatementType.PRAGMA,
    duckdb.StatementType.SET,
}
_EXPLAIN_ANALYZE = re.compile(r"^\s*EXPLAIN\s+(ANALYZE|\([^)]*ANALYZE[^)]*\))", re.IGNORECASE)


# DuckDB runs an ASOF join whose left side it believes to be small as a nested loop; behind filters
# its estimate is often one row where there are a million.
_SORTED_ASOF = "SET asof_loop_join_threshold = 0"

# The traces that a question is about, and what they lack: a metric run of a capture that has a
# timeline, too, only lends its counters to it.
_ASKED = """
    SELECT t.name, t.tool, t.kind,
        list_filter(t.lacks, lambda x: NOT coalesce(list_contains(flatten(list(l.holds)), x), false))
    FROM trace t LEFT JOIN trace l ON l.capture_id = t.capture_id AND l.kind = 'metrics'
    WHERE t.kind <> 'metrics' OR NOT EXISTS (
        SELECT 1 FROM trace m WHERE m.capture_id = t.capture_id AND m.kind = 'timeline')
    GROUP BY t.trace_id, t.name, t.tool, t.kind, t.lacks
    ORDER BY t.name, t.trace_id
"""


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The answer to a query.

    Attributes:
        query: the query that was run.
        frame: the rows.
        notes: sentences that a reader of the numbers should know.
        parameters: the parameters that were set.
    """

    query: Query
    frame: pl.DataFrame
    notes: list[str] = field(default_factory=list)
    parameters: dict[str, Scalar] = field(default_factory=dict)


def connect(
    database: Database, trace_ids: Sequence[str] | None = None
) -> duckdb.DuckDBPyConnection:
    """Return a connection that sees the traces: canonical tables, data tables, derived relations.

    Args:
        database: the database.
        trace_ids: the traces to see; None means all.

    Derived relations are made by :func:`prepare`, or when :func:`execute_reading` meets them.
    """
    # By default DuckDB would spill into the working directory.
    spill = Path(tempfile.gettempdir()) / f"tbd-trace-{os.getpid()}"
    connection = duckdb.connect(config={"temp_directory": str(spill)})
    connection.execute(_SORTED_ASOF)
    for table in canonical_tables():
        relation = database.relation(table, _ids(database, trace_ids))
        connection.execute(f"CREATE TEMP VIEW {table} AS {relation}")
    for file in sorted(resources.data().glob("*.csv")):
        connection.execute(f"CREATE TEMP VIEW {identifier(file.stem)} AS {csv_relation(file)}")
    return connection


def prepare(connection: duckdb.DuckDBPyConnection, names: Iterable[str]) -> None:
    """Compute the derived relations among ``names``, and what they build on, where not yet done.

    They become temporary tables: views that stand on views many levels deep take DuckDB longer to
    bind than to compute.
    """
    there = {
        row[0] for row in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()
    }
    for relation in required_relations(names):
        if relation.name not in there:
            connection.execute(f"CREATE TEMP TABLE {relation.name} AS {relation.sql}")


def run(
    database: Database,
    query: Query,
    trace_ids: Sequence[str] | None = None,
    parameters: Mapping[str, str] | None = None,
) -> QueryResult:
    """Run a query over some traces.

    Args:
        database: the database.
        query: the query.
        trace_ids: the traces to ask; None means all.
        parameters: values for the query's parameters and for those of the relations it builds on.

    Raises:
        CannotAnswerError: none of the traces holds what the query needs.
        UsageError: a parameter is unknown or its value not allowed, or the SQL is wrong.
    """
    selected = _ids(database, trace_ids)
    relations = required_relations(_relation_names(query))
    values = _parameter_values(query, relations, parameters or {})
    with connect(database, selected) as connection:
        notes = _check_needs(connection, query, relations)
        for name, value in values.items():
            connection.execute(f"SET VARIABLE {identifier(name)} = {literal(value)}")
        prepare(connection, [relation.name for relation in relations])
        _check_derived(connection, query)
        frame = _fetch(connection, query)
    return QueryResult(query, frame, notes, values)


def script(query: Query, parameters: Mapping[str, str] | None = None) -> str:
    """Return a query as a SQL script that runs pasted into a DuckDB shell on the database.

    Args:
        query: the query.
        parameters: as in :func:`run`.

    Raises:
        UsageError: a parameter is unknown or its value not allowed.
    """
    relations = required_relations(_relation_names(query))
    values = _parameter_values(query, relations, parameters or {})
    statements = [_SORTED_ASOF]
    statements += [
        f"SET VARIABLE {identifier(name)} = {literal(value)}" for name, value in values.items()
    ]
    statements += [
        f"CREATE OR REPLACE TEMP TABLE {relation.name} AS\n{relation.sql}" for relation in relations
    ]
    return ";\n\n".join([*statements, query.sql]) + ";\n"


def sql(database: Database, statement: str, trace_ids: Sequence[str] | None = None) -> pl.DataFrame:
    """Run one reading SQL statement over some traces.

    Raises:
        UsageError: the statement is wrong, or would write.
    """
    with connect(database, trace_ids) as connection:
        return execute_reading(connection, statement)


def execute_reading(connection: duckdb.DuckDBPyConnection, statement: str) -> pl.DataFrame:
    """Run the statements of a text, all of which must only read; return the last one's rows.

    The derived relations that it names are computed first.

    Raises:
        UsageError: a statement is wrong, or would write.
    """
    try:
        statements = connection.extract_statements(statement)
        if not statements:
            raise UsageError("no SQL statement given")
        if not all(_only_reads(parsed) for parsed in statements):
            raise UsageError("only statements that read are run here; profiles are evidence")
        prepare(connection, names_used(statement))
        for parsed in statements[:-1]:
            connection.execute(parsed).fetchall()
        relation = connection.sql(statements[-1].query)
        frame: pl.DataFrame = pl.DataFrame() if relation is None else relation.pl()
    except duckdb.Error as error:
        raise UsageError(f"SQL: {error}") from error
    return frame


def _only_reads(statement: duckdb.Statement) -> bool:
    # EXPLAIN ANALYZE runs what it explains, which may be a COPY.
    return statement.type in _READING and not _EXPLAIN_ANALYZE.match(statement.query)


def _ids(database: Database, trace_ids: Sequence[str] | None) -> list[str]:
    return database.trace_ids() if trace_ids is None else list(trace_ids)


def _relation_names(query: Query) -> set[str]:
    """Return what a query may refer to: by its header, or by its text if it has none."""
    declared = {*query.needs, *query.optional}
    return declared or names_used(query.sql)


def _parameter_values(
    query: Query, relations: Iterable[Query], given: Mapping[str, str]
) -> dict[str, Scalar]:
    known: dict[str, Param] = {}
    for source in [*relations, query]:
        known |= source.params
    for name in given:
        if name not in known:
            names = ", ".join(sorted(known)) or "it has none"
            raise UsageError(f"{query.name} has no parameter {name!r} (parameters: {names})")
    return {name: _typed(name, known[name], text) for name, text in given.items()}


def _typed(name: str, param: Param, text: str) -> Scalar:
    """Return a parameter's text as a value of the type of its default.

    Raises:
        UsageError: the text is no such value, or not among the choices.
    """
    kind = type(param.default)
    try:
        value: Scalar = _boolean(text) if kind is bool else kind(text)
    except ValueError:
        raise UsageError(f"{name}={text}: expected a {kind.__name__}") from None
    if param.choices and value not in param.choices:
        allowed = ", ".join(str(choice) for choice in param.choices)
        raise UsageError(f"{name}={text}: not among {allowed}")
    return value


def _boolean(text: str) -> bool:
    words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    if text.lower() not in words:
        raise ValueError(text)
    return words[text.lower()]


def _check_needs(
    connection: duckdb.DuckDBPyConnection, query: Query, relations: Sequence[Query]
) -> list[str]:
    """Tell which traces lack a canonical table that the query needs.

    Raises:
        CannotAnswerError: every trace lacks one.
    """
    needed = {name for name in query.needs if name in canonical_tables() and name != "trace"}
    rows = connection.execute(_ASKED).fetchall()
    if not rows:
        raise CannotAnswerError(f"{query.name}: no trace to ask; ingest one first")
    notes = []
    for name, tool, kind, lacks in rows:
        missing = sorted(needed & set(lacks))
        if missing:
            notes.append(f"{name}: {query.name} {how_to_collect(missing[0], tool, kind)}")
    if len(notes) == len(rows):
        raise CannotAnswerError("; ".join(dict.fromkeys(notes)))
    return notes


def _check_derived(connection: duckdb.DuckDBPyConnection, query: Query) -> None:
    """Make sure that the derived relations that the query needs have rows.

    Raises:
        CannotAnswerError: one has none in any of the traces.
    """
    derived = {relation.name for relation in derive_relations()}
    for need in query.needs:
        if need not in derived:
            continue
        if not connection.execute(f"SELECT 1 FROM {need} LIMIT 1").fetchall():
            rows = connection.execute("SELECT DISTINCT tool, kind FROM trace").fetchall()
            tool, kind = rows[0] if len(rows) == 1 else ("", "")
            raise CannotAnswerError(f"{query.name} {how_to_collect(need, tool, kind)}")


def _fetch(connection: duckdb.DuckDBPyConnection, query: Query) -> pl.DataFrame:
    try:
        frame: pl.DataFrame = connection.sql(query.sql).pl()
    except duckdb.Error as error:
        raise UsageError(f"{query.path.name}: {error}") from error
    return frame
