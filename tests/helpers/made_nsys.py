"""Makes small Nsight Systems exports, and reads exports into the canonical tables."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import duckdb

from nvtx_views import canonical_names, nvtx_rows
from tbd_trace import resources
from tbd_trace.sources.base import Ask, TraceDescription
from tbd_trace.sources.nsys.reader import NsysReader

Rows = list[dict[str, Any]]
Tables = dict[str, Rows]

KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
MEMCPY = "CUPTI_ACTIVITY_KIND_MEMCPY"
MEMSET = "CUPTI_ACTIVITY_KIND_MEMSET"
SYNC = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"
GRAPH = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
RUNTIME = "CUPTI_ACTIVITY_KIND_RUNTIME"
NVTX = "NVTX_EVENTS"
MEMORY = "CUDA_GPU_MEMORY_USAGE_EVENTS"
GPU = "TARGET_INFO_GPU"

SECRET = "hunter2-not-for-anyone"
STRINGS = {
    1: "void gemm<float>(float*, int)",
    2: "gemm",
    3: "_Z4gemmIfEvPfi",
    4: "cudaLaunchKernel_v7000",
    5: "cuLaunchKernel",
    6: "registered range",
    7: "worker",
    8: "cudnnConvolutionForward",
    9: "cublasSgemm_v2",
    10: "pthread_cond_wait",
    11: "somebody else's thread",
    12: SECRET,
}


def global_id(pid: int, tid: int = 0) -> int:
    """Return Nsight Systems' serialised id of a thread, or of a process."""
    return 1 << 48 | pid << 24 | tid


def operation(pid: int = 100, **values: Any) -> dict[str, Any]:
    """Return a GPU operation of 10 ns, with the values given on top."""
    usual = {
        "start": 1000,
        "end": 1010,
        "deviceId": 0,
        "contextId": 1,
        "streamId": 7,
        "correlationId": 50,
        "globalPid": global_id(pid),
    }
    return usual | values


def kernel(pid: int = 100, **values: Any) -> dict[str, Any]:
    """Return a kernel."""
    usual = {
        "demangledName": 1,
        "shortName": 2,
        "mangledName": 3,
        "registersPerThread": 32,
        "gridX": 4,
        "gridY": 2,
        "gridZ": 1,
        "blockX": 128,
        "blockY": 1,
        "blockZ": 1,
        "staticSharedMemory": 1024,
        "dynamicSharedMemory": 2048,
        "localMemoryPerThread": 16,
        "sharedMemoryExecuted": 8192,
        "graphId": 0,
        "graphNodeId": None,
    }
    return operation(pid, **(usual | values))


def call(name: int, pid: int = 100, **values: Any) -> dict[str, Any]:
    """Return an API call of 20 ns on thread 1 of a process."""
    usual = {
        "start": 980,
        "end": 1000,
        "eventClass": 0,
        "globalTid": global_id(pid, 1),
        "nameId": name,
    }
    return usual | values


def nvtx(kind: int, pid: int = 100, **values: Any) -> dict[str, Any]:
    """Return an NVTX event on thread 1 of a process."""
    usual = {
        "start": 900,
        "end": 1100,
        "eventType": kind,
        "text": None,
        "textId": None,
        "globalTid": global_id(pid, 1),
        "endGlobalTid": None,
        "domainId": 0,
    }
    return usual | values


def gpu(number: int, cuda: int | None, name: str = "A100", **values: Any) -> dict[str, Any]:
    """Return an adapter of the list of GPUs."""
    usual = {
        "id": number,
        "name": name,
        "uuid": f"uuid-{number}",
        "busLocation": f"0000:0{number}:00.0",
        "cuDevice": cuda,
        "computeMajor": 8,
        "computeMinor": 0,
        "smCount": 108,
        "clockRate": 1_410_000_000,
        "totalMemory": 42_506_321_920,
        "memoryBandwidth": 1_555_200_000_000,
        "l2CacheSize": 41_943_040,
        "maxThreadsPerBlock": 1024,
        "maxWarpsPerSm": 64,
        "maxBlocksPerSm": 32,
        "maxRegistersPerBlock": 65536,
        "maxRegistersPerSm": 65536,
        "maxShmemPerBlock": 49152,
        "maxShmemPerBlockOptin": 166_912,
        "maxShmemPerSm": 167_936,
    }
    return usual | values


def strings() -> Rows:
    """Return the table of strings."""
    return [{"id": number, "value": value} for number, value in STRINGS.items()]


def profile() -> Tables:
    """Return a profile that has something in every table that is read, and secrets elsewhere."""
    return {
        "StringIds": strings(),
        KERNEL: [kernel(), kernel(200, start=1020, end=1050)],
        MEMCPY: [
            operation(bytes=64, copyKind=1, srcKind=0, dstKind=2, correlationId=51),
            operation(200, bytes=64, copyKind=11, srcKind=7, dstKind=7, correlationId=0),
        ],
        MEMSET: [operation(bytes=8, memKind=2, correlationId=52)],
        SYNC: [operation(syncType=3, correlationId=53, streamId=4294967295)],
        GRAPH: [operation(graphId=4, graphExecId=5, correlationId=54)],
        RUNTIME: [
            call(4, correlationId=50),
            call(5, 200, correlationId=50, eventClass=1),
        ],
        "CUDNN_EVENTS": [call(8, eventClass=28)],
        "CUBLAS_EVENTS": [call(9, eventClass=29)],
        "OSRT_API": [call(10, eventClass=27)],
        NVTX: [
            nvtx(59, text="step", doubleValue=2.5, int64Value=None, uint64Value=None),
            nvtx(75, text="NCCL", domainId=1, end=None),
            nvtx(34, text="here", end=None),
        ],
        MEMORY: [
            {
                "start": 990,
                "globalPid": global_id(100),
                "deviceId": 0,
                "contextId": 1,
                "address": -4096,
                "bytes": 512,
                "memKind": 2,
                "memoryOperationType": 0,
                "name": None,
                "correlationId": 55,
            }
        ],
        "COMPOSITE_EVENTS": [
            {"start": 995, "cpu": 3, "globalTid": global_id(100, 2), "cpuCycles": 77},
            {"start": 996, "cpu": 4, "globalTid": global_id(999, 999), "cpuCycles": 78},
        ],
        "GPU_METRICS": [{"timestamp": 1000, "typeId": 1 << 48, "metricId": 1, "value": 55}],
        "TARGET_INFO_GPU_METRICS": [
            {"typeId": 1 << 48, "metricId": 1, "metricName": "SMs Active [Throughput %]"}
        ],
        GPU: [gpu(0, 0)],
        "TARGET_INFO_CUDA_CONTEXT_INFO": [
            {"processId": 100, "deviceId": 0, "contextId": 1, "nullStreamId": 7}
        ],
        "TARGET_INFO_SESSION_START_TIME": [{"utcEpochNs": 1_700_000_000_000_000_000}],
        "PROCESSES": [
            {"globalPid": global_id(100), "pid": 100, "name": "python"},
            {"globalPid": global_id(999), "pid": 999, "name": SECRET},
        ],
        "ThreadNames": [
            {"nameId": 7, "priority": 20, "globalTid": global_id(100, 1)},
            {"nameId": 11, "priority": 20, "globalTid": global_id(999, 999)},
        ],
        "META_DATA_EXPORT": [
            {"name": "EXPORT_PRODUCT_VERSION", "value": "2026.2.1.210"},
            {"name": "EXPORT_SCHEMA_VERSION", "value": "3.25.0"},
            {"name": "EXPORT_PARAM_INPUT_PATH_ABS", "value": f"/home/{SECRET}/r.nsys-rep"},
            {"name": "EXPORT_USER", "value": SECRET},
        ],
        "META_DATA_CAPTURE": [
            {"name": "CAPTURE_EVENT_TYPE", "value": "Cuda"},
            {"name": "PROCESS_0:ARGUMENT_0", "value": f"--token={SECRET}"},
            {"name": "PROCESS_0:ENVIRONMENT_VARIABLE", "value": f"API_KEY={SECRET}"},
        ],
        "TARGET_INFO_SYSTEM_ENV": [
            {"name": "DeviceEnvironment", "devStateName": SECRET, "value": SECRET}
        ],
        "ProcessStreams": [{"globalPid": global_id(100), "filenameId": 12, "contentId": 12}],
        "ANALYSIS_FILE": [{"id": 1, "filename": SECRET, "contentId": 12}],
        "DIAGNOSTIC_EVENT": [
            {"severity": 1, "globalPid": global_id(100), "text": f"Process {SECRET} was launched"},
            {"severity": 2, "globalPid": global_id(100), "text": "Not all CUDA events collected"},
        ],
    }


def write(path: Path, tables: Tables) -> Path:
    """Write tables as a SQLite file; a table has the columns that its rows name."""
    with sqlite3.connect(path) as file:
        for table, rows in tables.items():
            columns = list(dict.fromkeys(name for row in rows for name in row)) or ["nothing"]
            names = ", ".join(f'"{name}"' for name in columns)
            file.execute(f'CREATE TABLE "{table}" ({names})')
            file.executemany(
                f'INSERT INTO "{table}" VALUES ({", ".join("?" * len(columns))})',
                [[row.get(name) for name in columns] for row in rows],
            )
    file.close()
    return path


def ingest(reader: NsysReader, *tables: str) -> tuple[dict[str, Rows], TraceDescription]:
    """Read canonical tables (all by default) into DuckDB, which enforces types and NOT NULLs.

    Returns:
        The rows of each table, without trace_id, and the reader's description.
    """
    canonical = resources.sql_files("canonical")
    found = {}
    with duckdb.connect(config={"threads": 1}) as connection:
        for table in canonical_names(tables or canonical):
            definition = canonical[table].read_text(encoding="utf-8")
            connection.execute(definition).fetchall()
            if table != "trace" and (select := reader.relation(connection, table)):
                connection.execute(
                    f"INSERT INTO {table} BY NAME SELECT 't' AS trace_id, * FROM ({select})"
                ).fetchall()
            result = connection.execute(f"SELECT * EXCLUDE (trace_id) FROM {table} ORDER BY ALL")
            names = [column[0] for column in result.description or []]
            found[table] = [dict(zip(names, row, strict=True)) for row in result.fetchall()]
        if "annotation" in found:
            found |= nvtx_rows(found["annotation"])
        return found, reader.describe(None if tables else _asker(connection))


def _asker(connection: duckdb.DuckDBPyConnection) -> Ask:
    return lambda question: connection.execute(question).fetchall()


def read(path: Path, *tables: str) -> tuple[dict[str, Rows], TraceDescription]:
    """Read an export; see ``ingest``."""
    with NsysReader(path) as reader:
        return ingest(reader, *tables)
