"""Nsight Systems' own tables as DuckDB relations, whatever the version of the export."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from tbd_trace.errors import InputError
from tbd_trace.sources.nsys_columns import (
    API_CALLS,
    DETAILS,
    EVENTS,
    FACTS,
    GPU_OPERATIONS,
    NO_CALLS,
    Columns,
)
from tbd_trace.sources.sqlite import SqliteFile

_TABLES = {**EVENTS, **DETAILS, **FACTS}
_GPU_WORK = re.compile(r"(?i)^(?!ENUM_).*(kernel|memcpy|memset|graph_trace)")
_ROW = "row"
_TIMES = ("start", "end")


class NsysTables:
    """The tables of one export.

    Args:
        path: the file.

    Raises:
        InputError: the file is damaged, or has no table that is known here.
    """

    def __init__(self, path: Path) -> None:
        self._file = SqliteFile(path)
        self._lock = threading.Lock()
        if not (EVENTS.keys() | DETAILS.keys() - {"StringIds"}) & self._file.tables:
            tables = ", ".join(sorted(self._file.tables)[:3]) or "none"
            self._file.close()
            raise InputError(
                f"{path}: none of the tables of an Nsight Systems export that tbd-trace knows "
                f"(it has: {tables}); update tbd-trace, or export the report with another nsys"
            )

    def holds(self, *names: str) -> bool:
        """Tell whether any of the tables has rows."""
        return any(self._file.has_rows(name) for name in names)

    def holds_marks(self) -> bool:
        """Tell whether any NVTX event is a mark (types 34 and 65)."""
        found = self.rows("SELECT 1 FROM {NVTX_EVENTS} WHERE eventType IN (34, 65) LIMIT 1")
        return found != []

    def unknown_gpu_work(self) -> list[str]:
        """Return the tables with rows that look like GPU operations, and are not known here."""
        named = (name for name in self._file.tables - _TABLES.keys() if _GPU_WORK.search(name))
        return sorted(name for name in named if self._file.has_rows(name))

    def lacking(self, table: str) -> list[str]:
        """Return the columns for the times of an event that a table should have and has not."""
        present = {name.lower() for name in self._file.columns(table)}
        return [name for name in _TIMES if name in EVENTS[table] and name not in present]

    def stream(self, table: str) -> pa.RecordBatchReader:
        """Return the rows of an event table, with SQLite's rowid as ``row``, for one reading.

        DuckDB may pull several streams at a time, from threads of its own.
        """
        reader = self._file.batches(table, EVENTS[table], rowid=_ROW)
        return pa.RecordBatchReader.from_batches(reader.schema, self._one_at_a_time(reader))

    def _one_at_a_time(self, reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        while True:
            with self._lock:
                batch = next(reader, None)
            if batch is None:
                return
            yield batch

    def load(self, connection: duckdb.DuckDBPyConnection, table: str) -> None:
        """Copy a small table into a temporary DuckDB table of the same name."""
        connection.register("nsys_detail", self._file.batches(table, DETAILS[table]))
        connection.execute(f"CREATE OR REPLACE TEMP TABLE {table} AS FROM nsys_detail")
        connection.unregister("nsys_detail")

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """Run a SQLite query with few result rows.

        Args:
            statement: the query; ``{TABLE}`` stands for a table in which every column that is
                known here exists.

        Raises:
            InputError: the file is damaged.
        """
        with self._lock:
            return self._file.rows(statement.format_map(_Padded(self._file)))

    def operation_scopes(self) -> pa.Table:
        """Return the distinct processes, devices and contexts of GPU operations.

        Columns: globalPid, deviceId, contextId, has_device (false: the device is not recorded).
        """
        recorded = (*GPU_OPERATIONS, "CUDA_GPU_MEMORY_USAGE_EVENTS")
        union = " UNION ".join(
            f"SELECT globalPid, {device}, contextId, {known} FROM {{{table}}}"
            for table, device, known in (
                *((table, "deviceId", 1) for table in recorded),
                ("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", "NULL", 0),
            )
        )
        names = ("globalPid", "deviceId", "contextId", "has_device")
        return _table(self.rows(union), dict.fromkeys(names, pa.int64()))

    def calling_threads(self) -> pa.Table:
        """Return the distinct threads that called an API or NVTX, as a column globalTid."""
        calls = (
            f"SELECT globalTid FROM {{{table}}} WHERE coalesce(eventClass, 0) NOT IN {NO_CALLS}"
            for table in API_CALLS
        )
        # 33 and 39 give names, 75 and 76 create and destroy domains.
        nvtx = (
            f"SELECT {thread} FROM {{NVTX_EVENTS}} "
            "WHERE coalesce(eventType, 59) NOT IN (33, 39, 75, 76)"
            for thread in ("globalTid", "endGlobalTid")
        )
        return self._threads(" UNION ".join((*calls, *nvtx)))

    def sampled_threads(self) -> pa.Table:
        """Return the distinct threads that CPU samples met, as a column globalTid."""
        return self._threads("SELECT DISTINCT globalTid FROM {COMPOSITE_EVENTS}")

    def _threads(self, statement: str) -> pa.Table:
        found = [row for row in self.rows(statement) if row[0] is not None]
        return _table(found, {"globalTid": pa.int64()})

    def domain_creations(self) -> pa.Table:
        """Return the creations of NVTX domains: globalTid, domainId, start, text, textId."""
        columns = {name: EVENTS["NVTX_EVENTS"][name] for name in _DOMAIN_CREATION}
        wanted = ", ".join(_DOMAIN_CREATION)
        return _table(
            self.rows(f"SELECT {wanted} FROM {{NVTX_EVENTS}} WHERE eventType = 75"), columns
        )

    def recording_end(self) -> pa.Table:
        """Return where NVTX ranges that were left open end, as one row.

        Columns: latest_ns, the latest time of any operation, call or range (looked for only where
        a range has no end); session_ns, the end of the profiling session.
        """
        latest = (
            f'SELECT max(max(start), coalesce(max("end"), max(start))) AS t FROM {{{table}}}'
            for table in (*GPU_OPERATIONS, *API_CALLS, "NVTX_EVENTS")
        )
        is_open = self.rows(
            'SELECT 1 FROM {NVTX_EVENTS} WHERE "end" IS NULL '
            "AND eventType IN (59, 60, 70, 71) LIMIT 1"
        )
        end = f"(SELECT max(t) FROM ({' UNION ALL '.join(latest)}))" if is_open else "NULL"
        session = "(SELECT max(duration) FROM {ANALYSIS_DETAILS})"
        columns = {"latest_ns": pa.int64(), "session_ns": pa.int64()}
        return _table(self.rows(f"SELECT {end}, {session}"), columns)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


_DOMAIN_CREATION = ("globalTid", "domainId", "start", "text", "textId")


class _Padded(dict[str, str]):
    """SQL of known tables by name, with NULL for the columns that a file lacks."""

    def __init__(self, file: SqliteFile) -> None:
        self._file = file

    def __missing__(self, table: str) -> str:
        present = {name.lower() for name in self._file.columns(table)}
        columns = ", ".join(
            f'"{name}"' if name.lower() in present else f'NULL AS "{name}"'
            for name in _TABLES[table]
        )
        source = f'FROM "{table}"' if present else "WHERE 0"
        return f"(SELECT {columns} {source})"


def _table(rows: list[tuple[Any, ...]], columns: Columns) -> pa.Table:
    """Return rows as an Arrow table; a value of another type is NULL."""
    values = zip(*rows, strict=True) if rows else ([] for _ in columns)
    return pa.table(
        [
            pa.array([_fits(v, kind) for v in column], type=kind)
            for column, kind in zip(values, columns.values(), strict=True)
        ],
        names=list(columns),
    )


def _fits(value: Any, kind: pa.DataType) -> Any:
    wanted = str if pa.types.is_string(kind) else int
    return value if isinstance(value, wanted) else None
