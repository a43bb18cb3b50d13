"""TraceStore protocol, implemented by Database and Archive."""

from __future__ import annotations

import difflib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import duckdb

from tbd_trace.errors import StoreError, UsageError
from tbd_trace.model.canonical_tables import (
    CATALOGUE,
    JOB_RANK,
    KERNEL,
    KERNEL_TOTALS,
    canonical_tables,
)
from tbd_trace.sqltext import parquet_relation, string, with_trace_id_enum
from tbd_trace.store.read_errors import reading

if TYPE_CHECKING:
    import polars as pl

_SHORTEST_PREFIX = 4
_IN_ORDER = ("ingested_at", "name", "trace_id")  # columns that traces are sorted by


class TraceStore(ABC):
    """Traces, each of them Parquet files of its canonical tables."""

    # what queries have derived from the traces, for the next query; all of it may be removed
    derived_directory: Path
    # names to show instead of those in the traces, by trace id: the files that a user named
    shown_names: Mapping[str, str] = MappingProxyType({})
    # whether each table costs something to get at, so that only those are asked for that a query
    # reads
    fetches: bool = False
    # whether all kinds of private data have been redacted
    redacted: bool = False

    @property
    @abstractmethod
    def name(self) -> str:
        """How the user names it."""

    @abstractmethod
    def trace_ids(self) -> list[str]:
        """Return the ids of all traces.

        Raises:
            StoreError: the directory cannot be read.
        """

    def are_new(self, trace_ids: Iterable[str]) -> bool:
        """Return True if one of the traces was ingested since the last call."""
        return False

    @abstractmethod
    def files(self, table: str, trace_ids: Iterable[str]) -> list[Path]:
        """Return the Parquet files of a canonical table for some traces.

        Raises:
            StoreError: a file is missing or damaged.
        """

    @abstractmethod
    def state(self, trace_id: str) -> Sequence[object]:
        """Return values that change when the rows of a trace change."""

    @abstractmethod
    def size_bytes(self, trace_id: str) -> int:
        """Return the size of the files of a trace."""

    @abstractmethod
    def damaged(self, trace_id: str, reason: str) -> StoreError:
        """Return the error that a file of a trace could not be read."""

    def relation(self, table: str, trace_ids: Sequence[str]) -> str:
        """Return a SELECT of a canonical table limited to some traces."""
        files = self.files(table, trace_ids)
        if not files:
            return canonical_tables()[table].empty_select
        rows = parquet_relation(files)
        rows = with_trace_id_enum(rows, trace_ids[0]) if len(trace_ids) == 1 else rows
        return self._with_shown_names(rows) if table == CATALOGUE and self.shown_names else rows

    def _with_shown_names(self, rows: str) -> str:
        named = " ".join(
            f"WHEN {string(trace_id)} THEN {string(name)}"
            for trace_id, name in self.shown_names.items()
        )
        name = f"CASE trace_id::VARCHAR {named} ELSE name END"
        return f"SELECT * REPLACE ({name} AS name) FROM ({rows})"

    def show_names(self, names: Mapping[str, str]) -> None:
        """Show traces, by id, under other names than those they were ingested with."""
        ingested = dict(self._names(list(names)))
        self.shown_names = {i: name for i, name in names.items() if ingested.get(i) != name}

    def traces(self) -> pl.DataFrame:
        """Return the ``trace`` table: one row per trace, in the order of ingest."""
        return self.trace_frame(self.trace_ids()).sort(*_IN_ORDER)

    def trace_frame(self, trace_ids: Sequence[str]) -> pl.DataFrame:
        from tbd_trace.runtime.result_frames import frame  # noqa: PLC0415 - helpers do without polars

        with reading(self), duckdb.connect() as connection:
            return frame(connection.sql(self.relation(CATALOGUE, trace_ids)))

    def kernels(self, trace_id: str) -> int:
        """Return the number of kernel executions of a trace, single and aggregated ones."""
        with reading(self), duckdb.connect() as connection:
            ((count,),) = connection.execute(self.kernel_count(trace_id)).fetchall()
        return int(count)

    def kernel_count(self, trace_id: str) -> str:
        """Return a SELECT of the number of kernel executions of a trace."""
        single, aggregate = (self.relation(table, [trace_id]) for table in (KERNEL, KERNEL_TOTALS))
        return (
            f"SELECT (SELECT count(*) FROM ({single})) "
            f"+ (SELECT coalesce(sum(instances), 0) FROM ({aggregate}))"
        )

    def resolve(self, selectors: Sequence[str]) -> list[str]:
        """Return the ids of the traces that the selectors name.

        Args:
            selectors: trace ids, unique prefixes of them, names, or jobs, which mean all their
                traces; none at all means every trace.

        Raises:
            UsageError: a selector names no trace, or several.
        """
        known = self._known()
        if not selectors:
            return [trace_id for trace_id, _ in known]
        return list(dict.fromkeys(i for name in selectors for i in self._named(name, known)))

    def _known(self) -> list[tuple[str, str]]:
        trace_ids = self.trace_ids()
        try:
            return self._names(trace_ids)
        except StoreError:
            if self.trace_ids() == trace_ids:
                raise
            return self._known()  # another process removed a trace, maybe none of the wanted ones

    def _names(self, trace_ids: Sequence[str]) -> list[tuple[str, str]]:
        rows = self.relation(CATALOGUE, trace_ids)
        with reading(self), duckdb.connect() as connection:
            return connection.execute(
                f"SELECT trace_id::VARCHAR, name FROM ({rows}) ORDER BY {', '.join(_IN_ORDER)}"
            ).fetchall()

    def jobs(self) -> dict[str, list[str]]:
        """Return the traces of each distributed job, in the order of ranks."""
        rows = self.relation(JOB_RANK, self.trace_ids())
        with reading(self), duckdb.connect() as connection:
            return dict(
                connection.execute(
                    "SELECT job, list(trace_id::VARCHAR ORDER BY rank, trace_id) "
                    f"FROM ({rows}) WHERE job IS NOT NULL GROUP BY job ORDER BY job"
                ).fetchall()
            )

    def _named(self, selector: str, known: Sequence[tuple[str, str]]) -> list[str]:
        exact = [i for i, name in known if selector in (i, name)]
        begun = [i for i, _ in known if i.startswith(selector)]
        matches = exact or (begun if len(selector) >= _SHORTEST_PREFIX else [])
        if len(matches) == 1:
            return matches
        if matches:
            raise UsageError(f"{selector!r} is ambiguous: {', '.join(matches)}; use a trace id")
        jobs = self.jobs()
        if selector in jobs:
            return jobs[selector]
        if begun:
            raise UsageError(f"{selector!r}: give at least {_SHORTEST_PREFIX} digits of a trace id")
        names = [*(name for pair in known for name in pair), *jobs]
        close = difflib.get_close_matches(selector, names, n=3)
        hint = f"; did you mean {', '.join(close)}?" if close else "; `tbd-trace info` lists them"
        raise UsageError(f"no trace {selector!r} in {self.name}{hint}")
