"""Write Nsight Systems exports of millions of rows, in an old and a new schema.

`NsysWriter` writes the small tables. Event tables are filled from plain tuples with the columns
that vary: creating a row object each would take longer than SQLite's insert.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from nsys_schema import (
    COPY_HTOD,
    DEVICE,
    NO_EVENT,
    PINNED,
    RUNTIME_CALL,
    SYNC_STREAM,
    TABLES,
    Kernel,
    Memcpy,
    Memset,
    NullStream,
    Nvtx,
    Runtime,
    Synchronization,
)
from nsys_writer import MACHINE_ID, NsysWriter, a100, create_table

SCHEMAS = ("2022.4", "3.25")  # nsys 2022.4 (schema 3.0) and nsys 2026.2 (schema 3.25)

Row = tuple[Any, ...]
Kind = type[tuple[Any, ...]]

_OPERATION = "start, end, deviceId, contextId, streamId, correlationId, globalPid"
# Per table: columns with a value per row, columns with constant values, and those values.
_FILLED: dict[Kind, tuple[str, str, str]] = {
    Kernel: (
        f"{_OPERATION}, demangledName, shortName, mangledName, gridX, blockX, registersPerThread, "
        "staticSharedMemory, dynamicSharedMemory, gridId",
        "launchType, cacheConfig, gridY, gridZ, blockY, blockZ, localMemoryPerThread, "
        "localMemoryTotal, sharedMemoryExecuted, sharedMemoryLimitConfig",
        "1, 0, 1, 1, 1, 1, 0, 154140672, 102400, 0",
    ),
    Memcpy: (f"{_OPERATION}, bytes", "copyKind, srcKind, dstKind", f"{COPY_HTOD}, {PINNED}, 2"),
    Memset: (f"{_OPERATION}, bytes", "value, memKind", f"0, {DEVICE}"),
    Synchronization: (_OPERATION, "syncType, eventId", f"{SYNC_STREAM}, {NO_EVENT}"),
    Runtime: (
        "start, end, globalTid, correlationId, nameId",
        "eventClass, returnValue",
        f"{RUNTIME_CALL}, 0",
    ),
    Nvtx: (
        "start, end, eventType, rangeId, text, globalTid, endGlobalTid, textId",
        "domainId",
        "0",
    ),
}

# Columns that schema 3.25 adds: (preceding column, definition).
_GREEN = ("contextId", "greenContextId INTEGER")
_ADDED: dict[Kind, tuple[tuple[str, str], ...]] = {
    Kernel: (
        _GREEN,
        (
            "sharedMemoryLimitConfig",
            "qmdBulkReleaseDone INTEGER, qmdPreexitDone INTEGER, qmdLastCtaDone INTEGER, "
            "graphId INTEGER, clusterX INTEGER, clusterY INTEGER, clusterZ INTEGER, "
            "clusterSchedulingPolicy INTEGER, maxPotentialClusterSize INTEGER, "
            "maxActiveClusters INTEGER, sharedMemoryRequestedPercentage INTEGER, "
            "tensorSizeMinusOneElements TEXT NOT NULL",
        ),
    ),
    Memcpy: (_GREEN, ("virtualAddress", "copyCount INTEGER")),
    Memset: (_GREEN,),
    Synchronization: (
        _GREEN,
        ("globalPid", "deprecatedSyncType INTEGER"),
        ("eventId", "eventSyncId INTEGER"),
    ),
    Nvtx: (("jsonText", "binaryData TEXT"),),
}
_KERNEL_ADDED = (
    ", clusterX, clusterY, clusterZ, clusterSchedulingPolicy, tensorSizeMinusOneElements",
    ", 0, 0, 0, 0, ''",
)
_CONTEXT_INFO = """CREATE TABLE TARGET_INFO_CUDA_CONTEXT_INFO (
    nullStreamId INTEGER NOT NULL, hwId INTEGER NOT NULL, vmId INTEGER NOT NULL,
    processId INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL,
    parentContextId INTEGER, isGreenContext INTEGER, numMultiprocessors INTEGER, numTpcs INTEGER,
    tpcMask TEXT, workqueueResourceId INTEGER, workqueueConcurrencyLimit INTEGER,
    workqueueSharingScope INTEGER)"""
_CUDA_DEVICE = """CREATE TABLE TARGET_INFO_CUDA_DEVICE (
    gpuId INTEGER, cudaId INTEGER NOT NULL, pid INTEGER NOT NULL, uuid TEXT,
    numMultiprocessors INTEGER)"""


class Export(NsysWriter):
    """A large export in progress; use it in a ``with`` block.

    ``path`` is replaced, and removed after an error; ``utc_start_ns`` is the UTC epoch time of
    trace time 0.
    """

    def __init__(self, path: Path, *, schema: str, utc_start_ns: int) -> None:
        self._new = schema == "3.25"
        self._inserts: dict[Kind, str] = {}
        super().__init__(path, utc_start_ns=utc_start_ns, origin="made.nsys-rep")

    def extend(self, kind: Kind, rows: Iterable[Row]) -> None:
        """Append rows to an event table; ``_FILLED`` lists the values of a row."""
        if kind not in self._inserts:
            self._connection.execute(self._create(kind))
            self._inserts[kind] = self._insert(kind)
        self._connection.executemany(self._inserts[kind], rows)

    def gpu(self, number: int, pid: int, context: int) -> None:
        """Record a GPU, the process that uses it, and their context."""
        gpu = a100(number)
        self.add(gpu)
        if not self._new:
            self.add(NullStream(7, 0, MACHINE_ID, pid, number, context))
            return
        for table in (_CONTEXT_INFO, _CUDA_DEVICE):
            self._connection.execute(table.replace("CREATE TABLE", "CREATE TABLE IF NOT EXISTS"))
        self._connection.execute(
            "INSERT INTO TARGET_INFO_CUDA_CONTEXT_INFO VALUES "
            "(7, 0, ?, ?, ?, ?, NULL, 0, 108, 54, '', NULL, NULL, NULL)",
            (MACHINE_ID, pid, number, context),
        )
        self._connection.execute(
            "INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (?, 0, ?, ?, 108)",
            (number, pid, gpu.uuid),
        )

    def _create(self, kind: Kind) -> str:
        statement = create_table(kind)
        for column, added in _ADDED.get(kind, ()) if self._new else ():
            statement = re.sub(rf'("{column}" [^,)]*)', rf"\1, {added}", statement)
        return statement

    def _insert(self, kind: Kind) -> str:
        given, constant, values = _FILLED[kind]
        if kind is Kernel and self._new:
            constant, values = constant + _KERNEL_ADDED[0], values + _KERNEL_ADDED[1]
        columns = re.sub(r"\w+", r'"\g<0>"', f"{given}, {constant}")
        marks = ", ".join("?" * len(given.split(",")))
        return f"INSERT INTO {TABLES[kind]} ({columns}) VALUES ({marks}, {values})"

    def _meta_data(self, origin: str) -> None:
        if not self._new:
            super()._meta_data(origin)
            return
        facts = {
            "EXPORT_PRODUCT_NAME": "NVIDIA Nsight Systems",
            "EXPORT_PRODUCT_VERSION": "2026.2.1.210",
            "EXPORT_SCHEMA_VERSION": "3.25.0",
            "EXPORT_SCHEMA_VERSION_MAJOR": "3",
            "EXPORT_SCHEMA_VERSION_MINOR": "25",
            "EXPORT_SCHEMA_VERSION_MICRO": "0",
            "EXPORT_PARAM_INPUT_FILE": origin,
        }
        self._connection.execute("CREATE TABLE META_DATA_EXPORT (name TEXT NOT NULL, value TEXT)")
        self._connection.executemany("INSERT INTO META_DATA_EXPORT VALUES (?, ?)", facts.items())
