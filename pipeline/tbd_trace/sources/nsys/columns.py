"""Define the tables and columns that are read from SQLite exports of Nsight Systems.

Columns are read by name; absent tables are empty and absent columns NULL.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

Columns = dict[str, pa.DataType]

# Deliberately not read, because they contain private data: environment variables
# (TARGET_INFO_SYSTEM_ENV), program output (ProcessStreams), ANALYSIS_FILE and, except for a few
# rows, META_DATA_CAPTURE.

# Event types (ENUM_NSYS_EVENT_TYPE): NvtxPushPopRange, NvtxStartEndRange, NvtxtPushPopRange and
# NvtxtStartEndRange.
NVTX_RANGES = (59, 60, 70, 71)
NVTX_DOMAIN = 75  # NvtxDomainCreate
ROW = "row"  # column with SQLite's rowid in streams of event tables


def _columns(integers: str, *, texts: str = "", reals: str = "") -> Columns:
    return (
        dict.fromkeys(integers.split(), pa.int64())
        | dict.fromkeys(texts.split(), pa.string())
        | dict.fromkeys(reals.split(), pa.float64())
    )


_OPERATION = "start end deviceId contextId streamId correlationId globalPid"
_CALL = "start end eventClass globalTid nameId"
_CONTEXT = "processId deviceId contextId"
_ENUM = _columns("id", texts="name")

EVENTS: Mapping[str, Columns] = {
    "CUPTI_ACTIVITY_KIND_KERNEL": _columns(
        f"{_OPERATION} demangledName shortName mangledName gridX gridY gridZ blockX blockY blockZ "
        "registersPerThread staticSharedMemory dynamicSharedMemory sharedMemoryExecuted "
        "localMemoryPerThread graphId graphNodeId"
    ),
    "CUPTI_ACTIVITY_KIND_MEMCPY": _columns(
        f"{_OPERATION} bytes copyKind srcKind dstKind srcDeviceId dstDeviceId graphNodeId"
    ),
    "CUPTI_ACTIVITY_KIND_MEMSET": _columns(f"{_OPERATION} bytes memKind graphNodeId"),
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": _columns(f"{_OPERATION} syncType"),
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": _columns(f"{_OPERATION} graphId graphExecId"),
    "CUPTI_ACTIVITY_KIND_RUNTIME": _columns(f"{_CALL} correlationId"),
    "CUDNN_EVENTS": _columns(_CALL),
    "CUBLAS_EVENTS": _columns(_CALL),
    "OSRT_API": _columns(_CALL),
    "NVTX_EVENTS": _columns(
        "start end eventType textId globalTid endGlobalTid domainId "
        "uint64Value int64Value uint32Value int32Value",
        texts="text",
        reals="doubleValue floatValue",
    ),
    "CUDA_GPU_MEMORY_USAGE_EVENTS": _columns(
        "start globalPid deviceId contextId streamId correlationId address bytes memKind "
        "memoryOperationType localMemoryPoolAddress importedMemoryPoolAddress",
        texts="name",
    ),
    "COMPOSITE_EVENTS": _columns("start cpu globalTid cpuCycles"),
    "GPU_METRICS": _columns("timestamp rawTimestamp typeId metricId", reals="value"),
    "GENERIC_EVENTS": _columns("timestamp rawTimestamp typeId", texts="data"),
}
"""Event tables of any size, which are streamed."""

DETAILS: Mapping[str, Columns] = {
    "StringIds": _columns("id", texts="value"),
    "ThreadNames": _columns("globalTid nameId priority"),
    "PROCESSES": _columns("globalPid pid", texts="name"),
    "TARGET_INFO_GPU": _columns(
        "id deviceId cuDevice computeMajor computeMinor smCount clockRate totalMemory "
        "memoryBandwidth l2CacheSize maxThreadsPerBlock maxWarpsPerSm maxBlocksPerSm "
        "maxRegistersPerBlock maxRegistersPerSm maxShmemPerBlock maxShmemPerBlockOptin "
        "maxShmemPerSm",
        texts="name uuid busLocation",
    ),
    "TARGET_INFO_CUDA_GPU": _columns(
        "deviceId pid computeCapabilityMajor computeCapabilityMinor numMultiprocessors "
        "coreClockRate globalMemorySize globalMemoryBandwidth l2CacheSize maxThreadsPerBlock "
        "maxWarpsPerMultiprocessor maxBlocksPerMultiprocessor maxRegistersPerBlock "
        "maxRegistersPerMultiprocessor maxSharedMemoryPerBlock maxSharedMemoryPerMultiprocessor",
        texts="name pciBusId",
    ),
    "TARGET_INFO_CUDA_DEVICE": _columns("gpuId cudaId pid numMultiprocessors", texts="uuid"),
    "TARGET_INFO_CUDA_CONTEXT_INFO": _columns(_CONTEXT),
    "TARGET_INFO_CUDA_NULL_STREAM": _columns(_CONTEXT),
    "TARGET_INFO_GPU_METRICS": _columns("typeId metricId", texts="metricName"),
    "GENERIC_EVENT_TYPES": _columns("typeId sourceId"),
    "GENERIC_EVENT_SOURCES": _columns("sourceId", texts="data"),
    "ENUM_CUDA_MEMCPY_OPER": _ENUM,
    "ENUM_CUDA_MEM_KIND": _ENUM,
    "ENUM_CUPTI_SYNC_TYPE": _ENUM,
}
"""Small lookup tables, which are loaded if a mapping reads them."""

FACTS: Mapping[str, Columns] = {
    "EXPORT_META_DATA": _columns("", texts="name value"),
    "META_DATA_EXPORT": _columns("", texts="name value"),
    "META_DATA_CAPTURE": _columns("", texts="name value"),
    "TARGET_INFO_SESSION_START_TIME": _columns("utcEpochNs"),
    "ANALYSIS_DETAILS": _columns("duration"),
    "DIAGNOSTIC_EVENT": _columns("severity globalPid", texts="text"),
}
"""Tables about the recording, of which only the needed rows are queried."""

GPU_OPERATIONS = (
    "CUPTI_ACTIVITY_KIND_KERNEL",
    "CUPTI_ACTIVITY_KIND_MEMCPY",
    "CUPTI_ACTIVITY_KIND_MEMSET",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
)
API_CALLS = ("CUPTI_ACTIVITY_KIND_RUNTIME", "CUDNN_EVENTS", "CUBLAS_EVENTS", "OSRT_API")
NO_CALLS = (10, 11, 12, 31, 32, 33, 34, 35, 36, 67, 68, 69)
"""Event classes in API tables that are not calls (see ``api_call.sql``)."""
