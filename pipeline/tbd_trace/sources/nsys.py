"""Reader of Nsight Systems' SQLite exports (2020.3 to 2026.2 seen; others as far as they go)."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Self

import duckdb
import pyarrow as pa

from tbd_trace import resources
from tbd_trace.errors import InputError
from tbd_trace.sources import nsys_notes
from tbd_trace.sources.base import TraceDescription
from tbd_trace.sources.nsys_columns import DETAILS, EVENTS
from tbd_trace.sources.nsys_tables import NsysTables
from tbd_trace.sources.sqlite import SQLITE_MAGIC, SqliteFile

_MAPPINGS = Path("ingest") / "nsys"
_RELATION = re.compile(r"\b(?:FROM|JOIN)\s+(\w+)")
_CHARACTERISTIC = re.compile(
    r"CUPTI_ACTIVITY_KIND_\w+|TARGET_INFO_\w+|NVTX_EVENTS|OSRT_API|ANALYSIS_DETAILS|"
    r"EXPORT_META_DATA|META_DATA_EXPORT|META_DATA_CAPTURE"
)


@cache
def _text(name: str) -> str | None:
    """Return the text of one file of mappings, None if there is none."""
    path = resources.queries() / _MAPPINGS / f"{name}.sql"
    return path.read_text(encoding="utf-8") if path.is_file() else None


class NsysReader:
    """One open export.

    A mapping (``queries/ingest/nsys/<table>.sql``) makes each canonical table out of event tables,
    which are streamed, small tables, which are loaded (``nsys_columns``), other mappings (their
    names begin with ``_``) and the relations that ``NsysTables`` works out.

    Args:
        path: the file.

    Raises:
        InputError: the file is damaged, or has no table that is known.
    """

    def __init__(self, path: Path) -> None:
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

    def describe(self, written: duckdb.DuckDBPyConnection | None = None) -> TraceDescription:
        """Return what the file says about itself; see ``TraceReader``."""
        description = nsys_notes.describe(self._tables, written)
        description.notes += [*self._notes, *nsys_notes.unread(self._tables, EVENTS)]
        return description

    def relation(self, connection: duckdb.DuckDBPyConnection, table: str) -> str | None:
        """Return the mapping of one canonical table; see ``TraceReader``."""
        sql = _text(table)
        if sql is None:
            return None
        events = EVENTS.keys() & set(_RELATION.findall(sql))
        if events and not self._tables.holds(*events):
            return None
        if table == "nvtx_mark" and not self._tables.holds_marks():
            return None  # marks are rare: do not read millions of ranges for them
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
            elif name in self._computed:
                connection.register(name, self._computed[name]())
            else:
                continue  # a name of the mapping's own WITH clause
            self._provided.add(name)

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


class NsysSqliteSource:
    """SQLite exports of Nsight Systems (``nsys export --type sqlite``, ``nsys stats``)."""

    format = "nsys-sqlite"

    def detect(self, path: Path, head: bytes) -> bool:
        """Tell whether a file is a SQLite database with Nsight Systems' tables."""
        if not head.startswith(SQLITE_MAGIC):
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
