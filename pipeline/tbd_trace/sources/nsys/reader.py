"""Reader of Nsight Systems' SQLite exports (2020.3 to 2026.2 seen; others as far as they go)."""

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
from tbd_trace.sources.base import Ask, Part, TraceDescription
from tbd_trace.sources.duplicate_ids import DUPLICATES_NOTE
from tbd_trace.sources.nsys import diagnostics
from tbd_trace.sources.nsys.columns import DETAILS, EVENTS, NVTX_RANGES
from tbd_trace.sources.nsys.event_stats import Seen
from tbd_trace.sources.nsys.tables import NsysTables
from tbd_trace.sqlite_io import SqliteFile, UnsupportedLayout

_MAPPINGS = Path(__file__).with_name("sql")
_RELATION = re.compile(r"\b(?:FROM|JOIN)\s+(\w+)")
# The first of so many parts of the events, a 64th of all, is looked at before the others.
_HEADS = 128
_ENUMERATED = frozenset({"_name", "_nvtx_domain"})  # mappings whose texts go with every event
_MOST_ENUMERATED = 10_000
_OF_UNENDED = frozenset({"nvtx_domain_creation", "recording_end"})  # worked out from those events
_CHARACTERISTIC = re.compile(
    r"CUPTI_ACTIVITY_KIND_\w+|TARGET_INFO_\w+|NVTX_EVENTS|OSRT_API|ANALYSIS_DETAILS|"
    r"EXPORT_META_DATA|META_DATA_EXPORT|META_DATA_CAPTURE"
)


@cache
def _text(name: str) -> str | None:
    """Return the text of one file of mappings, None if there is none."""
    path = _MAPPINGS / f"{name}.sql"
    return path.read_text(encoding="utf-8") if path.is_file() else None


@cache
def _relations(mapping: str) -> frozenset[str]:
    """Return the relations that a mapping reads, also through other mappings."""
    named = frozenset(_RELATION.findall(_text(mapping) or ""))
    return named.union(*(_relations(name) for name in named if name.startswith("_")))


class NsysReader:
    """One open export.

    A mapping (``sql/<table>.sql``) makes each canonical table out of event tables,
    which are streamed, small tables, which are loaded (``nsys_columns``), other mappings (their
    names begin with ``_``) and the relations that ``NsysTables`` works out.

    Args:
        path: the file.
        worked_out: relations that somebody has worked out already, by their names.

    Raises:
        InputError: the file is damaged, or has no table that is known.
    """

    def __init__(self, path: Path, worked_out: Mapping[str, pa.Table] | None = None) -> None:
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
        self._worked_out = dict(worked_out or {})
        self._expected: dict[str, pa.Table] = {}
        self._has_open_ranges: list[bool] = []  # by part

    def describe(self, ask: Ask | None = None) -> TraceDescription:
        """Return what the file says about itself; see ``TraceReader``."""
        description = diagnostics.describe(self._tables, ask)
        description.notes += [*self._notes, *diagnostics.unread(self._tables, EVENTS)]
        if repeated := self._tables.repeated():
            description.notes.append(DUPLICATES_NOTE.format(repeated))
        return description

    def relation(self, connection: duckdb.DuckDBPyConnection, table: str) -> str | None:
        """Return the mapping of one canonical table; see ``TraceReader``."""
        sql = _text(table)
        if sql is None:
            return None
        events = EVENTS.keys() & set(_RELATION.findall(sql))
        if events and not self._tables.holds(*events):
            return None
        self._prepare(connection)
        self._provide(connection, sql)
        if table == "device":
            self._note_devices(connection)
        return sql

    def _prepare(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Set up a connection that is used for the first time."""
        if connection is self._connection:
            return
        self._connection = connection
        self._provided.clear()
        # A stream has no known size; without this DuckDB takes it for small and builds the hash
        # table of a join from the events instead of from the table that explains them.
        connection.execute("SET disabled_optimizers = 'join_order,build_side_probe_side'")
        connection.execute(_text("macros") or "")

    def _provide(self, connection: duckdb.DuckDBPyConnection, sql: str) -> None:
        """Make the relations that a mapping reads; events anew, as a stream is read once."""
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
                connection.register(name, self._work_out(name))
            else:
                continue  # a name of the mapping's own WITH clause
            self._provided.add(name)

    def _work_out(self, name: str) -> pa.Table:
        """Return a relation that is computed, once."""
        if name not in self._worked_out:
            self._worked_out[name] = self._computed[name]()
        return self._worked_out[name]

    def rows_in_parts(self, table: str) -> int:
        """Return how many rows are read for a canonical table; see ``PartedReader``."""
        needed = _relations(table)
        if (needed & self._computed.keys()) - _OF_UNENDED:
            return 0
        rows = [self._tables.rows_in_parts(event) for event in self._present(needed)]
        if not all(rows):
            return 0
        if needed & _OF_UNENDED and not self._expected:
            try:
                self._expected = _expected(self._path)
            except (UnsupportedLayout, InputError):  # reading the whole table says what is wrong
                return 0
        return sum(rows)

    def _present(self, relations: frozenset[str]) -> list[str]:
        """Return the event tables among some relations that have rows."""
        return sorted(name for name in EVENTS.keys() & relations if self._tables.holds(name))

    def part_opener(self) -> _PartOpener:
        """Return what opens a reader of parts; see ``PartedReader``."""
        return _PartOpener(self._path, dict(self._expected))

    def turn_to(self, part: Part) -> None:
        """Read a part from now on; see ``PartReader``. What small tables say stays."""
        self._tables.turn_to(part)

    def seen(self) -> dict[str, Seen]:
        """Return what the event tables of a part are; see ``PartReader``."""
        return self._tables.survey.seen_so_far()

    def note(self, table: str, seen: Sequence[Mapping[str, Seen]]) -> None:
        """Take what was seen of all parts; see ``PartedReader``."""
        for event in self._present(_relations(table)):
            self._tables.join(event, [part[event] for part in seen])
        if _relations(table) & _OF_UNENDED:
            self._has_open_ranges = [
                any(kind in NVTX_RANGES for kind, _ in part["NVTX_EVENTS"].unended) for part in seen
            ]

    def outdated(self, table: str) -> list[int]:
        """Return which parts are to be read again; see ``PartedReader``."""
        known = {name: self._work_out(name) for name in _relations(table) & _OF_UNENDED}
        new = {name for name in known if not known[name].equals(self._expected[name])}
        self._expected |= known
        if "nvtx_domain_creation" in new:
            return list(range(len(self._has_open_ranges)))
        if "recording_end" in new:
            return [number for number, has in enumerate(self._has_open_ranges) if has]
        return []

    def questions(self, tables: Collection[str]) -> list[str]:
        """Return what ``describe`` will ask of some tables; see ``PartedReader``."""
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
class _PartOpener:
    """Opens a reader of parts, to which it says what the whole file is expected to be."""

    path: Path
    expected: Mapping[str, pa.Table]

    def __call__(self) -> NsysReader:
        return NsysReader(self.path, self.expected)


def _enumerate(connection: duckdb.DuckDBPyConnection, table: str) -> None:
    """Make one type, ``<table>_text``, of all texts of a small table, and give it to its columns.

    It is an enumeration, which is written much faster than texts and comes out as texts; but plain
    VARCHAR where there are too many texts for that to pay.
    """
    columns = connection.execute(f"DESCRIBE {table}").fetchall()
    texts = [name for name, kind, *_ in columns if kind == "VARCHAR"]
    ((rows,),) = connection.execute(f"SELECT count(*) FROM {table}").fetchall()
    kind = "VARCHAR"
    if rows <= _MOST_ENUMERATED:
        found = " UNION ".join(f"SELECT {name} FROM {table} WHERE {name} <> ''" for name in texts)
        kind = f"ENUM (SELECT '' UNION {found} ORDER BY 1)"  # DuckDB wants one text at least
    connection.execute(f"CREATE OR REPLACE TEMP TYPE {table}_text AS {kind}")
    typed = ", ".join(f"CAST({name} AS {table}_text) AS {name}" for name in texts)
    connection.execute(
        f"CREATE OR REPLACE TEMP TABLE {table} AS SELECT * REPLACE ({typed}) FROM {table}"
    )


def _expected(path: Path) -> dict[str, pa.Table]:
    """Return what the first NVTX events say of those without an end, which is often all.

    Events are in the order of their starts: domains are created before they are used.

    Raises:
        InputError: the file is damaged.
        UnsupportedLayout: it cannot be read in parts.
    """
    with contextlib.closing(NsysTables(path)) as head:
        head.turn_to(Part(0, _HEADS))
        return {
            "nvtx_domain_creation": head.domain_creations(),
            "recording_end": head.recording_end(),
        }


class NsysSqliteSource:
    """SQLite exports of Nsight Systems (``nsys export --type sqlite``, ``nsys stats``)."""

    format = "nsys-sqlite"

    def detect(self, path: Path, head: bytes) -> bool:
        """Tell whether a file is a SQLite database with Nsight Systems' tables."""
        if not SqliteFile.has_magic(head):
            return False
        try:
            with SqliteFile(path) as file:
                tables = file.tables
        except InputError:  # truncated: its first pages still tell what it was, for a clear error
            text = head.decode("latin-1")
            return "StringIds" in text and _CHARACTERISTIC.search(text) is not None
        return "StringIds" in tables and any(map(_CHARACTERISTIC.fullmatch, tables))

    def open(self, path: Path) -> NsysReader:
        """Open a detected file.

        Raises:
            InputError: the file is damaged, or has no table that is known.
        """
        return NsysReader(path)


NSYS_SQLITE = NsysSqliteSource()
