"""Run queries over traces."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Mapping, Sequence

import duckdb

from tbd_trace import resources
from tbd_trace.errors import CannotAnswerError, UsageError
from tbd_trace.query.catalogue import required_relations
from tbd_trace.query.connection import (
    LARGE_ROWS,
    Connected,
    connected,
    names_behind,
    prepare,
    relation_names,
    tables_behind,
)
from tbd_trace.query.header import Query, Scalar
from tbd_trace.query.needs import (
    check_derived,
    check_needs,
    check_refusal,
    check_sources,
    left_out,
)
from tbd_trace.query.pages import query_batches
from tbd_trace.query.parameters import parameter_values
from tbd_trace.query.reduction import changes_rows, reduced
from tbd_trace.query.relation_cache import RelationCache
from tbd_trace.query.renamed import resolve_old_names
from tbd_trace.query.result import Batch, Result
from tbd_trace.query.row_files import file_relations, file_statements, load_rows
from tbd_trace.query.statements import explained, fetch_rows
from tbd_trace.runtime.duckdb_connection import (
    SORTED_ASOF,
    scratch_connection,
    spill_directory,
)
from tbd_trace.runtime.sigint import interruptible
from tbd_trace.sqltext import set_variable
from tbd_trace.store.base import TraceStore


def execute(
    database: TraceStore,
    query: Query,
    trace_ids: Sequence[str] | None = None,
    parameters: Mapping[str, str] | None = None,
    rows: int | None = None,
) -> Result:
    """Run a query over some traces.

    Args:
        database: the database or archive with the traces.
        trace_ids: the traces; None means all.
        parameters: values of the query's parameters and of those of the relations it reads.
        rows: maximum number of rows to compute; None means all.

    Raises:
        CannotAnswerError: no trace holds the data that the query needs, or the result would
            mislead.
        StoreError: a trace is damaged, or was removed while it was read.
        UsageError: an unknown parameter, an invalid value or invalid SQL.
    """
    if answer := execute_on_file(query, parameters):
        return answer
    values = checked_values(query, parameters)
    with _connected(database, trace_ids, query, values) as (connection, cache):
        return execute_on(connection, query, values, cache, rows, transient=True)


def execute_on_file(query: Query, parameters: Mapping[str, str] | None = None) -> Result | None:
    """Run a query on the rows of a file that a parameter names; return None if none does.

    Raises:
        UsageError: an unknown parameter, an invalid value, or a file without the expected rows.
    """
    values = checked_values(query, parameters)
    replaced = file_relations(query, values)
    if not replaced:
        return None
    with (
        explained(query, values),
        scratch_connection(spill_directory()) as connection,
        interruptible(connection),
    ):
        for relation in replaced:
            load_rows(connection, relation, values)
        for name, value in values.items():
            connection.execute(set_variable(name, value))
        _load_macros(connection, query)
        prepare(connection, relation_names(query))
        return Result(query, fetch_rows(connection, query.sql), [], dict(values))


def execute_batches(
    database: TraceStore,
    query: Query,
    trace_ids: Sequence[str] | None = None,
    parameters: Mapping[str, str] | None = None,
) -> Generator[Batch]:
    """Run a query over some traces, and yield its rows in at least one batch.

    Millions of rows need not be in memory together. The traces stay open until the generator is
    exhausted or closed. Arguments and errors as in :func:`execute`.
    """
    values = checked_values(query, parameters)
    with _connected(database, trace_ids, query, values) as (connection, cache):
        if query.refuse or changes_rows(query):
            result = execute_on(connection, query, values, cache, transient=True)
            yield Batch(result.frame, result.notes)
            return
        notes = _make_ready(connection, query, values, cache, transient=True)
        with contextlib.closing(query_batches(connection, query, cache)) as answer:
            for number, rows in enumerate(answer):
                if number == 0 and rows.height == 0:
                    check_sources(connection, query)
                yield Batch(rows, notes)


def execute_on(
    connection: duckdb.DuckDBPyConnection,
    query: Query,
    values: Mapping[str, Scalar],
    cache: RelationCache,
    rows: int | None = None,
    *,
    transient: bool = False,
) -> Result:
    """Run a query on an open connection; errors as in :func:`execute`.

    Args:
        connection: a connection of :func:`~tbd_trace.query.connect`; the parameters stay
            set on it.
        cache: the cache of derived relations.
        rows: maximum number of rows to compute; None means all.
        transient: True if no other query follows on this connection.
    """
    notes = _make_ready(connection, query, values, cache, transient=transient)
    # Any row can show that the result would mislead, so such a query needs all of them.
    if rows is not None and (
        query.refuse or changes_rows(query) or cache.rows(connection) < LARGE_ROWS
    ):
        rows = None
    frame = fetch_rows(connection, query.sql, None if rows is None else rows + 1)
    notes += (without := left_out(connection, query))
    if frame.is_empty():
        if without:
            raise CannotAnswerError("; ".join(without))
        check_sources(connection, query)
    check_refusal(query, frame, values)
    if changes_rows(query):
        frame = reduced(query, [frame], values)
    more = rows is not None and frame.height > rows
    return Result(query, frame[:rows], notes, dict(values), more)


def _connected(
    database: TraceStore,
    trace_ids: Sequence[str] | None,
    query: Query,
    values: Mapping[str, Scalar],
) -> contextlib.AbstractContextManager[Connected]:
    tables = tables_behind(relation_names(query))
    return connected(database, trace_ids, explained(query, values), tables, names_behind(query))


def _make_ready(
    connection: duckdb.DuckDBPyConnection,
    query: Query,
    values: Mapping[str, Scalar],
    cache: RelationCache,
    *,
    transient: bool,
) -> list[str]:
    names = relation_names(query)
    notes = check_needs(connection, query) + resolve_old_names(names).notes
    for name, value in values.items():
        connection.execute(set_variable(name, value))
    _load_macros(connection, query)
    prepare(connection, names, cache, transient=transient)
    check_derived(connection, query)
    return notes


def _load_macros(connection: duckdb.DuckDBPyConnection, query: Query) -> None:
    for text in _macro_texts(query):
        connection.execute(text)


def _macro_texts(query: Query) -> list[str]:
    files = resources.sql_files("macros")
    unknown = next((name for name in query.macros if name not in files), None)
    if unknown is not None:
        raise UsageError(f"{query.path.name}: no macros {unknown!r}; see queries/macros")
    return [files[name].read_text(encoding="utf-8") for name in query.macros]


def checked_values(query: Query, parameters: Mapping[str, str] | None) -> dict[str, Scalar]:
    """Parse the values of a query's parameters and of those of the relations it reads.

    Raises:
        UsageError: an unknown parameter or an invalid value.
    """
    relations = required_relations(resolve_old_names(relation_names(query)).required)
    return parameter_values(query, relations, parameters or {})


def script(query: Query, parameters: Mapping[str, str] | None = None) -> str:
    """Return a query as a SQL script for a DuckDB shell.

    Raises:
        UsageError: as in :func:`execute`, or a relation is not computed in SQL.
    """
    values = checked_values(query, parameters)
    replaced = file_relations(query, values)
    relations = required_relations(relation_names(query), {relation.name for relation in replaced})
    if computed := next((each.name for each in relations if each.computed_by), None):
        raise UsageError(
            f"{query.name}: reads {computed}, which tbd-trace computes in Python; write it to a "
            f"file with `tbd-trace export table {computed}`"
        )
    statements = [SORTED_ASOF]
    statements += [text for relation in replaced for text in file_statements(relation, values)]
    statements += [set_variable(name, value) for name, value in values.items()]
    statements += [
        f"CREATE OR REPLACE TEMP {'VIEW' if relation.view else 'TABLE'} {relation.name} AS\n"
        f"{relation.sql}"
        for relation in relations
    ]
    statements += [text.strip().removesuffix(";") for text in _macro_texts(query)]
    return ";\n\n".join([*statements, query.sql]) + ";\n"
