"""Connect to traces: canonical tables, data tables and derived relations in one DuckDB.

Every query has its own in-memory DuckDB database. Canonical tables are views of the Parquet files
of the selected traces, data tables are views of their CSV files, and the derived relations that a
query reads are computed once, in order. None is temporary, because a temporary table belongs to one
connection, and each thread has its own.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Iterable, Iterator, Sequence

import duckdb

from tbd_trace import resources
from tbd_trace.model.canonical_tables import CATALOGUE, canonical_tables, long_tables
from tbd_trace.query.catalogue import (
    derived_names,
    derived_relation,
    names_used,
    required_relations,
)
from tbd_trace.query.computed import create_table
from tbd_trace.query.header import Query
from tbd_trace.query.relation_cache import (
    RelationCache,
    existing_relations,
    is_slow,
    long_rows,
)
from tbd_trace.query.renamed import resolve_old_names
from tbd_trace.runtime.duckdb_connection import scratch_connection, spill_directory
from tbd_trace.runtime.result_frames import prefetch_polars
from tbd_trace.runtime.sigint import interruptible
from tbd_trace.sqltext import csv_relation, identifier
from tbd_trace.store.base import TraceStore
from tbd_trace.store.read_errors import reading

# Rows of the long tables from which only the requested rows of an answer are computed, and an
# answer comes in pages: computing all of 16 million ranges took 9 GB.
LARGE_ROWS = 1_000_000

Connected = tuple[duckdb.DuckDBPyConnection, RelationCache]


def connect(
    database: TraceStore,
    trace_ids: Sequence[str] | None = None,
    tables: Collection[str] | None = None,
    few_rows: int = 0,
    names: Collection[str] | None = None,
) -> duckdb.DuckDBPyConnection:
    """Return a connection with the canonical tables and data tables of some traces.

    Derived relations are added by :func:`prepare`.

    Args:
        database: the database or archive with the traces.
        trace_ids: the traces; None means all.
        tables: canonical tables to load where each costs a download; None means all.
        few_rows: traces whose long tables have fewer rows are loaded into memory once, instead of
            being read by each statement.
        names: canonical tables and data tables to create; None means all. Each takes about 1 ms.
    """
    connection = scratch_connection(spill_directory())
    relations = {
        table: database.relation(table, selected_ids(database, trace_ids))
        for table in canonical_tables()
        if (tables is None or not database.fetches or table in tables)
        and (names is None or table in names or table in long_tables())
    }
    in_memory = few_rows > 0 and long_rows(connection, relations) < few_rows
    for table, relation in relations.items():
        # Nearly every relation reads the few rows of `trace`: a table saves opening the file.
        kind = "TABLE" if in_memory or table == CATALOGUE else "VIEW"
        connection.execute(f"CREATE {kind} {table} AS {relation}")
    for file in sorted(resources.data().glob("*.csv")):
        if names is None or file.stem in names:
            connection.execute(f"CREATE VIEW {identifier(file.stem)} AS {csv_relation(file)}")
    return connection


@contextlib.contextmanager
def connected(
    database: TraceStore,
    trace_ids: Sequence[str] | None,
    explain: contextlib.AbstractContextManager[None],
    tables: Collection[str] | None,
    names: Collection[str] | None = None,
) -> Iterator[Connected]:
    """Connect for the duration of one question.

    Args:
        database: as in :func:`connect`; so are ``trace_ids``, ``tables`` and ``names``.
        names: canonical tables and data tables to create.
    """
    prefetch_polars()  # in a thread, while DuckDB opens its views
    selected = selected_ids(database, trace_ids)
    with (
        explain,
        reading(database),
        connect(database, selected, tables, names=names) as connection,
        interruptible(connection),
    ):
        cache = RelationCache(database, selected)
        yield connection, cache
        cache.keep_rest(connection)


def prepare(
    connection: duckdb.DuckDBPyConnection,
    names: Iterable[str],
    cache: RelationCache | None = None,
    *,
    transient: bool = False,
) -> None:
    """Create the derived relations among ``names`` and the relations they read.

    Cached relations are read from their files, the others computed as tables: nested
    views take DuckDB longer to bind than to compute. Old names of relations become views.

    Args:
        connection: a connection of :func:`connect`.
        names: names of relations; names that are not derived relations are skipped.
        cache: the cache of derived relations; None computes all.
        transient: True if no other query follows: intermediate relations are dropped as soon as
            they are no longer read, and results are cached after the answer
            (``RelationCache.keep_rest``).
    """
    wanted = resolve_old_names(names)
    missing = _missing(connection, wanted.required, cache)
    if missing:
        _compute(connection, missing, wanted.required, cache, transient=transient)
    for statement in wanted.statements:
        connection.execute(statement)


def _missing(
    connection: duckdb.DuckDBPyConnection, names: Iterable[str], cache: RelationCache | None
) -> list[Query]:
    present = set(existing_relations(connection))
    missing: list[Query] = []

    def visit(name: str) -> None:
        if name in present or name not in derived_names():
            return
        present.add(name)
        relation = derived_relation(name)
        if cache is not None and not relation.view and cache.load(connection, relation):
            return
        for other in relation.relations:
            visit(other)
        missing.append(relation)

    for name in names:
        visit(name)
    return missing


def _compute(
    connection: duckdb.DuckDBPyConnection,
    missing: Sequence[Query],
    wanted: Collection[str],
    cache: RelationCache | None,
    *,
    transient: bool,
) -> None:
    limit: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
    # Tables of small traces stay for later queries without a memory limit.
    if cache is not None and (transient or cache.is_large(connection)):
        limit = cache.bounded(connection)
    started = time.perf_counter()
    # Relations that were there before may be read later.
    computed = {relation.name for relation in missing}
    with limit:
        for position, relation in enumerate(missing):
            if relation.view:
                connection.execute(f"CREATE VIEW {relation.name} AS {relation.sql}")
            elif cache is None:
                create_table(connection, relation)
            else:
                for_answer = transient and relation.name in wanted
                cache.compute(connection, relation, for_answer=for_answer)
            if transient:
                later = (other.relations for other in missing[position + 1 :])
                needed = set(wanted).union(*later)
                for other in computed & set(relation.relations) - needed:
                    _drop_table(connection, other)
    # Each relation of a small trace is fast, but together they may be worth caching. Without
    # `transient` the connection keeps them.
    if transient and cache is not None and is_slow(started, at_first=cache.are_new):
        for relation in missing:
            if relation.name in wanted and not relation.view:
                cache.keep_later(connection, relation)


def _drop_table(connection: duckdb.DuckDBPyConnection, name: str) -> None:
    with contextlib.suppress(duckdb.CatalogException):  # a view of its file, or dropped before
        connection.execute(f"DROP TABLE {identifier(name)}")


def selected_ids(database: TraceStore, trace_ids: Sequence[str] | None) -> list[str]:
    """Return the ids of the selected traces; None selects all."""
    return database.trace_ids() if trace_ids is None else list(trace_ids)


def tables_of_text(text: str) -> set[str] | None:
    """Return the canonical tables that a SQL text may read, None where it may read all."""
    names = names_used(text)
    if {name.lower() for name in names} & {"show", "duckdb_views", "information_schema"}:
        return None
    return tables_behind(names)


def tables_behind(names: Iterable[str]) -> set[str]:
    """Return the canonical tables among some relations and their inputs."""
    named = resolve_old_names(names).required
    read = {name for relation in required_relations(named) for name in relation.relations}
    return (named | read | {CATALOGUE}) & canonical_tables().keys()


def is_shipped(query: Query) -> bool:
    """Return True if a query is part of the package."""
    return query.path.is_relative_to(resources.queries())


def names_behind(query: Query) -> set[str] | None:
    """Return all names in a shipped query and the relations it reads, None for a user's query.

    For a user's query all tables are created, because DuckDB's error about an unknown name
    suggests existing ones.
    """
    if not is_shipped(query):
        return None
    read = (query, *required_relations(query.relations))
    computed = (each.relations for each in read if each.computed_by)
    return {CATALOGUE}.union(*(names_used(each.sql) for each in read), *computed)


def relation_names(query: Query) -> set[str]:
    """Return the relations that a query names: in its header, a user's query also in its SQL."""
    if is_shipped(query):
        return set(query.relations)
    return set(query.relations) | names_used(query.sql)
