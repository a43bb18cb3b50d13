"""Row classes for the tables of an Nsight Systems SQLite export, schema 3.0.0 (nsys 2022.4.2).

Fields are the table's columns in order; annotations are their types, with ``| None`` for columns
that may be NULL. Only tables of a traced CUDA and NVTX program are included. Times are ns on the
trace clock and sizes bytes, unless a docstring says otherwise.
"""

from __future__ import annotations

from typing import Any, NamedTuple

PRODUCT_VERSION = "2022.4.2.1"
SCHEMA_VERSION = "3.0.0"

# Enumeration values that this project writes; ENUMERATIONS has their names.
NO_EVENT = 2**32 - 1
RUNTIME_CALL, DRIVER_CALL = 0, 1
NVTX_PUSH_POP, NVTX_START_END, NVTX_DOMAIN = 59, 60, 75
COPY_HTOD, COPY_DTOH = 1, 2
PAGEABLE, PINNED, DEVICE = 0, 1, 2
SYNC_STREAM = 3
ALLOCATE, FREE = 0, 1


class Kernel(NamedTuple):
    """``CUPTI_ACTIVITY_KIND_KERNEL``: one kernel execution."""

    start: int
    end: int
    deviceId: int
    contextId: int
    streamId: int
    correlationId: int | None
    globalPid: int | None
    demangledName: int
    shortName: int
    mangledName: int | None
    launchType: int | None
    cacheConfig: int | None
    registersPerThread: int
    gridX: int
    gridY: int
    gridZ: int
    blockX: int
    blockY: int
    blockZ: int
    staticSharedMemory: int
    dynamicSharedMemory: int
    localMemoryPerThread: int
    localMemoryTotal: int
    gridId: int
    sharedMemoryExecuted: int | None
    graphNodeId: int | None
    sharedMemoryLimitConfig: int | None


class Memcpy(NamedTuple):
    """``CUPTI_ACTIVITY_KIND_MEMCPY``: one copy by the GPU."""

    start: int
    end: int
    deviceId: int
    contextId: int
    streamId: int
    correlationId: int | None
    globalPid: int | None
    bytes: int
    copyKind: int
    deprecatedSrcId: int | None
    srcKind: int | None
    dstKind: int | None
    srcDeviceId: int | None = None
    srcContextId: int | None = None
    dstDeviceId: int | None = None
    dstContextId: int | None = None
    migrationCause: int | None = None
    graphNodeId: int | None = None
    virtualAddress: int | None = None


class Memset(NamedTuple):
    """``CUPTI_ACTIVITY_KIND_MEMSET``: one fill by the GPU."""

    start: int
    end: int
    deviceId: int
    contextId: int
    streamId: int
    correlationId: int | None
    globalPid: int | None
    value: int
    bytes: int
    graphNodeId: int | None
    memKind: int | None


class Runtime(NamedTuple):
    """``CUPTI_ACTIVITY_KIND_RUNTIME``: one call of the CUDA runtime (class 0) or driver (1)."""

    start: int
    end: int
    eventClass: int
    globalTid: int | None
    correlationId: int | None
    nameId: int
    returnValue: int = 0
    callchainId: int | None = None


class Synchronization(NamedTuple):
    """``CUPTI_ACTIVITY_KIND_SYNCHRONIZATION``: one wait of the host for the GPU."""

    start: int
    end: int
    deviceId: int
    contextId: int
    streamId: int
    correlationId: int | None
    globalPid: int | None
    syncType: int
    eventId: int = NO_EVENT


class MemoryUsage(NamedTuple):
    """``CUDA_GPU_MEMORY_USAGE_EVENTS``: one allocation (operation 0) or release (1)."""

    start: int
    globalPid: int
    deviceId: int
    contextId: int
    address: int
    pc: int
    bytes: int
    memKind: int
    memoryOperationType: int
    name: str | None = None
    correlationId: int | None = None
    localMemoryPoolAddress: int | None = None
    localMemoryPoolReleaseThreshold: int | None = None
    localMemoryPoolSize: int | None = None
    localMemoryPoolUtilizedSize: int | None = None
    importedMemoryPoolAddress: int | None = None
    importedMemoryPoolProcessId: int | None = None


class Nvtx(NamedTuple):
    """``NVTX_EVENTS``: one range (type 59 push/pop, 60 start/end), mark (34) or domain (75)."""

    start: int
    end: int | None
    eventType: int
    rangeId: int | None = None
    category: int | None = None
    color: int | None = None
    text: str | None = None
    globalTid: int | None = None
    endGlobalTid: int | None = None
    textId: int | None = None
    domainId: int | None = None
    uint64Value: int | None = None
    int64Value: int | None = None
    doubleValue: float | None = None
    uint32Value: int | None = None
    int32Value: int | None = None
    floatValue: float | None = None
    jsonTextId: int | None = None
    jsonText: str | None = None


class String(NamedTuple):
    """``StringIds``: one interned string; use ``NsysWriter.string``."""

    id: int
    value: str


class MetaData(NamedTuple):
    """``EXPORT_META_DATA``: one fact about the export."""

    name: str
    value: str | None


class Process(NamedTuple):
    """``PROCESSES``: one process."""

    globalPid: int | None
    pid: int | None
    name: str | None


class ThreadName(NamedTuple):
    """``ThreadNames``: one named thread."""

    nameId: int
    priority: int | None
    globalTid: int | None


class SessionStart(NamedTuple):
    """``TARGET_INFO_SESSION_START_TIME``: UTC of trace time 0."""

    utcEpochNs: int | None
    utcTime: str | None
    localTime: str | None


class AnalysisDetails(NamedTuple):
    """``ANALYSIS_DETAILS``: the span of the trace."""

    globalVid: int
    duration: int
    startTime: int
    stopTime: int


class SystemEnvironment(NamedTuple):
    """``TARGET_INFO_SYSTEM_ENV``: one fact about the machine."""

    globalVid: int
    devStateName: str
    name: str
    nameEnum: int
    value: str


class CudaStream(NamedTuple):
    """``TARGET_INFO_CUDA_STREAM``: one stream."""

    streamId: int
    hwId: int
    vmId: int
    processId: int
    contextId: int
    priority: int
    flag: int


class NullStream(NamedTuple):
    """``TARGET_INFO_CUDA_NULL_STREAM``: the default stream of a context."""

    streamId: int
    hwId: int
    vmId: int
    processId: int
    deviceId: int
    contextId: int


class Gpu(NamedTuple):
    """``TARGET_INFO_GPU``: one GPU (clock in Hz, sizes in bytes, bandwidth in bytes/s)."""

    vmId: int
    id: int
    name: str | None
    busLocation: str | None
    isDiscrete: int | None
    l2CacheSize: int | None
    totalMemory: int | None
    memoryBandwidth: int | None
    clockRate: int | None
    smCount: int | None
    pwGpuId: int | None
    uuid: str | None
    luid: int | None
    chipName: str | None
    cuDevice: int | None
    ctxswDevPath: str | None
    ctrlDevPath: str | None
    revision: int | None
    nodeMask: int | None
    constantMemory: int | None
    maxIPC: int | None
    maxRegistersPerBlock: int | None
    maxShmemPerBlock: int | None
    maxShmemPerBlockOptin: int | None
    maxShmemPerSm: int | None
    maxRegistersPerSm: int | None
    threadsPerWarp: int | None
    asyncEngines: int | None
    maxWarpsPerSm: int | None
    maxBlocksPerSm: int | None
    maxThreadsPerBlock: int | None
    maxBlockDimX: int | None
    maxBlockDimY: int | None
    maxBlockDimZ: int | None
    maxGridDimX: int | None
    maxGridDimY: int | None
    maxGridDimZ: int | None
    computeMajor: int | None
    computeMinor: int | None
    smMajor: int | None
    smMinor: int | None


TABLES: dict[type[tuple[Any, ...]], str] = {
    Kernel: "CUPTI_ACTIVITY_KIND_KERNEL",
    Memcpy: "CUPTI_ACTIVITY_KIND_MEMCPY",
    Memset: "CUPTI_ACTIVITY_KIND_MEMSET",
    Runtime: "CUPTI_ACTIVITY_KIND_RUNTIME",
    Synchronization: "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
    MemoryUsage: "CUDA_GPU_MEMORY_USAGE_EVENTS",
    Nvtx: "NVTX_EVENTS",
    String: "StringIds",
    MetaData: "EXPORT_META_DATA",
    Process: "PROCESSES",
    ThreadName: "ThreadNames",
    SessionStart: "TARGET_INFO_SESSION_START_TIME",
    AnalysisDetails: "ANALYSIS_DETAILS",
    SystemEnvironment: "TARGET_INFO_SYSTEM_ENV",
    CudaStream: "TARGET_INFO_CUDA_STREAM",
    NullStream: "TARGET_INFO_CUDA_NULL_STREAM",
    Gpu: "TARGET_INFO_GPU",
}

# Enumeration tables (id, name, label). The two largest have only the rows for CUDA and NVTX.
ENUMERATIONS: dict[str, tuple[tuple[int, str, str], ...]] = {
    "ENUM_NSYS_EVENT_TYPE": (
        (33, "NvtxCategory", "NvtxCategory"),
        (34, "NvtxMark", "NvtxMark"),
        (39, "NvtxThread", "NvtxThread"),
        (45, "Cuda", "Cuda"),
        (NVTX_PUSH_POP, "NvtxPushPopRange", "NvtxPushPopRange"),
        (NVTX_START_END, "NvtxStartEndRange", "NvtxStartEndRange"),
        (NVTX_DOMAIN, "NvtxDomainCreate", "NvtxDomainCreate"),
        (76, "NvtxDomainDestroy", "NvtxDomainDestroy"),
    ),
    "ENUM_NSYS_EVENT_CLASS": (
        (RUNTIME_CALL, "TRACE_PROCESS_EVENT_CUDA_RUNTIME", "CUDA runtime"),
        (DRIVER_CALL, "TRACE_PROCESS_EVENT_CUDA_DRIVER", "CUDA driver"),
    ),
    "ENUM_CUDA_MEMCPY_OPER": (
        (0, "CUDA_MEMCPY_KIND_UNKNOWN", "Unknown"),
        (COPY_HTOD, "CUDA_MEMCPY_KIND_HTOD", "Host-to-Device"),
        (COPY_DTOH, "CUDA_MEMCPY_KIND_DTOH", "Device-to-Host"),
        (3, "CUDA_MEMCPY_KIND_HTOA", "Host-to-Array"),
        (4, "CUDA_MEMCPY_KIND_ATOH", "Array-to-Host"),
        (5, "CUDA_MEMCPY_KIND_ATOA", "Array-to-Array"),
        (6, "CUDA_MEMCPY_KIND_ATOD", "Array-to-Device"),
        (7, "CUDA_MEMCPY_KIND_DTOA", "Device-to-Array"),
        (8, "CUDA_MEMCPY_KIND_DTOD", "Device-to-Device"),
        (9, "CUDA_MEMCPY_KIND_HTOH", "Host-to-Host"),
        (10, "CUDA_MEMCPY_KIND_PTOP", "Peer-to-Peer"),
        (11, "CUDA_MEMCPY_KIND_UVM_HTOD", "Unified Host-to-Device"),
        (12, "CUDA_MEMCPY_KIND_UVM_DTOH", "Unified Device-to-Host"),
        (13, "CUDA_MEMCPY_KIND_UVM_DTOD", "Unified Device-to-Device"),
    ),
    "ENUM_CUDA_MEM_KIND": (
        (PAGEABLE, "CUDA_MEMOPR_MEMORY_KIND_PAGEABLE", "Pageable"),
        (PINNED, "CUDA_MEMOPR_MEMORY_KIND_PINNED", "Pinned"),
        (DEVICE, "CUDA_MEMOPR_MEMORY_KIND_DEVICE", "Device"),
        (3, "CUDA_MEMOPR_MEMORY_KIND_ARRAY", "Array"),
        (4, "CUDA_MEMOPR_MEMORY_KIND_MANAGED", "Managed"),
        (5, "CUDA_MEMOPR_MEMORY_KIND_DEVICE_STATIC", "Device Static"),
        (6, "CUDA_MEMOPR_MEMORY_KIND_MANAGED_STATIC", "Managed Static"),
        (7, "CUDA_MEMOPR_MEMORY_KIND_UNKNOWN", "Unknown"),
    ),
    "ENUM_CUPTI_SYNC_TYPE": (
        (0, "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_UNKNOWN", "Unknown"),
        (1, "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE", "Event sync"),
        (2, "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT", "Stream wait sync"),
        (SYNC_STREAM, "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE", "Stream sync"),
        (4, "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE", "Context sync"),
    ),
    "ENUM_CUDA_KRENEL_LAUNCH_TYPE": (
        (0, "CUDA_KERNEL_LAUNCH_TYPE_UNKNOWN", "Unknown"),
        (1, "CUDA_KERNEL_LAUNCH_TYPE_REGULAR", "Regular"),
        (2, "CUDA_KERNEL_LAUNCH_TYPE_COOPERATIVE_SINGLE_DEVICE", "Coop Single Device"),
        (3, "CUDA_KERNEL_LAUNCH_TYPE_COOPERATIVE_MULTI_DEVICE", "Coop Multi Device"),
    ),
    "ENUM_CUDA_DEV_MEM_EVENT_OPER": (
        (ALLOCATE, "CUDA_DEV_MEM_EVENT_OPR_ALLOCATION", "Allocation"),
        (FREE, "CUDA_DEV_MEM_EVENT_OPR_DEALLOCATION", "Deallocation"),
    ),
}
