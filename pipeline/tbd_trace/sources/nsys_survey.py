"""What the event tables of an Nsight Systems export hold as a whole, from one pass over each.

DuckDB groups a table's rows by thread or process and kind while it is streamed; what is asked
about the table is then answered from a few groups, instead of by a scan of its own.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

import duckdb
import pyarrow as pa

from tbd_trace.errors import InputError
from tbd_trace.interrupts import recognized
from tbd_trace.sources.nsys_columns import API_CALLS, EVENTS, GPU_OPERATIONS, Columns
from tbd_trace.sqltext import identifier

_OPERATION = ("globalPid", "deviceId", "contextId")
_KEYS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(GPU_OPERATIONS, _OPERATION),
    "CUDA_GPU_MEMORY_USAGE_EVENTS": _OPERATION,
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": ("globalPid", "contextId"),
    **dict.fromkeys(API_CALLS, ("eventClass", "globalTid")),
    "NVTX_EVENTS": ("eventType", "globalTid", "endGlobalTid"),
    "COMPOSITE_EVENTS": ("globalTid",),
}
_KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
_RUNTIME = "CUPTI_ACTIVITY_KIND_RUNTIME"
_DOMAIN = 75  # the type of NVTX events that create a domain
_PROCESS = -16777216  # mask: what a global id says about the process

Stream = Callable[[str, Columns], pa.RecordBatchReader]
"""Returns columns of a table; a column or table that is absent is NULL or empty."""


@dataclass(frozen=True, slots=True)
class Group:
    """Rows of a table that share process or thread, and kind.

    Attributes:
        key: the values that they share, in the order of the table's key columns.
        open: how many of them have no end.
        start: the latest start, ns.
        end: the latest end, ns.
        domain_creations: rowids of those that create an NVTX domain.
    """

    key: tuple[int | None, ...]
    open: int
    start: int | None
    end: int | None
    domain_creations: list[int] | None


class Survey:
    """Summaries of the event tables, each made when it is first asked for.

    Args:
        stream: reads the export.
        tables: the tables that it has.
    """

    def __init__(self, stream: Stream, tables: Collection[str]) -> None:
        self._stream = stream
        self._tables = tables
        self._groups: dict[str, list[Group]] = {}
        self._own: duckdb.DuckDBPyConnection | None = None
        self._connection: duckdb.DuckDBPyConnection | None = None

    def use(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Work on this connection, which Ctrl-C interrupts, from now on."""
        self._connection = connection

    def groups(self, table: str) -> list[Group]:
        """Return the groups of rows of an event table, none if it is absent.

        Raises:
            InputError: the file is damaged.
        """
        if table not in self._groups:
            self._groups[table] = self._grouped(table) if table in self._tables else []
        return self._groups[table]

    def _grouped(self, table: str) -> list[Group]:
        keys = ", ".join(map(identifier, _KEYS[table]))
        has_end = "end" in EVENTS[table]
        end = '"end"' if has_end else "start"
        creates = f"eventType = {_DOMAIN}" if table == "NVTX_EVENTS" else "false"
        columns = (*_KEYS[table], "start", *(["end"] if has_end else []))
        with self._streamed(table, columns) as (connection, name):
            rows = connection.execute(
                f"SELECT {keys}, count(*) - count({end}), max(start), max({end}), "
                f"list(row) FILTER (WHERE {creates}) FROM {name} GROUP BY {keys} ORDER BY ALL"
            ).fetchall()
        return [Group(row[:-4], *row[-4:]) for row in rows]

    def unlaunched_kernels(self) -> int:
        """Count the kernels whose launching call is not in the trace.

        Raises:
            InputError: the file is damaged.
        """
        with self._streamed(_KERNEL, ("globalPid", "correlationId")) as (connection, name):
            connection.execute(
                f"""
                CREATE OR REPLACE TEMP TABLE nsys_launched AS
                SELECT
                    coalesce(globalPid & {_PROCESS}, 0) AS process,
                    correlationId AS correlation,
                    count(*) AS kernels
                FROM {name} WHERE correlationId <> 0 GROUP BY ALL
                """
            )
        with self._streamed(_RUNTIME, ("globalTid", "correlationId")) as (connection, name):
            total, launched = connection.execute(
                f"""
                WITH found AS (
                    SELECT DISTINCT process, correlation, kernels
                    FROM {name} AS call
                    INNER JOIN nsys_launched
                        ON process = call.globalTid & {_PROCESS}
                        AND correlation = call.correlationId
                )
                SELECT
                    (SELECT coalesce(sum(kernels), 0) FROM nsys_launched),
                    (SELECT coalesce(sum(kernels), 0) FROM found)
                """
            ).fetchall()[0]
            connection.execute("DROP TABLE nsys_launched")
        return int(total - launched)

    @contextlib.contextmanager
    def _streamed(
        self, table: str, columns: tuple[str, ...]
    ) -> Iterator[tuple[duckdb.DuckDBPyConnection, str]]:
        """Make columns of a table a relation, for one reading."""
        connection, name = self._connection or self._open(), "nsys_surveyed"
        wanted = {column: EVENTS[table].get(column, pa.int64()) for column in columns}
        connection.register(name, self._stream(table, wanted))
        try:
            with recognized():
                yield connection, name
        except duckdb.Error as error:
            # DuckDB turns an exception of a stream into text.
            said = re.search(r"InputError: (.+)", str(error))
            if said is None:
                raise
            raise InputError(said[1]) from error
        finally:
            connection.unregister(name)

    def _open(self) -> duckdb.DuckDBPyConnection:
        if self._own is None:
            self._own = duckdb.connect()
        return self._own

    def close(self) -> None:
        """Close what was opened here."""
        self._connection = None
        if self._own is not None:
            self._own.close()
