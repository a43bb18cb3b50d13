"""Several queries over one connection."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from types import TracebackType

import duckdb

from tbd_trace.query.catalogue import parameters_behind, required_relations
from tbd_trace.query.connection import connect, relation_names
from tbd_trace.query.execute import answer, checked_values
from tbd_trace.query.header import Query, Scalar
from tbd_trace.query.relation_cache import RelationCache, existing_relations
from tbd_trace.query.result import Result
from tbd_trace.query.statements import explained
from tbd_trace.runtime.sigint import interruptible
from tbd_trace.sqltext import identifier
from tbd_trace.store.base import TraceStore
from tbd_trace.store.read_errors import reading

# Traces with fewer are read into memory.
_FEW_ROWS = 500_000


class SharedSession:
    """Queries over some traces, one after the other: what one derives, the next need not.

    It is a context manager; queries are asked inside it.

    Args:
        tables: the canonical tables that are enough, where each costs something to get at; None
            means all.
    """

    connection: duckdb.DuckDBPyConnection  # the connection, while it is open
    kept: RelationCache  # derived relations that are kept between connections

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
        self._values: dict[str, dict[str, Scalar]] = {}  # that gave each derived relation

    def __enter__(self) -> SharedSession:
        with ExitStack() as stack:
            stack.enter_context(reading(self._database))
            self.connection = stack.enter_context(
                connect(self._database, self._trace_ids, self._tables, _FEW_ROWS)
            )
            self.kept = RelationCache(self._database, self._trace_ids)
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

    def run(self, query: Query, parameters: Mapping[str, str] | None = None) -> Result:
        values = checked_values(query, parameters)
        self.renew(relation_names(query), values)
        try:
            with explained(query, values), reading(self._database):
                return answer(self.connection, query, values, self.kept)
        finally:
            for name in values:
                self.connection.execute(f"RESET VARIABLE {identifier(name)}")

    def renew(self, names: Iterable[str], values: Mapping[str, Scalar]) -> None:
        """Forget derived relations whose rows are those of other parameters.

        Args:
            names: the relations that are asked next, which build on others.
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
