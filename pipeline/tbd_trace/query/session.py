"""Running a query over some traces.

Every run has an in-memory DuckDB connection of its own, in which the canonical tables are views of
the selected traces' Parquet files, the data tables are views of their CSV files, and the derived
relations that the query builds on are computed once, in order.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import time
from collections import deque
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import duckdb

from tbd_trace import resources
from tbd_trace.errors import CannotAnswerError, SqlError, UsageError
from tbd_trace.model.canonical_tables import CATALOGUE, canonical_tables, long_tables
from tbd_trace.query.catalogue import (
    derived_names,
    derived_relation,
    names_used,
    required_relations,
)
from tbd_trace.query.header import Query, Scalar
from tbd_trace.query.needs import (
    check_derived,
    check_needs,
    check_refusal,
    check_sources,
    left_out,
)
from tbd_trace.query.parameters import parameter_values
from tbd_trace.query.relation_cache import (
    RelationCache,
    existing_relations,
    is_slow,
    long_rows,
)
from tbd_trace.runtime.duckdb_connection import SORTED_ASOF, scratch_connection, spill_directory
from tbd_trace.runtime.result_frames import frame, frames, import_ahead
from tbd_trace.runtime.sigint import interruptible
from tbd_trace.sqltext import csv_relation, identifier, set_variable
from tbd_trace.store.read_errors import reading

if TYPE_CHECKING:
    import polars as pl

    from tbd_trace.store.base import TraceStore

FIRST_ROW, LAST_ROW = "first_row", "last_row"
"""Variables: which rows of its answer a query need compute, counted from 1; NULL for all."""

# Of traces whose long tables have as many, only the rows that are wanted are computed.
_WORTH_LIMITING = 1_000_000
_BATCH_ROWS = 200_000  # 0.2 GB of nvtx_kernels, whose rows are the longest
_AHEAD = 2  # parts of an answer that are there before the first is written
_READING = {
    duckdb.StatementType.SELECT,
    duckdb.StatementType.PRAGMA,
    duckdb.StatementType.SET,
}
_GAP = r"(?:\s|--[^\n]*\n|/\*.*?\*/)*"  # white space and comments
_EXPLAIN = re.compile(
    rf"{_GAP}EXPLAIN{_GAP}(?:ANALYZE\b|\([^)]*\))?(?P<explained>.*)", re.IGNORECASE | re.DOTALL
)


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The answer to a query.

    Attributes:
        query: the query that was run.
        frame: the rows, or the first of them.
        notes: sentences that a reader of the numbers should know.
        parameters: the parameters that were set.
        more: whether there are more rows than the frame has, which nobody asked for.
    """

    query: Query
    frame: pl.DataFrame
    notes: list[str] = field(default_factory=list)
    parameters: dict[str, Scalar] = field(default_factory=dict)
    more: bool = False


@dataclass(frozen=True, slots=True)
class Batch:
    """Some rows of the answer to a query.

    Attributes:
        rows: the rows.
        notes: as in :class:`QueryResult`, the same in all batches.
    """

    rows: pl.DataFrame
    notes: list[str]


def connect(
    database: TraceStore,
    trace_ids: Sequence[str] | None = None,
    tables: Collection[str] | None = None,
    few_rows: int = 0,
    names: Collection[str] | None = None,
) -> duckdb.DuckDBPyConnection:
    """Return a connection that sees the traces: canonical tables, data tables, derived relations.

    Args:
        database: where the traces are.
        trace_ids: the traces to see; None means all.
        tables: the canonical tables that are enough, where each costs something to get at; None
            means all.
        few_rows: traces whose long tables have fewer are read now, into memory, and once, rather
            than by each statement.
        names: all that will be asked for, of canonical tables and data tables, which take a
            millisecond or more each; None means anything.

    Derived relations are made by :func:`prepare`, or when :func:`execute_reading` meets them.
    """
    connection = scratch_connection(spill_directory())
    relations = {
        table: database.relation(table, _ids(database, trace_ids))
        for table in canonical_tables()
        if (tables is None or not database.fetches or table in tables)
        and (names is None or table in names or table in long_tables())
    }
    held = few_rows > 0 and long_rows(connection, relations) < few_rows
    for table, relation in relations.items():
        # Nearly every relation asks the few rows of `trace`: a table, not a file each time.
        kind = "TABLE" if held or table == CATALOGUE else "VIEW"
        connection.execute(f"CREATE TEMP {kind} {table} AS {relation}")
    for file in sorted(resources.data().glob("*.csv")):
        if names is None or file.stem in names:
            connection.execute(f"CREATE TEMP VIEW {identifier(file.stem)} AS {csv_relation(file)}")
    return connection


def prepare(
    connection: duckdb.DuckDBPyConnection,
    names: Iterable[str],
    kept: RelationCache | None = None,
    *,
    only: bool = False,
) -> None:
    """Make the derived relations among ``names`` visible: those that are kept from their files.

    The others, and what they build on, are computed. They become temporary tables: views that stand
    on views many levels deep take DuckDB longer to bind than to compute.

    Args:
        connection: a connection of :func:`connect`.
        names: names of relations; those that are not derived are skipped.
        kept: where derived relations are kept; None means that none are.
        only: nothing else is wanted: what the relations build on leaves memory as soon as the last
            of them is made, and they are kept later (``RelationCache.keep_rest``).
    """
    wanted = set(names)
    present = set(existing_relations(connection))
    missing: list[Query] = []

    def look_for(name: str) -> None:
        if name in present or name not in derived_names():
            return
        present.add(name)
        relation = derived_relation(name)
        if kept is not None and not relation.view and kept.load(connection, relation):
            return
        for other in relation.relations:
            look_for(other)
        missing.append(relation)

    for name in wanted:
        look_for(name)
    if not missing:
        return
    bound: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
    # Tables of small traces stay for the questions that follow, and may take what they take.
    if kept is not None and (only or kept.is_large(connection)):
        bound = kept.bounded(connection)
    started = time.perf_counter()
    with bound:
        for position, relation in enumerate(missing):
            if relation.view or kept is None:
                kind = "VIEW" if relation.view else "TABLE"
                connection.execute(f"CREATE TEMP {kind} {relation.name} AS {relation.sql}")
            else:
                kept.compute(connection, relation, for_answer=only and relation.name in wanted)
            if only:
                needed = wanted.union(*(later.relations for later in missing[position + 1 :]))
                for other in derived_names() & set(relation.relations) - needed:
                    _drop_table(connection, other)
    # Of small traces no relation takes long, but all together do. Unless nothing else is wanted,
    # the connection holds them for what follows.
    if only and kept is not None and is_slow(started, at_first=kept.are_new):
        for relation in missing:
            if relation.name in wanted and not relation.view:
                kept.keep_later(relation)


def _drop_table(connection: duckdb.DuckDBPyConnection, name: str) -> None:
    with contextlib.suppress(duckdb.CatalogException):  # it is a view of its file, or dropped
        connection.execute(f"DROP TABLE {identifier(name)}")


def run(
    database: TraceStore,
    query: Query,
    trace_ids: Sequence[str] | None = None,
    parameters: Mapping[str, str] | None = None,
    rows: int | None = None,
) -> QueryResult:
    """Run a query over some traces.

    Args:
        database: the database.
        query: the query.
        trace_ids: the traces to ask; None means all.
        parameters: values for the query's parameters and for those of the relations it builds on.
        rows: how many of the first rows are enough: of large traces no more are computed. None
            means all.

    Raises:
        CannotAnswerError: none of the traces holds what the query needs, or the answer would
            mislead.
        StoreError: a trace is damaged, or was removed meanwhile.
        UsageError: a parameter is unknown or its value not allowed, or the SQL is wrong.
    """
    values = checked_values(query, parameters)
    with _connected_for_query(database, trace_ids, query, values) as (connection, kept):
        return answer(connection, query, values, kept, rows, only=True)


def run_in_batches(
    database: TraceStore,
    query: Query,
    trace_ids: Sequence[str] | None = None,
    parameters: Mapping[str, str] | None = None,
) -> Generator[Batch]:
    """Run a query over some traces, and yield all rows in one batch after another.

    At least one: millions of rows of large traces need not be in memory together. The traces are
    open until the generator is exhausted or closed. Arguments and errors as in :func:`run`.
    """
    values = checked_values(query, parameters)
    with _connected_for_query(database, trace_ids, query, values) as (connection, kept):
        if query.refuse:
            result = answer(connection, query, values, kept, only=True)
            yield Batch(result.frame, result.notes)
            return
        notes = _make_ready(connection, query, values, kept, only=True)
        for number, rows in enumerate(_parts_of_answer(connection, query, kept)):
            if number == 0 and rows.height == 0:
                check_sources(connection, query)
            yield Batch(rows, notes)


def _parts_of_answer(
    connection: duckdb.DuckDBPyConnection, query: Query, kept: RelationCache
) -> Iterator[pl.DataFrame]:
    """Yield the rows of a query; a shipped one that can is asked for pages of large traces."""
    has_pages = _is_shipped(query) and f"getvariable('{FIRST_ROW}')" in query.sql
    if has_pages and kept.rows(connection) >= _WORTH_LIMITING:
        yield from _pages(connection, query, kept)
    else:
        yield from _parts(connection, query.sql, kept)


def _parts(
    connection: duckdb.DuckDBPyConnection, text: str, kept: RelationCache
) -> Iterator[pl.DataFrame]:
    """Yield the rows of statements: of large traces part after part, of others all at once."""
    if kept.rows(connection) < _WORTH_LIMITING:
        yield from _keeping([_execute(connection, text)], connection, kept)
    else:
        yield from _keeping(frames(_last_relation(connection, text)), connection, kept)


def _keeping(
    parts: Iterable[pl.DataFrame],
    connection: duckdb.DuckDBPyConnection,
    kept: RelationCache,
) -> Iterator[pl.DataFrame]:
    """Yield parts of an answer; while the caller writes the last, keep what is still to be kept."""
    if not kept.puts_off:
        yield from parts
        return
    coming = iter(parts)
    ahead = deque(itertools.islice(coming, _AHEAD))
    for part in coming:
        yield ahead.popleft()
        ahead.append(part)
    with ThreadPoolExecutor(1) as executor:
        keeping = executor.submit(kept.keep_rest, connection)
        yield from ahead
        keeping.result()


_Connected = tuple[duckdb.DuckDBPyConnection, RelationCache]


@contextlib.contextmanager
def _connected(
    database: TraceStore,
    trace_ids: Sequence[str] | None,
    blamed: contextlib.AbstractContextManager[None],
    tables: Collection[str] | None,
    names: Collection[str] | None = None,
) -> Iterator[_Connected]:
    """Open traces for a question, as :func:`connect` does; ``blamed`` explains DuckDB's errors."""
    import_ahead()
    selected = _ids(database, trace_ids)
    with (
        blamed,
        reading(database),
        connect(database, selected, tables, names=names) as connection,
        interruptible(connection),
    ):
        kept = RelationCache(database, selected)
        yield connection, kept
        kept.keep_rest(connection)


def _connected_for_query(
    database: TraceStore,
    trace_ids: Sequence[str] | None,
    query: Query,
    values: Mapping[str, Scalar],
) -> contextlib.AbstractContextManager[_Connected]:
    tables = _tables_behind(relation_names(query))
    return _connected(database, trace_ids, explained(query, values), tables, _all_names(query))


def _pages(
    connection: duckdb.DuckDBPyConnection, query: Query, kept: RelationCache
) -> Iterator[pl.DataFrame]:
    """Yield the rows of a query that comes in pages."""
    with kept.bounded(connection):
        for first in itertools.count(1, _BATCH_ROWS):
            connection.execute(set_variable(FIRST_ROW, first))
            connection.execute(set_variable(LAST_ROW, first + _BATCH_ROWS - 1))
            rows = _execute(connection, query.sql)
            yield rows
            if rows.height < _BATCH_ROWS:
                return


def answer(
    connection: duckdb.DuckDBPyConnection,
    query: Query,
    values: Mapping[str, Scalar],
    kept: RelationCache,
    rows: int | None = None,
    *,
    only: bool = False,
) -> QueryResult:
    """Answer a query on a connection of :func:`connect`; errors as in :func:`run`.

    Args:
        connection: the connection; the parameters stay set on it.
        query: the query.
        values: its parameters, checked.
        kept: where derived relations are kept.
        rows: how many of the first rows are enough; None means all.
        only: no other query follows (:func:`prepare`).
    """
    notes = _make_ready(connection, query, values, kept, only=only)
    # Whether an answer would mislead shows in any of its rows.
    if rows is not None and (query.refuse or kept.rows(connection) < _WORTH_LIMITING):
        rows = None
    frame = _execute(connection, query.sql, None if rows is None else rows + 1)
    notes += (without := left_out(connection, query))
    if frame.is_empty():
        if without:
            raise CannotAnswerError("; ".join(without))
        check_sources(connection, query)
    check_refusal(query, frame, values)
    more = rows is not None and frame.height > rows
    return QueryResult(query, frame[:rows], notes, dict(values), more)


def _make_ready(
    connection: duckdb.DuckDBPyConnection,
    query: Query,
    values: Mapping[str, Scalar],
    kept: RelationCache,
    *,
    only: bool,
) -> list[str]:
    """Set a query's parameters and make what it builds on visible; return what to note."""
    notes = check_needs(connection, query)
    for name, value in values.items():
        connection.execute(set_variable(name, value))
    prepare(connection, relation_names(query), kept, only=only)
    check_derived(connection, query)
    return notes


def checked_values(query: Query, parameters: Mapping[str, str] | None) -> dict[str, Scalar]:
    """Return parameters of a query, and of the relations it builds on, as values.

    Raises:
        UsageError: one is unknown, or its value not allowed.
    """
    relations = required_relations(relation_names(query))
    return parameter_values(query, relations, parameters or {})


def script(query: Query, parameters: Mapping[str, str] | None = None) -> str:
    """Return a query as a SQL script that runs pasted into a DuckDB shell on the database.

    Args:
        query: the query.
        parameters: as in :func:`run`.

    Raises:
        UsageError: a parameter is unknown or its value not allowed.
    """
    relations = required_relations(relation_names(query))
    values = checked_values(query, parameters)
    statements = [SORTED_ASOF]
    statements += [set_variable(name, value) for name, value in values.items()]
    statements += [
        f"CREATE OR REPLACE TEMP {'VIEW' if relation.view else 'TABLE'} {relation.name} AS\n"
        f"{relation.sql}"
        for relation in relations
    ]
    return ";\n\n".join([*statements, query.sql]) + ";\n"


def sql(
    database: TraceStore, statement: str, trace_ids: Sequence[str] | None = None
) -> pl.DataFrame:
    """Run one reading SQL statement over some traces.

    Raises:
        StoreError: a trace is damaged, or was removed meanwhile.
        UsageError: the statement is wrong, or would write.
    """
    with _connected_for_sql(database, statement, trace_ids) as (connection, _):
        return _execute(connection, statement)


def sql_in_batches(
    database: TraceStore,
    statement: str,
    trace_ids: Sequence[str] | None = None,
) -> Generator[pl.DataFrame]:
    """Run one reading SQL statement, and yield its rows in one batch after another.

    As :func:`run_in_batches`; errors as in :func:`sql`.
    """
    with _connected_for_sql(database, statement, trace_ids) as (connection, kept):
        yield from _parts(connection, statement, kept)


@contextlib.contextmanager
def _connected_for_sql(
    database: TraceStore, statement: str, trace_ids: Sequence[str] | None
) -> Iterator[_Connected]:
    tables = _tables_of(statement)
    with _connected(database, trace_ids, _own_sql("SQL"), tables) as (connection, kept):
        prepare(connection, names_used(statement), kept, only=True)
        yield connection, kept


def execute_reading(
    connection: duckdb.DuckDBPyConnection, statement: str, kept: RelationCache | None = None
) -> pl.DataFrame:
    """Run the statements of a text, all of which must only read; return the last one's rows.

    The derived relations that it names are computed first.

    Raises:
        UsageError: a statement is wrong, or would write.
    """
    with _own_sql("SQL"), interruptible(connection):
        prepare(connection, names_used(statement), kept)
        return _execute(connection, statement)


def _execute(
    connection: duckdb.DuckDBPyConnection, text: str, rows: int | None = None
) -> pl.DataFrame:
    """Run statements that only read; return the last one's rows, or the first of them."""
    if rows is not None:
        connection.execute(set_variable(LAST_ROW, rows))
    return frame(_last_relation(connection, text, rows))


def _last_relation(
    connection: duckdb.DuckDBPyConnection, text: str, rows: int | None = None
) -> duckdb.DuckDBPyRelation:
    """Run the statements of a text but the last, and return that one's rows, not yet computed.

    Raises:
        UsageError: one of them would write, or there is none.
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
    if relation is None:  # DuckDB 1 of a statement without rows
        return connection.sql("SELECT true AS Success WHERE false")
    if rows is not None and statements[-1].type == duckdb.StatementType.SELECT:
        return relation.limit(rows)
    return relation


@contextlib.contextmanager
def _own_sql(name: str) -> Iterator[None]:
    """Blame DuckDB's errors on SQL of the user's own."""
    try:
        yield
    except duckdb.Error as error:
        raise SqlError(f"{name}: {error}") from error


@contextlib.contextmanager
def explained(query: Query, values: Mapping[str, Scalar]) -> Iterator[None]:
    """Blame DuckDB's errors on the parameters that were set, or on a query of the user's own.

    Raises:
        UsageError: DuckDB does not take them, or it.
    """
    given = ", ".join(f"{name}={value}" for name, value in values.items())
    if given:
        with _own_sql(f"{query.name} with {given}"):
            yield
    elif _is_shipped(query):
        yield
    else:
        with _own_sql(query.path.name):
            yield


def _only_reads(connection: duckdb.DuckDBPyConnection, statement: duckdb.Statement) -> bool:
    if statement.type != duckdb.StatementType.EXPLAIN:
        return statement.type in _READING
    # EXPLAIN ANALYZE runs what it explains, which may be a COPY.
    match = _EXPLAIN.match(statement.query)
    explained = connection.extract_statements(match["explained"]) if match else []
    return len(explained) == 1 and explained[0].type == duckdb.StatementType.SELECT


def _ids(database: TraceStore, trace_ids: Sequence[str] | None) -> list[str]:
    return database.trace_ids() if trace_ids is None else list(trace_ids)


def _tables_of(text: str) -> set[str] | None:
    """Return the canonical tables that a SQL text may read, None where it may ask for all."""
    names = names_used(text)
    if {name.lower() for name in names} & {"show", "duckdb_views", "information_schema"}:
        return None
    return _tables_behind(names)


def _tables_behind(names: Iterable[str]) -> set[str]:
    """Return the canonical tables among some relations, and of those that they build on."""
    named = set(names)
    built = {name for relation in required_relations(named) for name in relation.relations}
    return (named | built | {CATALOGUE}) & canonical_tables().keys()


def _is_shipped(query: Query) -> bool:
    return query.path.is_relative_to(resources.queries())


def _all_names(query: Query) -> set[str] | None:
    """Return whatever a shipped query and what it builds on name, None for a user's own.

    DuckDB's error about a name that does not exist suggests some that do.
    """
    if not _is_shipped(query):
        return None
    asked = (query, *required_relations(query.relations))
    return {CATALOGUE}.union(*(names_used(each.sql) for each in asked))


def relation_names(query: Query) -> set[str]:
    """Return what a query may refer to: by its header, and a user's own also by its text."""
    if _is_shipped(query):
        return set(query.relations)
    return set(query.relations) | names_used(query.sql)
