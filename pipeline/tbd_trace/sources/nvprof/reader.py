"""Read SQLite databases of nvprof and the Visual Profiler (tested: schema versions 8 to 18)."""

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
from tbd_trace.sources.base import Ask, TraceDescription
from tbd_trace.sources.demangle import can_demangle, demangle, is_mangled, short_name
from tbd_trace.sources.duplicate_ids import DUPLICATES_NOTE, drop_duplicate_ids
from tbd_trace.sources.nvprof import recording_info as facts
from tbd_trace.sources.nvprof.tables import ACTIVITY_PREFIX, RAW_TABLES, STRINGS, load
from tbd_trace.sqlite_io import SqliteFile
from tbd_trace.sqlite_io.detection import has_tables
from tbd_trace.sqltext import csv_relation, identifier

_MAPPINGS = Path(__file__).with_name("sql")
_RELATION = re.compile(r"\b(?:FROM|JOIN)\s+(\w+)")


@cache
def _mapping(name: str) -> str | None:
    path = _MAPPINGS / f"{name}.sql"
    return path.read_text(encoding="utf-8") if path.is_file() else None


class NvprofReader:
    """Reader of one database.

    Raises:
        InputError: the file is damaged.
    """

    # A mapping (sql/<table>.sql) selects each canonical table from raw tables (RAW_TABLES), tables
    # of data/, other mappings (names that begin with `_`) and the relations computed below.

    def __init__(self, path: Path) -> None:
        self._file = SqliteFile(path)
        self._provided: set[str] = set()
        self._still_mangled = 0
        self._repeated = 0
        self._computed: dict[str, Callable[[], pa.Table]] = {
            "kernel_name": self._kernel_names,
            "host_thread": lambda: facts.host_threads(self._file),
            "recording": lambda: facts.recording(self._file),
        }

    def describe(self, ask: Ask | None = None) -> TraceDescription:
        description = facts.describe(self._file)
        if self._repeated:
            description.notes.append(DUPLICATES_NOTE.format(self._repeated))
        if self._still_mangled:
            why = "" if can_demangle() else ": no C++ runtime library (libstdc++) was found"
            description.notes.append(f"{self._still_mangled} kernel names stay mangled{why}")
        return description

    def relation(self, connection: duckdb.DuckDBPyConnection, table: str) -> str | None:
        sql = _mapping(table)
        if sql is None:
            return None
        wanted = self._needs(sql)
        if not self._has_rows(sql, wanted):
            return None
        # The largest raw tables are needed for one canonical table only: free their memory.
        for name in self._provided & RAW_TABLES.keys() - wanted - {STRINGS}:
            connection.execute(f"DROP TABLE {identifier(name)}")
            self._provided.remove(name)
        self._provide(connection, wanted)
        return sql

    def _has_rows(self, sql: str, wanted: set[str]) -> bool:
        # Activity tables that the mapping itself names count, not those of its helpers.
        if "host_thread" in wanted:
            return True
        activities = RAW_TABLES.keys() - {STRINGS}
        named = activities & set(_RELATION.findall(sql))
        return any(map(self._file.has_rows, named or activities & wanted))

    def _needs(self, sql: str) -> set[str]:
        # Includes relations that the mapping reads through other mappings.
        names = set(_RELATION.findall(sql))
        for name in list(names):
            if inner := _helper(name):
                names |= self._needs(inner)
        return names

    def _provide(self, connection: duckdb.DuckDBPyConnection, wanted: set[str]) -> None:
        # Views come last, because they refer to the tables.
        for name in sorted(wanted - self._provided, key=lambda name: (name.startswith("_"), name)):
            if name in RAW_TABLES:
                load(connection, self._file, name)
                if name == STRINGS and not self._file.is_key(name, "_id_"):
                    self._repeated = drop_duplicate_ids(connection, name, "_id_")
            elif view := _helper(name):
                connection.execute(f"CREATE TEMP VIEW {identifier(name)} AS {view}")
            elif name in self._computed:
                connection.register(name, self._computed[name]())
            elif (data := resources.data() / f"{name}.csv").is_file():
                connection.execute(f"CREATE TEMP TABLE {identifier(name)} AS {csv_relation(data)}")
            else:
                continue  # name from a WITH clause of the mapping
            self._provided.add(name)

    def _kernel_names(self) -> pa.Table:
        mangled = facts.kernel_names(self._file)
        names = {string_id: demangle(name) for string_id, name in mangled.items()}
        self._still_mangled = sum(is_mangled(name) for name in names.values())
        return pa.table(
            {
                "string_id": pa.array(names, pa.int64()),
                "name": pa.array(names.values(), pa.string()),
                "short_name": pa.array(map(short_name, names.values()), pa.string()),
                "mangled_name": pa.array(
                    [name if is_mangled(name) else None for name in mangled.values()], pa.string()
                ),
            }
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()


def _helper(name: str) -> str | None:
    return _mapping(name) if name.startswith("_") else None


class NvprofSqliteSource:
    """SQLite databases of nvprof and the Visual Profiler (.nvprof, .nvvp, .sql, .db)."""

    format = "nvprof-sqlite"

    def detect(self, path: Path, head: bytes) -> bool:
        """Return True for a SQLite database with nvprof's string and activity tables."""
        return has_tables(
            path,
            head,
            lambda tables: STRINGS in tables and any(t.startswith(ACTIVITY_PREFIX) for t in tables),
            lambda text: STRINGS.encode() in text and ACTIVITY_PREFIX.encode() in text,
        )

    def open(self, path: Path) -> NvprofReader:
        """Open a detected file.

        Raises:
            InputError: the file is damaged.
        """
        return NvprofReader(path)


NVPROF_SQLITE = NvprofSqliteSource()
