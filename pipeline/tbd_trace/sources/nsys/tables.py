"""Provide the tables of an Nsight Systems export as DuckDB relations, for any export version."""

from __future__ import annotations

import re
import threading
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from tbd_trace.errors import InputError
from tbd_trace.model.row_range import RowRange
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
from tbd_trace.sources.nsys.event_stats import SURVEYED, EventStats, Survey
from tbd_trace.sources.nsys.payload import with_payload
from tbd_trace.sqlite_io import SqliteFile

_TABLES = {**EVENTS, **DETAILS, **FACTS}
_GPU_WORK = re.compile(r"(?i)^(?!ENUM_).*(kernel|memcpy|memset|graph_trace)")
_TIMES = ("start", "end")
_NOT_UNIQUE = frozenset({"TARGET_INFO_GPU"})  # tables whose column `id` is not a key


class NsysTables:
    """Tables of one export.

    Raises:
        InputError: the file is damaged or has no known table.
    """

    def __init__(self, path: Path) -> None:
        self._file = SqliteFile(path)
        self._row_range: RowRange | None = None
        self._lock = threading.Lock()  # DuckDB pulls streams from several threads
        self._duplicates: dict[str, int] = {}
        # Statistics of the event tables, or of the part that is read.
        self.survey = Survey(self._columns, self._file.tables)
        if not (EVENTS.keys() | DETAILS.keys() - {"StringIds"}) & self._file.tables:
            tables = ", ".join(sorted(self._file.tables)[:3]) or "none"
            self._file.close()
            raise InputError(
                f"{path}: no known table of an Nsight Systems export (tables: {tables}); "
                "update tbd-trace, or export the report with another nsys"
            )

    def select_range(self, row_range: RowRange) -> None:
        """Select the part of the rows that later streams of event tables contain."""
        self._row_range = row_range
        self.survey = Survey(self._columns, self._file.tables)

    def holds(self, *names: str) -> bool:
        return any(self._file.has_rows(name) for name in names)

    def unknown_gpu_work(self) -> list[str]:
        """Return unknown tables whose name suggests GPU operations and that are not empty."""
        named = (name for name in self._file.tables - _TABLES.keys() if _GPU_WORK.search(name))
        return sorted(name for name in named if self._file.has_rows(name))

    def missing_times(self, table: str) -> list[str]:
        present = {name.lower() for name in self._file.columns(table)}
        return [name for name in _TIMES if name in EVENTS[table] and name not in present]

    def stream(self, table: str) -> pa.RecordBatchReader:
        """Return a stream of an event table, with SQLite's rowid as column ``row``.

        NVTX events have one column ``payload``.
        """
        rows = self._columns(table, EVENTS[table])
        collecting = self.survey.collecting(table, rows)
        if table == "NVTX_EVENTS":
            return with_payload(rows.schema, collecting)
        return pa.RecordBatchReader.from_batches(rows.schema, collecting)

    def _columns(
        self, table: str, columns: Columns, *, not_integer: str | None = None
    ) -> pa.RecordBatchReader:
        reader = self._file.batches(
            table, columns, rowid=ROW, not_integer=not_integer, row_range=self._row_range
        )
        return pa.RecordBatchReader.from_batches(reader.schema, self._locked_batches(reader))

    def _locked_batches(self, reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        while True:
            with self._lock:
                batch = next(reader, None)
            if batch is None:
                return
            yield batch

    def parallel_rows(self, table: str) -> int:
        """Return an upper bound for the rows of an event table, 0 if it has no parts."""
        if table not in SURVEYED:
            return 0
        return self._file.parallel_rows(table, EVENTS[table], ROW)

    def join(self, table: str, parts: Sequence[EventStats]) -> None:
        """Store the statistics of all parts of an event table.

        Raises:
            InputError: the parts do not contain all rows, so the file is damaged.
        """
        self._file.check_count(table, self.survey.join(table, parts).rows)

    def load(self, connection: duckdb.DuckDBPyConnection, table: str) -> None:
        """Copy a lookup table into a temporary DuckDB table of the same name."""
        connection.register("nsys_detail", self._file.batches(table, DETAILS[table]))
        connection.execute(f"CREATE OR REPLACE TEMP TABLE {table} AS FROM nsys_detail")
        connection.unregister("nsys_detail")
        if (
            "id" in DETAILS[table]
            and table not in _NOT_UNIQUE
            and not self._file.is_key(table, "id")
        ):
            self._duplicates[table] = drop_duplicate_ids(connection, table, "id")

    def duplicate_texts(self) -> int:
        """Return the number of texts that were dropped because their id repeats."""
        return self._duplicates.get("StringIds", 0)

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """Run a SQLite query with few result rows.

        ``{TABLE}`` in the statement is the table with all columns of `nsys.columns`.

        Raises:
            InputError: the file is damaged.
        """
        with self._lock:
            return self._file.rows(statement.format_map(_Padded(self._file)))

    def operation_scopes(self) -> pa.Table:
        # Synchronizations do not record the device: has_device is 0.
        scopes = {
            (*key, 1)
            for table in (*GPU_OPERATIONS, "CUDA_GPU_MEMORY_USAGE_EVENTS")
            for key in self.survey.stats(table).keys
        } | {
            (process, None, context, 0)
            for process, context in self.survey.stats("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION").keys
        }
        names = ("globalPid", "deviceId", "contextId", "has_device")
        return _table(_ordered(scopes), dict.fromkeys(names, pa.int64()))

    def calling_threads(self) -> pa.Table:
        calls = {
            thread
            for table in API_CALLS
            for kind, thread in self.survey.stats(table).keys
            if (kind or 0) not in NO_CALLS
        }
        # NvtxCategory, NvtxThread, NvtxDomainCreate and NvtxDomainDestroy.
        nvtx = {
            thread
            for kind, *threads in self.survey.stats("NVTX_EVENTS").keys
            if kind not in (33, 39, 75, 76)
            for thread in threads
        }
        return _threads(calls | nvtx)

    def sampled_threads(self) -> pa.Table:
        return _threads({thread for (thread,) in self.survey.stats("COMPOSITE_EVENTS").keys})

    def domain_creations(self) -> pa.Table:
        columns = {name: EVENTS["NVTX_EVENTS"][name] for name in _DOMAIN_CREATION}
        wanted = ", ".join(_DOMAIN_CREATION)
        row_ids = ", ".join(map(str, self._unended(NVTX_DOMAIN)))
        return _table(
            self.rows(f"SELECT {wanted} FROM {{NVTX_EVENTS}} WHERE {ROW} IN ({row_ids})"), columns
        )

    def recording_end(self) -> pa.Table:
        """Return one row with the times at which open NVTX ranges can be closed.

        ``latest_ns`` is the latest time of any event, ``session_ns`` the end of the session.
        """
        # The latest time requires reading whole tables: only if a range is open.
        tables = (*GPU_OPERATIONS, *API_CALLS, "NVTX_EVENTS") if self._unended(*NVTX_RANGES) else ()
        latest = [time for table in tables if (time := self.survey.stats(table).latest) is not None]
        ((session,),) = self.rows("SELECT max(duration) FROM {ANALYSIS_DETAILS}")
        columns = {"latest_ns": pa.int64(), "session_ns": pa.int64()}
        return _table([(max(latest, default=None), session)], columns)

    def _unended(self, *types: int) -> list[int]:
        return [row for kind, row in self.survey.unended() if kind in types]

    def close(self) -> None:
        self._file.close()


_DOMAIN_CREATION = ("globalTid", "domainId", "start", "text", "textId")


class _Padded(dict[str, str]):
    # Maps a table name to a subquery in which absent columns are NULL; events have their rowid.

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
    # A set has no defined order, and rows become canonical tables; NULL sorts first.
    return sorted(rows, key=lambda row: [(value is not None, value or 0) for value in row])


def _threads(threads: Collection[int | None]) -> pa.Table:
    rows = [(thread,) for thread in sorted(t for t in threads if t is not None)]
    return _table(rows, {"globalTid": pa.int64()})


def _table(rows: Sequence[tuple[Any, ...]], columns: Columns) -> pa.Table:
    # SQLite does not enforce types: values of another type become NULL.
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
