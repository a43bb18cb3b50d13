"""Several queries over one connection."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from types import TracebackType

import duckdb

from tbd_trace.query.catalogue import parameters_behind, required_relations
from tbd_trace.query.connection import connect, relation_names
from tbd_trace.query.divided import execute
from tbd_trace.query.execution import checked_values, execute_on
from tbd_trace.query.header import Query, Scalar
from tbd_trace.query.parts import divide
from tbd_trace.query.relation_cache import RelationCache, existing_relations
from tbd_trace.query.result import Result
from tbd_trace.query.statements import explained
from tbd_trace.runtime.executors import Executor, ThisProcess
from tbd_trace.runtime.sigint import interruptible
from tbd_trace.sqltext import identifier
from tbd_trace.store.base import TraceStore
from tbd_trace.store.read_errors import reading

# Traces with fewer are read into memory.
_FEW_ROWS = 500_000


class SharedSession:
    """Run several queries over one connection, which keeps derived relations between them.

    Queries that can be divided are run apart from it for each of many large traces.

    Args:
        tables: canonical tables to load where each costs a download; None means all.
        executor: where to ask each trace; None asks in this process, small traces together.
    """

    connection: duckdb.DuckDBPyConnection  # the connection, while it is open
    cache: RelationCache  # the cache of derived relations

    def __init__(
        self,
        database: TraceStore,
        trace_ids: Sequence[str],
        tables: Collection[str] | None = None,
        executor: Executor | None = None,
    ) -> None:
        self.database = database
        self._trace_ids = list(trace_ids)
        self.parts = divide(database, self._trace_ids, executor)
        self._given = executor
        self.executor = executor or ThisProcess()
        self.missing: list[str] = []  # names of traces without an answer
        self._tables = tables
        self._open = ExitStack()
        self._values: dict[str, dict[str, Scalar]] = {}  # parameters of each derived relation

    def __enter__(self) -> SharedSession:
        with ExitStack() as stack:
            stack.enter_context(reading(self.database))
            self.connection = stack.enter_context(
                connect(self.database, self._trace_ids, self._tables, _FEW_ROWS)
            )
            self.cache = RelationCache(self.database, self._trace_ids)
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

    def parts_for(self, together: str) -> list[list[str]]:
        """Return the parts of a query that says which traces are asked together."""
        if not together:
            return self.parts
        return divide(self.database, self._trace_ids, self._given, together)

    @property
    def is_divided(self) -> bool:
        return len(self.parts) > 1

    def run(self, query: Query, parameters: Mapping[str, str] | None = None) -> Result:
        if self.is_divided and query.reduce:
            result = execute(
                self.database, query, self._trace_ids, parameters, executor=self._given
            )
            self.missing += result.missing
            return result
        values = checked_values(query, parameters)
        self.renew(relation_names(query), values)
        try:
            with explained(query, values), reading(self.database):
                return execute_on(self.connection, query, values, self.cache)
        finally:
            for name in values:
                self.connection.execute(f"RESET VARIABLE {identifier(name)}")

    def renew(self, names: Iterable[str], values: Mapping[str, Scalar]) -> None:
        """Drop derived relations that were computed with other parameters.

        Args:
            names: relations of the next query; their inputs are checked, too.
        """
        stale = []
        for relation in required_relations(names):
            below = parameters_behind(relation.name)
            wanted = {name: values[name] for name in below if name in values}
            if self._values.setdefault(relation.name, wanted) != wanted:
                self._values[relation.name] = wanted
                stale.append(relation.name)
        present = existing_relations(self.connection) if stale else {}
        for name in stale:
            if name in present:
                self.connection.execute(f"DROP {present[name]} {name}")
