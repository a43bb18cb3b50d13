"""Nsight Systems' own tables as DuckDB relations, whatever the version of the export."""

from __future__ import annotations

import re
import threading
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from tbd_trace.errors import InputError
from tbd_trace.sources.base import Part
from tbd_trace.sources.duplicate_ids import drop_duplicate_ids
from tbd_trace.sources.nsys.columns import (
    API_CALLS,
    DETAILS,
    EVENTS,
    FACTS,
    GPU_OPERATIONS,
    NO_CALLS,
    NVTX_DOMAIN,
    NVTX_RANGES,
    ROW,
    Columns,
)
from tbd_trace.sources.nsys.event_stats import SURVEYED, Seen, Survey
from tbd_trace.sources.nsys.payload import with_payload
from tbd_trace.sqlite_io import SqliteFile

_TABLES = {**EVENTS, **DETAILS, **FACTS}
_GPU_WORK = re.compile(r"(?i)^(?!ENUM_).*(kernel|memcpy|memset|graph_trace)")
_TIMES = ("start", "end")
_LISTS = frozenset({"TARGET_INFO_GPU"})  # tables with ids that mean something else


class NsysTables:
    """The tables of one export.

    Args:
        path: the file.

    Attributes:
        survey: what the event tables hold as a whole, or in the part that is read.

    Raises:
        InputError: the file is damaged, or has no table that is known here.
    """

    def __init__(self, path: Path) -> None:
        self._file = SqliteFile(path)
        self._part: Part | None = None
        self._lock = threading.Lock()
        self._repeated: dict[str, int] = {}
        self.survey = Survey(self._columns, self._file.tables)
        if not (EVENTS.keys() | DETAILS.keys() - {"StringIds"}) & self._file.tables:
            tables = ", ".join(sorted(self._file.tables)[:3]) or "none"
            self._file.close()
            raise InputError(
                f"{path}: none of the tables of an Nsight Systems export that tbd-trace knows "
                f"(it has: {tables}); update tbd-trace, or export the report with another nsys"
            )

    def turn_to(self, part: Part) -> None:
        """Read only a part of the rows of each event table from now on."""
        self._part = part
        self.survey = Survey(self._columns, self._file.tables)

    def holds(self, *names: str) -> bool:
        """Tell whether any of the tables has rows."""
        return any(self._file.has_rows(name) for name in names)

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

        NVTX events have one column ``payload``. DuckDB may pull several streams at a time, from
        threads of its own.
        """
        rows = self._columns(table, EVENTS[table])
        watched = self.survey.watched(table, rows)
        if table == "NVTX_EVENTS":
            return with_payload(rows.schema, watched)
        return pa.RecordBatchReader.from_batches(rows.schema, watched)

    def _columns(
        self, table: str, columns: Columns, *, not_integer: str | None = None
    ) -> pa.RecordBatchReader:
        reader = self._file.batches(
            table, columns, rowid=ROW, not_integer=not_integer, part=self._part
        )
        return pa.RecordBatchReader.from_batches(reader.schema, self._one_at_a_time(reader))

    def _one_at_a_time(self, reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        while True:
            with self._lock:
                batch = next(reader, None)
            if batch is None:
                return
            yield batch

    def rows_in_parts(self, table: str) -> int:
        """Return how many rows an event table has at most, 0 if it cannot be read in parts."""
        if table not in SURVEYED:
            return 0
        return self._file.rows_in_parts(table, EVENTS[table], ROW)

    def join(self, table: str, seen: Sequence[Seen]) -> None:
        """Take what was seen of all parts of an event table.

        Raises:
            InputError: those are not all its rows; the file is damaged.
        """
        self._file.check_count(table, self.survey.join(table, seen).rows)

    def load(self, connection: duckdb.DuckDBPyConnection, table: str) -> None:
        """Copy a small table into a temporary DuckDB table of the same name."""
        connection.register("nsys_detail", self._file.batches(table, DETAILS[table]))
        connection.execute(f"CREATE OR REPLACE TEMP TABLE {table} AS FROM nsys_detail")
        connection.unregister("nsys_detail")
        if "id" in DETAILS[table] and table not in _LISTS and not self._file.is_key(table, "id"):
            self._repeated[table] = drop_duplicate_ids(connection, table, "id")

    def repeated(self) -> int:
        """Return how many rows of the texts that were loaded repeat the id of another."""
        return self._repeated.get("StringIds", 0)

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
        found = {
            (*key, 1)
            for table in (*GPU_OPERATIONS, "CUDA_GPU_MEMORY_USAGE_EVENTS")
            for key in self.survey.seen(table).keys
        } | {
            (process, None, context, 0)
            for process, context in self.survey.seen("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION").keys
        }
        names = ("globalPid", "deviceId", "contextId", "has_device")
        return _table(_ordered(found), dict.fromkeys(names, pa.int64()))

    def calling_threads(self) -> pa.Table:
        """Return the distinct threads that called an API or NVTX, as a column globalTid."""
        calls = {
            thread
            for table in API_CALLS
            for kind, thread in self.survey.seen(table).keys
            if (kind or 0) not in NO_CALLS
        }
        # 33 and 39 give names, 75 and 76 create and destroy domains.
        nvtx = {
            thread
            for kind, *threads in self.survey.seen("NVTX_EVENTS").keys
            if kind not in (33, 39, 75, 76)
            for thread in threads
        }
        return _threads(calls | nvtx)

    def sampled_threads(self) -> pa.Table:
        """Return the distinct threads that CPU samples met, as a column globalTid."""
        return _threads({thread for (thread,) in self.survey.seen("COMPOSITE_EVENTS").keys})

    def domain_creations(self) -> pa.Table:
        """Return the creations of NVTX domains: globalTid, domainId, start, text, textId."""
        columns = {name: EVENTS["NVTX_EVENTS"][name] for name in _DOMAIN_CREATION}
        wanted = ", ".join(_DOMAIN_CREATION)
        found = ", ".join(map(str, self._unended(NVTX_DOMAIN)))
        return _table(
            self.rows(f"SELECT {wanted} FROM {{NVTX_EVENTS}} WHERE {ROW} IN ({found})"), columns
        )

    def recording_end(self) -> pa.Table:
        """Return where NVTX ranges that were left open end, as one row.

        Columns: latest_ns, the latest time of any operation, call or range (looked for only where
        a range has no end); session_ns, the end of the profiling session.
        """
        tables = (*GPU_OPERATIONS, *API_CALLS, "NVTX_EVENTS") if self._unended(*NVTX_RANGES) else ()
        latest = [time for table in tables if (time := self.survey.seen(table).latest) is not None]
        ((session,),) = self.rows("SELECT max(duration) FROM {ANALYSIS_DETAILS}")
        columns = {"latest_ns": pa.int64(), "session_ns": pa.int64()}
        return _table([(max(latest, default=None), session)], columns)

    def _unended(self, *types: int) -> list[int]:
        """Return the rowids of NVTX events of some types that have no end."""
        return [row for kind, row in self.survey.unended() if kind in types]

    def close(self) -> None:
        """Close the file."""
        self._file.close()


_DOMAIN_CREATION = ("globalTid", "domainId", "start", "text", "textId")


class _Padded(dict[str, str]):
    """SQL of known tables by name: NULL for the columns that a file lacks, the rowids of events."""

    def __init__(self, file: SqliteFile) -> None:
        self._file = file

    def __missing__(self, table: str) -> str:
        present = {name.lower() for name in self._file.columns(table)}
        columns = ", ".join(
            f'"{name}"' if name.lower() in present else f'NULL AS "{name}"'
            for name in _TABLES[table]
        )
        columns += f", rowid AS {ROW}" if present and table in EVENTS else ""
        source = f'FROM "{table}"' if present else "WHERE 0"
        return f"(SELECT {columns} {source})"


def _ordered(rows: Collection[tuple[int | None, ...]]) -> list[tuple[int | None, ...]]:
    """Return rows in an order that does not depend on chance."""
    return sorted(rows, key=lambda row: [(value is not None, value or 0) for value in row])


def _threads(found: Collection[int | None]) -> pa.Table:
    rows = [(thread,) for thread in sorted(t for t in found if t is not None)]
    return _table(rows, {"globalTid": pa.int64()})


def _table(rows: Sequence[tuple[Any, ...]], columns: Columns) -> pa.Table:
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
    wanted = str if kind == pa.string() else int
    return value if isinstance(value, wanted) else None
