"""Read SQLite exports of Nsight Systems (tested with versions 2020.3 to 2026.2)."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Self

import duckdb
import pyarrow as pa

from tbd_trace.errors import InputError
from tbd_trace.model.row_range import RowRange
from tbd_trace.sources.base import Ask, TraceDescription
from tbd_trace.sources.duplicate_ids import DUPLICATES_NOTE
from tbd_trace.sources.nsys import diagnostics
from tbd_trace.sources.nsys.columns import DETAILS, EVENTS, NVTX_RANGES
from tbd_trace.sources.nsys.event_stats import EventStats
from tbd_trace.sources.nsys.tables import NsysTables
from tbd_trace.sqlite_io import UnsupportedLayout

_MAPPINGS = Path(__file__).with_name("sql")
_RELATION = re.compile(r"\b(?:FROM|JOIN)\s+(\w+)")
# The first of 128 parts, 1/64 of the events because parts decrease in size, predicts the relations
# below for the others.
_PREVIEW_PARTS = 128
_ENUMERATED = frozenset({"_name", "_nvtx_domain"})  # mappings with texts of every event
_MOST_ENUMERATED = 10_000
# Ranges of buckets, which few files have: their texts decide whether the events are read at all.
_BUCKETS, _BUCKET_TEXT = "collective_record", "_bucket_text"
# Relations computed from open NVTX ranges and domain creations.
_UNENDED_RELATIONS = frozenset({"nvtx_domain_creation", "recording_end"})


@cache
def _text(name: str) -> str | None:
    path = _MAPPINGS / f"{name}.sql"
    return path.read_text(encoding="utf-8") if path.is_file() else None


@cache
def _relations(mapping: str) -> frozenset[str]:
    # Includes relations that the mapping reads through other mappings.
    named = frozenset(_RELATION.findall(_text(mapping) or ""))
    return named.union(*(_relations(name) for name in named if name.startswith("_")))


class NsysReader:
    """Reader of one export.

    Args:
        results: known results of the relations that `NsysTables` computes, by name.

    Raises:
        InputError: the file is damaged or has no known table.
    """

    # A mapping (sql/<table>.sql) selects each canonical table from event tables, which are
    # streamed, lookup tables, which are loaded, other mappings (names that begin with `_`) and
    # relations that NsysTables computes.

    def __init__(self, path: Path, results: Mapping[str, pa.Table] | None = None) -> None:
        self._path = path
        self._tables = NsysTables(path)
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._provided: set[str] = set()
        self._notes: list[str] = []
        self._computed: dict[str, Callable[[], pa.Table]] = {
            "operation_scope": self._tables.operation_scopes,
            "calling_thread": self._tables.calling_threads,
            "sampled_thread": self._tables.sampled_threads,
            "nvtx_domain_creation": self._tables.domain_creations,
            "recording_end": self._tables.recording_end,
        }
        self._results = dict(results or {})
        self._expected: dict[str, pa.Table] = {}  # relations that the readers of parts use
        self._has_open_ranges: list[bool] = []  # by part

    def describe(self, ask: Ask | None = None) -> TraceDescription:
        description = diagnostics.describe(self._tables, ask)
        description.notes += [*self._notes, *diagnostics.incomplete_tables(self._tables, EVENTS)]
        if duplicates := self._tables.duplicate_texts():
            description.notes.append(DUPLICATES_NOTE.format(duplicates))
        return description

    def relation(self, connection: duckdb.DuckDBPyConnection, table: str) -> str | None:
        sql = _text(table)
        if sql is None:
            return None
        events = EVENTS.keys() & set(_RELATION.findall(sql))
        if events and not self._tables.holds(*events):
            return None
        self._prepare(connection)
        if table == _BUCKETS and not self._has_buckets(connection):
            return None
        self._provide(connection, sql)
        if table == "device":
            self._note_devices(connection)
        return sql

    def _has_buckets(self, connection: duckdb.DuckDBPyConnection) -> bool:
        self._provide(connection, f"FROM {_BUCKET_TEXT}")
        ((count,),) = connection.execute(f"SELECT count(*) FROM {_BUCKET_TEXT}").fetchall()
        return bool(count)

    def _prepare(self, connection: duckdb.DuckDBPyConnection) -> None:
        if connection is self._connection:
            return
        self._connection = connection
        self._provided.clear()
        # DuckDB assumes that a stream, whose size is unknown, is small, and would build the hash
        # table of a join from the events instead of the lookup table.
        connection.execute("SET disabled_optimizers = 'join_order,build_side_probe_side'")
        connection.execute(_text("macros") or "")

    def _provide(self, connection: duckdb.DuckDBPyConnection, sql: str) -> None:
        # Events are registered for each mapping, because a stream can be read only once.
        for name in sorted(set(_RELATION.findall(sql)) - self._provided):
            inner = _text(name) if name.startswith("_") else None
            if name in EVENTS:
                connection.register(name, self._tables.stream(name))
                continue
            if name in DETAILS:
                self._tables.load(connection, name)
            elif inner:
                self._provide(connection, inner)
                connection.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS {inner}")
                if name in _ENUMERATED:
                    _enumerate(connection, name)
            elif name in self._computed:
                connection.register(name, self._compute(name))
            else:
                continue  # name from a WITH clause of the mapping
            self._provided.add(name)

    def _compute(self, name: str) -> pa.Table:
        if name not in self._results:
            self._results[name] = self._computed[name]()
        return self._results[name]

    def parallel_rows(self, table: str) -> int:
        """Return an upper bound for the rows to read for a table; see `ParallelReader`."""
        needed = _relations(table)
        if table == _BUCKETS or (needed & self._computed.keys()) - _UNENDED_RELATIONS:
            return 0
        rows = [self._tables.parallel_rows(event) for event in self._present(needed)]
        if not all(rows):
            return 0
        if needed & _UNENDED_RELATIONS and not self._expected:
            try:
                self._expected = _expected(self._path)
            except (UnsupportedLayout, InputError):  # reading the whole table reports the error
                return 0
        return sum(rows)

    def _present(self, relations: frozenset[str]) -> list[str]:
        return sorted(name for name in EVENTS.keys() & relations if self._tables.holds(name))

    def range_opener(self) -> _RangeOpener:
        """Return a function that opens a reader of parts; see `ParallelReader`."""
        return _RangeOpener(self._path, dict(self._expected))

    def select_range(self, row_range: RowRange) -> None:
        """Select the part to read; see `RangeReader`. Lookup tables stay loaded."""
        self._tables.select_range(row_range)

    def collected(self) -> dict[str, EventStats]:
        return self._tables.survey.collected()

    def merge(self, table: str, collected: Sequence[Mapping[str, EventStats]]) -> None:
        for event in self._present(_relations(table)):
            self._tables.join(event, [part[event] for part in collected])
        if _relations(table) & _UNENDED_RELATIONS:
            self._has_open_ranges = [
                any(kind in NVTX_RANGES for kind, _ in part["NVTX_EVENTS"].unended)
                for part in collected
            ]

    def stale(self, table: str) -> list[int]:
        known = {name: self._compute(name) for name in _relations(table) & _UNENDED_RELATIONS}
        new = {name for name in known if not known[name].equals(self._expected[name])}
        self._expected |= known
        # Domain names can be in all rows, the end of the recording only in open ranges.
        if "nvtx_domain_creation" in new:
            return list(range(len(self._has_open_ranges)))
        if "recording_end" in new:
            return [number for number, has in enumerate(self._has_open_ranges) if has]
        return []

    def questions(self, tables: Collection[str]) -> list[str]:
        """Return the queries that `describe` runs on some tables; see `ParallelReader`."""
        return [diagnostics.launch_lag()] if {"kernel", "api_call"}.issubset(tables) else []

    def _note_devices(self, connection: duckdb.DuckDBPyConnection) -> None:
        sql = _text("_device_note") or ""
        self._provide(connection, sql)
        self._notes = [str(note) for (note,) in connection.execute(sql).fetchall()]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._tables.close()


@dataclass(frozen=True, slots=True)
class _RangeOpener:
    path: Path
    expected: Mapping[str, pa.Table]

    def __call__(self) -> NsysReader:
        return NsysReader(self.path, self.expected)


def _enumerate(connection: duckdb.DuckDBPyConnection, table: str) -> None:
    # Makes all texts of a lookup table one type, TABLE_text. DuckDB writes events with an ENUM much
    # faster than with VARCHAR, unless there are too many distinct texts.
    columns = connection.execute(f"DESCRIBE {table}").fetchall()
    texts = [name for name, kind, *_ in columns if kind == "VARCHAR"]
    ((rows,),) = connection.execute(f"SELECT count(*) FROM {table}").fetchall()
    kind = "VARCHAR"
    if rows <= _MOST_ENUMERATED:
        distinct = " UNION ".join(
            f"SELECT {name} FROM {table} WHERE {name} <> ''" for name in texts
        )
        kind = f"ENUM (SELECT '' UNION {distinct} ORDER BY 1)"  # DuckDB rejects an empty ENUM
    connection.execute(f"CREATE OR REPLACE TEMP TYPE {table}_text AS {kind}")
    typed = ", ".join(f"CAST({name} AS {table}_text) AS {name}" for name in texts)
    connection.execute(
        f"CREATE OR REPLACE TEMP TABLE {table} AS SELECT * REPLACE ({typed}) FROM {table}"
    )


def _expected(path: Path) -> dict[str, pa.Table]:
    # Predicted from the first events, which is often right: events are sorted by start, and domains
    # are created before they are used.
    with contextlib.closing(NsysTables(path)) as head:
        head.select_range(RowRange(0, _PREVIEW_PARTS))
        return {
            "nvtx_domain_creation": head.domain_creations(),
            "recording_end": head.recording_end(),
        }
