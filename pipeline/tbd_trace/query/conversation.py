"""Several queries over one connection."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from types import TracebackType

import duckdb

from tbd_trace.interrupts import interruptible
from tbd_trace.query.catalogue import derive_relations, required_relations
from tbd_trace.query.header import Query
from tbd_trace.query.kept import KeptRelations, views_seen
from tbd_trace.query.session import QueryResult, answer, checked_values, connect, explained
from tbd_trace.schema import canonical_tables
from tbd_trace.sqltext import identifier
from tbd_trace.store.base import TraceStore
from tbd_trace.store.reading import reading

# Traces with fewer are read once, rather than for each question.
_FEW_ROWS = 500_000


class Conversation:
    """Queries over some traces, one after the other: what one derives, the next need not.

    It is a context manager; queries are asked inside it.

    Args:
        database: where the traces are.
        trace_ids: the traces to ask.
        tables: the canonical tables that are enough, where each costs something to get at; None
            means all.

    Attributes:
        connection: the connection, while it is open.
        kept: derived relations that are kept between connections.
    """

    connection: duckdb.DuckDBPyConnection
    kept: KeptRelations

    def __init__(
        self,
        database: TraceStore,
        trace_ids: Sequence[str],
        tables: Collection[str] | None = None,
    ) -> None:
        self._database = database
        self._trace_ids = list(trace_ids)
        self._tables = tables
        self._open = ExitStack()

    def __enter__(self) -> Conversation:
        with ExitStack() as stack:
            stack.enter_context(reading(self._database))
            self.connection = stack.enter_context(
                connect(self._database, self._trace_ids, self._tables)
            )
            self.kept = KeptRelations(self._database, self._trace_ids)
            if self.kept.rows(self.connection) < _FEW_ROWS:
                _hold_tables(self.connection)
            stack.enter_context(interruptible(self.connection))
            self._open = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        return self._open.__exit__(kind, error, trace)

    def run(self, query: Query, parameters: Mapping[str, str] | None = None) -> QueryResult:
        """Answer a query; arguments and errors as in :func:`tbd_trace.query.run`."""
        values = checked_values(query, parameters)
        self._forget(values)
        try:
            with explained(query, values), reading(self._database):
                return answer(self.connection, query, values, self.kept)
        finally:
            self._forget(values)
            for name in values:
                self.connection.execute(f"RESET VARIABLE {identifier(name)}")

    def _forget(self, parameters: Collection[str]) -> None:
        """Remove the derived relations whose rows depend on parameters."""
        if not parameters:
            return
        kinds = self.connection.execute(
            "SELECT table_name, 'TABLE' FROM duckdb_tables() "
            "UNION ALL SELECT view_name, 'VIEW' FROM duckdb_views()"
        ).fetchall()
        there = dict(kinds)
        for relation in derive_relations():
            below = required_relations([relation.name])
            depends = any(made.params.keys() & set(parameters) for made in below)
            if depends and relation.name in there:
                self.connection.execute(f"DROP {there[relation.name]} {relation.name}")


def _hold_tables(connection: duckdb.DuckDBPyConnection) -> None:
    """Put tables in the place of the views of canonical tables."""
    for table in sorted(canonical_tables().keys() & views_seen(connection)):
        connection.execute(f"CREATE TEMP TABLE {table}_held AS FROM {table}")
        connection.execute(f"DROP VIEW {table}")
        connection.execute(f"ALTER TABLE {table}_held RENAME TO {table}")
