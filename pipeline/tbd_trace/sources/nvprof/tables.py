"""Define the tables and columns of nvprof databases, and load them into DuckDB.

Activity tables mirror CUPTI's records. Columns are read by name; absent columns are NULL.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass

import duckdb
import pyarrow as pa

from tbd_trace.sqlite_io import SqliteFile
from tbd_trace.sqltext import identifier


@dataclass(frozen=True, slots=True)
class Blob:
    """Column of packed bytes."""

    # `struct` format by name of an additional column that interprets the bytes; NULL if too short.
    readings: Mapping[str, str]


RawColumns = dict[str, pa.DataType | Blob]


def _integers(names: str) -> RawColumns:
    return dict.fromkeys(names.split(), pa.int64())


# CUpti_ActivityObjectKindId is a union: process and thread, or device, context and stream.
_OBJECT: RawColumns = _integers("objectKind") | {
    "objectId": Blob({"object_process": "<I", "object_thread": "<4xI"})
}
_VALUE: RawColumns = {
    "value": Blob({"value_double": "<d", "value_unsigned": "<Q", "value_signed": "<q"})
}
_OPERATION = _integers("_id_ start end deviceId contextId streamId correlationId")
_KERNEL = _OPERATION | _integers(
    "name gridX gridY gridZ blockX blockY blockZ registersPerThread staticSharedMemory "
    "dynamicSharedMemory sharedMemoryExecuted localMemoryPerThread graphId graphNodeId"
)
_MEMCPY = _OPERATION | _integers("copyKind srcKind dstKind bytes graphNodeId")
_API = _integers("_id_ cbid start end processId threadId correlationId")
_ALLOCATION = _integers("_id_ memoryKind address bytes processId deviceId contextId name")

_ACTIVITIES: dict[str, RawColumns] = {
    "KERNEL": _KERNEL,
    "CONCURRENT_KERNEL": _KERNEL,
    "CDP_KERNEL": _KERNEL,
    "MEMCPY": _MEMCPY,
    "MEMCPY2": _MEMCPY | _integers("srcDeviceId dstDeviceId"),
    "MEMSET": _OPERATION | _integers("bytes memoryKind graphNodeId"),
    "UNIFIED_MEMORY_COUNTER": _integers("_id_ counterKind value start end srcId dstId processId"),
    "SYNCHRONIZATION": _integers("_id_ type start end correlationId contextId streamId"),
    "GRAPH_TRACE": _OPERATION | _integers("graphId"),
    "RUNTIME": _API,
    "DRIVER": _API,
    "MARKER": _integers("_id_ flags timestamp id name domain") | _OBJECT,
    "MARKER_DATA": _integers("_id_ id payloadKind")
    | {"payload": Blob({"payload_double": "<d", "payload_unsigned": "<Q", "payload_signed": "<q"})},
    "METRIC": _integers("id correlationId flags") | _VALUE,
    "METRIC_INSTANCE": _integers("id instance correlationId flags") | _VALUE,
    "EVENT": _integers("id value correlationId"),
    "EVENT_INSTANCE": _integers("id instance value correlationId"),
    "MEMORY": _ALLOCATION | _integers("start end"),
    "MEMORY2": _ALLOCATION | _integers("memoryOperationType correlationId timestamp streamId"),
    "ENVIRONMENT": _integers("_id_ deviceId timestamp environmentKind")
    | {"data": Blob({"word_0": "<I", "word_1": "<4xI", "word_2": "<8xI", "word_3": "<12xI"})},
    "DEVICE": _integers(
        "id name coreClockRate globalMemoryBandwidth globalMemorySize l2CacheSize "
        "numMultiprocessors maxThreadsPerBlock maxWarpsPerMultiprocessor "
        "maxBlocksPerMultiprocessor maxRegistersPerBlock maxRegistersPerMultiprocessor "
        "maxSharedMemoryPerBlock maxSharedMemoryPerMultiprocessor "
        "computeCapabilityMajor computeCapabilityMinor"
    )
    | {"uuid": Blob({})},
    "CONTEXT": _integers("contextId deviceId"),
    "NAME": _integers("_id_ name") | _OBJECT,
}
ACTIVITY_PREFIX = "CUPTI_ACTIVITY_KIND_"
STRINGS = "StringTable"
RAW_TABLES: dict[str, RawColumns] = {
    STRINGS: {"_id_": pa.int64(), "value": pa.string()},
    **{ACTIVITY_PREFIX + kind: columns for kind, columns in _ACTIVITIES.items()},
}


def load(connection: duckdb.DuckDBPyConnection, file: SqliteFile, table: str) -> None:
    """Copy a table, in batches, into a temporary DuckDB table of the same name.

    Raises:
        InputError: the file is damaged.
    """
    columns = RAW_TABLES[table]
    stored = {
        name: pa.binary() if isinstance(kind, Blob) else kind for name, kind in columns.items()
    }
    with file.batches(table, stored) as reader:
        _insert(connection, "CREATE TEMP TABLE {} AS", table, reader.schema.empty_table(), columns)
        # Batch by batch: DuckDB would replace an InputError of the stream by its own error.
        for batch in reader:
            _insert(connection, "INSERT INTO {}", table, pa.Table.from_batches([batch]), columns)


def _insert(
    connection: duckdb.DuckDBPyConnection,
    statement: str,
    table: str,
    rows: pa.Table,
    columns: RawColumns,
) -> None:
    for name, kind in columns.items():
        if isinstance(kind, Blob):
            blobs = rows.column(name).to_pylist()
            for reading, layout in kind.readings.items():
                rows = rows.append_column(reading, _unpacked(blobs, layout))
    connection.register("nvprof_rows", rows)
    connection.execute(f"{statement.format(identifier(table))} FROM nvprof_rows")
    connection.unregister("nvprof_rows")


def _unpacked(blobs: list[bytes | None], layout: str) -> pa.Array:
    reader = struct.Struct(layout)
    kinds = {"d": pa.float64(), "Q": pa.uint64()}
    return pa.array(
        [
            reader.unpack_from(blob)[0] if blob is not None and len(blob) >= reader.size else None
            for blob in blobs
        ],
        type=kinds.get(layout[-1], pa.int64()),
    )
