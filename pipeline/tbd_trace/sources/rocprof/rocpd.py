"""Read ``rocpd`` databases, the default output of rocprofv3 since ROCm 7 (schema version 3)."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

import duckdb

from tbd_trace.sources.base import Ask, TraceDescription
from tbd_trace.sources.rocprof.reader import COUNTERS_NOTE, RELATIONS, RocprofReader, mapping
from tbd_trace.sources.rocprof.tables import PREFIX, TABLES, load, recordings
from tbd_trace.sqlite_io import SqliteFile
from tbd_trace.sqlite_io.detection import has_tables
from tbd_trace.sqltext import identifier

_KNOWN = tuple(PREFIX + name for name in ("info_", "kernel_dispatch", "region"))


class RocpdReader(RocprofReader):
    """Reader of one database.

    Raises:
        InputError: the file is damaged.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._file = SqliteFile(path)

    def load(self, connection: duckdb.DuckDBPyConnection) -> None:
        for name in TABLES:
            load(connection, self._file, name)
        for name in RELATIONS:
            connection.execute(
                f"CREATE OR REPLACE TEMP TABLE record_{name} AS {mapping(f'rocpd/{name}')}"
            )
        for name in TABLES:
            connection.execute(f"DROP TABLE {identifier(f'raw_{name}')}")

    def describe(self, _ask: Ask | None = None) -> TraceDescription:
        parts = recordings(self._file)
        metadata = dict(
            row
            for part in parts
            if f"{PREFIX}metadata{part}" in self._file.tables
            for row in self._file.rows(
                f"SELECT tag, value FROM {identifier(f'{PREFIX}metadata{part}')}"
            )
        )
        description = TraceDescription(
            "rocprof", "timeline", schema_version=metadata.get("schema_version")
        )
        if any(self._file.has_rows(f"{PREFIX}pmc_event{part}") for part in parts):
            description.notes.append(COUNTERS_NOTE)
        return description

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()


class RocpdSource:
    """SQLite databases of rocprofv3 (``*_results.db``)."""

    format = "rocpd-sqlite"

    def detect(self, path: Path, head: bytes) -> bool:
        """Return True for a SQLite database with tables of rocpd."""
        return has_tables(
            path,
            head,
            lambda tables: any(name.startswith(_KNOWN) for name in tables),
            lambda text: any(name.encode() in text for name in _KNOWN),
        )

    def open(self, path: Path) -> RocpdReader:
        """Open a detected file.

        Raises:
            InputError: the file is damaged.
        """
        return RocpdReader(path)


ROCPD = RocpdSource()
