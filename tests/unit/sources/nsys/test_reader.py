from __future__ import annotations

import copy
import random
import sqlite3
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fast import examples
from made_nsys import (
    GPU,
    KERNEL,
    MEMCPY,
    MEMORY,
    NVTX,
    RUNTIME,
    SECRET,
    SYNC,
    Rows,
    Tables,
    call,
    global_id,
    gpu,
    kernel,
    nvtx,
    operation,
    profile,
    read,
    strings,
    write,
)
from tbd_trace.errors import InputError
from tbd_trace.sources.nsys.columns import EVENTS
from tbd_trace.sources.nsys.detection import NSYS_SQLITE
from tbd_trace.sources.nsys.reader import NsysReader


def rows(tmp_path: Path, table: str, tables: Tables) -> Rows:
    """Return one canonical table of made tables; strings are there unless given."""
    path = write(tmp_path / "made.sqlite", {"StringIds": strings()} | tables)
    return read(path, table)[0][table]


def notes(tmp_path: Path, tables: Tables) -> str:
    path = write(tmp_path / "made.sqlite", {"StringIds": strings()} | tables)
    _, description = read(path)
    return "\n".join(description.notes)


def only(found: Rows) -> dict[str, Any]:
    assert len(found) == 1
    return found[0]


# --- recognising files -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tables", "expected"),
    [
        (("StringIds", KERNEL), True),
        (("StringIds", "META_DATA_EXPORT"), True),
        (("StringIds", "TARGET_INFO_SYSTEM_ENV"), True),
        (("StringIds",), False),
        (("StringIds", "Setting"), False),
        ((KERNEL,), False),
        (("StringTable", KERNEL), False),  # nvprof
        (("dictionary", "read_only_kernels", "db_version"), False),  # DLProf
        ((), False),
    ],
)
def test_detects_by_tables(tmp_path: Path, tables: tuple[str, ...], expected: bool) -> None:
    path = write(tmp_path / "some.bin", {name: [] for name in tables})
    assert NSYS_SQLITE.detect(path, path.read_bytes()[:65536]) is expected


def test_does_not_detect_text(tmp_path: Path) -> None:
    path = tmp_path / "report1.sqlite"
    path.write_text("version https://git-lfs.github.com/spec/v1\n")
    assert not NSYS_SQLITE.detect(path, path.read_bytes())


def test_truncated_file_is_detected_and_refused(tmp_path: Path) -> None:
    whole = write(tmp_path / "whole.sqlite", profile()).read_bytes()
    path = tmp_path / "part.sqlite"
    path.write_bytes(whole[:-8192])
    assert NSYS_SQLITE.detect(path, path.read_bytes())
    with pytest.raises(InputError, match=r"part\.sqlite: damaged or incomplete SQLite file"):
        NSYS_SQLITE.open(path)


def test_unknown_schema_is_refused(tmp_path: Path) -> None:
    tables: Tables = {
        "StringIds": strings(),
        "META_DATA_EXPORT": [{"name": "EXPORT_SCHEMA_VERSION", "value": "9.0.0"}],
        "KERNELS_OF_THE_FUTURE": [{"begin": 1}],
    }
    path = write(tmp_path / "future.sqlite", tables)
    assert NSYS_SQLITE.detect(path, path.read_bytes())
    with pytest.raises(InputError, match=r"no known table .* KERNELS_OF_THE_FUTURE"):
        NSYS_SQLITE.open(path)


# --- operations ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_kernel(tmp_path: Path) -> None:
    found = only(rows(tmp_path, "kernel", {KERNEL: [kernel(graphId=3, graphNodeId=12)]}))
    assert found == {
        "kernel_id": 1,
        "start_ns": 1000,
        "end_ns": 1010,
        "duration_ns": 10,
        "process_id": global_id(100),
        "device_id": 0,
        "context_id": 1,
        "stream_id": 7,
        "correlation_id": 50,
        "name": "void gemm<float>(float*, int)",
        "short_name": "gemm",
        "mangled_name": "_Z4gemmIfEvPfi",
        "grid_x": 4,
        "grid_y": 2,
        "grid_z": 1,
        "block_x": 128,
        "block_y": 1,
        "block_z": 1,
        "registers_per_thread": 32,
        "static_shared_bytes": 1024,
        "dynamic_shared_bytes": 2048,
        "shared_executed_bytes": 8192,
        "local_bytes_per_thread": 16,
        "graph_id": 3,
        "graph_node_id": 12,
    }


def test_kernel_zero_means_none(tmp_path: Path) -> None:
    made = kernel(graphId=0, graphNodeId=0, correlationId=0, demangledName=404)
    found = only(rows(tmp_path, "kernel", {KERNEL: [made]}))
    assert (found["graph_id"], found["graph_node_id"], found["correlation_id"]) == (None,) * 3
    assert found["name"] == "_Z4gemmIfEvPfi"


def test_kernel_without_sensible_times_has_no_duration(tmp_path: Path) -> None:
    assert only(rows(tmp_path, "kernel", {KERNEL: [kernel(end=0)]}))["duration_ns"] is None


@pytest.mark.parametrize(
    ("kind", "direction"),
    [
        (0, "unknown"),
        (1, "HtoD"),
        (2, "DtoH"),
        (3, "HtoA"),
        (4, "AtoH"),
        (5, "AtoA"),
        (6, "AtoD"),
        (7, "DtoA"),
        (8, "DtoD"),
        (9, "HtoH"),
        (10, "PtoP"),
        (11, "unified HtoD"),
        (12, "unified DtoH"),
        (13, "unified DtoD"),
        (14, "unknown"),
    ],
)
def test_copy_directions(tmp_path: Path, kind: int, direction: str) -> None:
    made = operation(copyKind=kind, srcKind=1, dstKind=99, srcDeviceId=4294967295, dstDeviceId=2)
    found = only(rows(tmp_path, "memcpy", {MEMCPY: [made]}))
    assert found["direction"] == direction
    assert (found["src_kind"], found["dst_kind"]) == ("pinned", "unknown")
    assert (found["src_device_id"], found["dst_device_id"]) == (None, 2)


def test_a_files_own_numbers_win(tmp_path: Path) -> None:
    tables: Tables = {
        MEMCPY: [operation(copyKind=40, srcKind=None), operation(copyKind=1, srcKind=5)],
        "ENUM_CUDA_MEMCPY_OPER": [{"id": 40, "name": "CUDA_MEMCPY_KIND_HTOD", "label": "H"}],
    }
    found = rows(tmp_path, "memcpy", tables)
    assert [row["direction"] for row in found] == ["HtoD", "unknown"]
    assert [row["src_kind"] for row in found] == [None, "device static"]


def test_a_files_own_numbers_replace_all_usual_ones(tmp_path: Path) -> None:
    """Number 2 usually means DtoH, 8 usually DtoD: here it is not listed."""
    tables: Tables = {
        MEMCPY: [operation(copyKind=2), operation(copyKind=8)],
        "ENUM_CUDA_MEMCPY_OPER": [{"id": 2, "name": "CUDA_MEMCPY_KIND_HTOD", "label": "H"}],
    }
    found = rows(tmp_path, "memcpy", tables)
    assert [row["direction"] for row in found] == ["HtoD", "unknown"]


def test_synchronization_has_the_device_of_its_context(tmp_path: Path) -> None:
    tables: Tables = {
        KERNEL: [kernel(deviceId=3, contextId=8)],
        SYNC: [
            operation(contextId=8, syncType=2, streamId=4294967295),
            operation(contextId=9, syncType=4),
            operation(contextId=77, syncType=0),
            operation(200, contextId=8, syncType=1),
        ],
        "TARGET_INFO_CUDA_NULL_STREAM": [{"processId": 100, "deviceId": 5, "contextId": 9}],
    }
    found = rows(tmp_path, "synchronization", tables)
    assert [row["device_id"] for row in found] == [3, 5, None, None]
    assert [row["sync_type"] for row in found] == [
        "stream wait event",
        "context synchronize",
        "unknown",
        "event synchronize",
    ]
    assert found[0]["stream_id"] is None


def test_memory_event(tmp_path: Path) -> None:
    found = only(rows(tmp_path, "memory_event", {MEMORY: profile()[MEMORY]}))
    assert found["address"] == 2**64 - 4096
    assert (found["operation"], found["memory_kind"], found["bytes"]) == (
        "allocate",
        "device",
        512,
    )


# --- calls and ranges ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("recorded", "name"),
    [
        ("cudaLaunchKernel_v7000", "cudaLaunchKernel"),
        ("cudaLaunchKernel", "cudaLaunchKernel"),
        ("cuMemAlloc_v2", "cuMemAlloc"),
        ("cudaLaunchKernel_ptsz_v7000", "cudaLaunchKernel"),
        ("cudaStreamGetCaptureInfo_v2_v11030", "cudaStreamGetCaptureInfo"),
        ("cuTexRefSetAddress2D_v3", "cuTexRefSetAddress2D"),
        ("cudaMemcpy2DAsync_v3020", "cudaMemcpy2DAsync"),
    ],
)
def test_function_names(tmp_path: Path, recorded: str, name: str) -> None:
    tables: Tables = {
        "StringIds": [{"id": 1, "value": recorded}],
        RUNTIME: [call(1, correlationId=9)],
    }
    assert only(rows(tmp_path, "api_call", tables))["name"] == name


def test_calls_of_all_apis(tmp_path: Path) -> None:
    found = rows(tmp_path, "api_call", profile())
    assert sorted((row["api"], row["name"], row["correlation_id"]) for row in found) == [
        ("cublas", "cublasSgemm", None),
        ("cuda", "cuLaunchKernel", 50),
        ("cuda", "cudaLaunchKernel", 50),
        ("cudnn", "cudnnConvolutionForward", None),
        ("osrt", "pthread_cond_wait", None),
    ]
    assert len({row["api_call_id"] for row in found}) == 5


MARKS = {"OSRT_API": (31, 32), "CUDNN_EVENTS": (33, 34), "CUBLAS_EVENTS": (35, 36)}


@pytest.mark.slow
def test_rows_that_are_no_calls_are_left_out(tmp_path: Path) -> None:
    tables: Tables = {
        RUNTIME: [
            call(4, correlationId=50),
            call(4, correlationId=50, eventClass=67, start=970, end=1001),  # its backtrace
        ],
        # Marks of the profiler, in a process that makes no call.
        **{
            table: [call(10, 300, eventClass=kind) for kind in kinds]
            for table, kinds in MARKS.items()
        },
    }
    tables[RUNTIME] += [call(10, 300, eventClass=kind) for kind in (10, 11, 12, 67, 68, 69)]
    found, _ = read(write(tmp_path / "made.sqlite", {"StringIds": strings()} | tables))
    assert only(found["api_call"])["start_ns"] == 980
    assert [row["pid"] for row in found["process"]] == [100]


@pytest.mark.slow
def test_ranges(tmp_path: Path) -> None:
    tables: Tables = {
        KERNEL: [kernel(end=5000)],
        NVTX: [
            nvtx(59, text="pushed", int64Value=-3),
            nvtx(60, textId=6, endGlobalTid=global_id(100, 2), uint64Value=-1),
            nvtx(70, text="from a text file", floatValue=0.5),
            nvtx(59, text="open", end=None, start=950),
            nvtx(59, text="ended by the profiler", end=6000),
            nvtx(33, text="a category", end=None),
            nvtx(39, text="a thread's name", end=None),
            nvtx(34, text="a mark", end=None),
        ],
        "ANALYSIS_DETAILS": [{"duration": 6000}],
    }
    found, _ = read(write(tmp_path / "made.sqlite", {"StringIds": strings()} | tables))
    ranges = found["nvtx_range"]
    assert [(row["text"], row["kind"], row["payload"]) for row in ranges] == [
        ("pushed", "push_pop", -3.0),
        ("registered range", "start_end", 2.0**64 - 1),
        ("from a text file", "push_pop", 0.5),
        ("open", "push_pop", None),
        ("ended by the profiler", "push_pop", None),
    ]
    assert [row["nvtx_range_id"] for row in ranges] == [1, 2, 3, 4, 5]
    assert [row["is_open"] for row in ranges] == [False, False, False, True, True]
    assert [row["end_ns"] for row in ranges] == [1100, 1100, 1100, 6000, 6000]
    main, other = global_id(100, 1), global_id(100, 2)
    assert [row["end_thread_id"] for row in ranges] == [main, other, main, None, None]
    assert [(row["timestamp_ns"], row["text"]) for row in found["nvtx_mark"]] == [(900, "a mark")]


@pytest.mark.slow
@pytest.mark.parametrize("has_column", [False, True])
def test_ranges_without_a_type_have_an_end(tmp_path: Path, has_column: bool) -> None:
    events = [nvtx(0, text="a range"), nvtx(0, text="neither range nor mark", end=None)]
    for event in events:
        del event["eventType"]
    if has_column:
        events.append(nvtx(60, text="of a known type", start=901))
    found, _ = read(
        write(tmp_path / "made.sqlite", {"StringIds": strings(), KERNEL: [kernel()], NVTX: events})
    )
    assert found["nvtx_mark"] == []
    first, *others = found["nvtx_range"]
    assert [row["text"] for row in others] == ["of a known type"] * has_column
    assert (first["text"], first["kind"], first["is_open"]) == ("a range", "push_pop", False)
    assert (first["start_ns"], first["end_ns"]) == (900, 1100)
    assert first["end_thread_id"] == global_id(100, 1)


@pytest.mark.slow
@pytest.mark.parametrize("others", [0, 20_000])
def test_texts_come_out_as_they_are_recorded(tmp_path: Path, others: int) -> None:
    # Few texts are handled as an enumeration, many as texts.
    texts: list[str | None] = ["", None, "gemm", "gemm", "it's", "π", " cublasSgemm_v2", "unknown"]
    tables: Tables = {
        "StringIds": [
            *({"id": number, "value": text} for number, text in enumerate(texts)),
            *({"id": 100 + number, "value": f"other {number}"} for number in range(others)),
        ],
        KERNEL: [
            kernel(start=number, demangledName=number, shortName=None, mangledName=99)
            for number in range(len(texts))
        ],
        "OSRT_API": [call(number, start=number) for number in range(len(texts))],
        "CUBLAS_EVENTS": [call(6, start=1)],
        NVTX: [
            event
            for number in range(len(texts))
            for event in (
                nvtx(75, textId=number, domainId=1 + number, end=None),
                nvtx(59, start=950 + number, domainId=1 + number),
            )
        ],
    }
    found, _ = read(write(tmp_path / "made.sqlite", tables))
    named = [text if text is not None else "unknown" for text in texts]
    assert [row["name"] for row in found["kernel"]] == named
    assert {row["short_name"] for row in found["kernel"]} == {None}
    assert sorted(row["name"] for row in found["api_call"]) == sorted([*named, " cublasSgemm"])
    assert [row["domain"] for row in found["nvtx_range"]] == texts


def test_domains_are_per_process(tmp_path: Path) -> None:
    tables: Tables = {
        NVTX: [
            nvtx(75, 100, text="NCCL", domainId=1, end=None),
            nvtx(75, 200, textId=6, domainId=1, end=None),
            nvtx(75, 100, text="made anew", domainId=1, end=None, start=950),
            nvtx(59, 100, text="a", domainId=1),
            nvtx(59, 200, text="b", domainId=1),
            nvtx(59, 300, text="c", domainId=1),
            nvtx(59, 100, text="d", domainId=0),
            nvtx(59, 100, text="e", domainId=None),
        ]
    }
    found = rows(tmp_path, "nvtx_range", tables)
    assert [(row["text"], row["domain_id"], row["domain"]) for row in found] == [
        ("a", 1, "NCCL"),
        ("b", 1, "registered range"),
        ("c", 1, None),
        ("d", 0, None),
        ("e", 0, None),
    ]


@pytest.mark.slow
def test_processes_and_threads_are_the_profiled_ones(tmp_path: Path) -> None:
    found, _ = read(write(tmp_path / "made.sqlite", profile()))
    assert sorted((row["pid"], row["name"]) for row in found["process"]) == [
        (100, "python"),
        (200, None),
    ]
    assert sorted((row["process_id"], row["tid"], row["name"]) for row in found["thread"]) == [
        (global_id(100), 1, "worker"),
        (global_id(100), 2, None),
        (global_id(200), 1, None),
    ]
    assert [row["cycles"] for row in found["cpu_sample"]] == [77, 78]


def test_processes_and_threads_come_in_the_order_of_their_ids(tmp_path: Path) -> None:
    """A file that is ingested again gives the same rows in the same order."""
    ids = [global_id(pid, tid) for pid in range(100, 140) for tid in range(1, 6)]
    random.Random(0).shuffle(ids)
    calls = [call(4, globalTid=thread, correlationId=n) for n, thread in enumerate(ids)]
    path = write(tmp_path / "made.sqlite", {"StringIds": strings(), RUNTIME: calls})
    with NsysReader(path) as reader, duckdb.connect() as connection:
        found = {
            key: [row[0] for row in connection.sql(f"SELECT {key} FROM ({select})").fetchall()]
            for table, key in (("process", "process_id"), ("thread", "thread_id"))
            if (select := reader.relation(connection, table))
        }
    assert found["process_id"] == sorted({global_id(pid) for pid in range(100, 140)})
    assert found["thread_id"] == sorted(ids)


def test_the_deliberate_thread_name_wins(tmp_path: Path) -> None:
    names = [
        {"nameId": number, "priority": priority, "globalTid": global_id(100, 1)}
        for number, priority in ((11, 20), (7, 0), (2, 10))
    ]
    tables: Tables = {RUNTIME: [call(4, correlationId=1)], "ThreadNames": names}
    assert only(rows(tmp_path, "thread", tables))["name"] == "worker"


@pytest.mark.slow
def test_ids_without_a_process(tmp_path: Path) -> None:
    # A hand-made export: no globalPid, and a globalTid that is a plain number.
    made = {name: value for name, value in kernel().items() if name != "globalPid"}
    tables: Tables = {KERNEL: [made], RUNTIME: [call(4, correlationId=50, globalTid=1)]}
    found, description = read(write(tmp_path / "made.sqlite", {"StringIds": strings()} | tables))
    assert only(found["kernel"])["process_id"] is None
    assert only(found["api_call"])["process_id"] is None
    assert only(found["thread"])["process_id"] is None
    assert found["process"] == []
    assert not any("launching call" in note for note in description.notes)


# --- samples ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("metric", "raw", "unit", "value"),
    [
        ("SMs Active [Throughput %]", 55, "%", 55.0),
        ("GPC Clock Frequency [MHz]", 2_233_900_000 - 2**32, "Hz", 2_233_900_000.0),
        ("PCIe Read Requests to BAR1 [Requests]", 7, "Requests", 7.0),
        ("SM Active", 99, "%", 99.0),
        ("DRAM Read Throughput", 12, "%", 12.0),
        ("Draw Started", 3, "count", 3.0),
        ("Something Else", 3, None, 3.0),
    ],
)
def test_gpu_metrics(tmp_path: Path, metric: str, raw: int, unit: str | None, value: float) -> None:
    kind = 1 << 48 | 1 << 32 | 3
    tables: Tables = {
        "GPU_METRICS": [{"timestamp": 10, "typeId": kind, "metricId": 2, "value": raw}],
        "TARGET_INFO_GPU_METRICS": [
            {"typeId": kind, "metricId": 2, "metricName": metric},
            {"typeId": kind + 1, "metricId": 2, "metricName": "of another GPU"},
        ],
    }
    assert only(rows(tmp_path, "gpu_sample", tables)) == {
        "timestamp_ns": 10,
        "gpu_id": 3,
        "metric": metric,
        "unit": unit,
        "value": value,
    }


def test_gpu_metrics_in_generic_events(tmp_path: Path) -> None:
    source = '{"Name": "GpuMetrics", "TimeSource": "SessionNs"}'
    other = '{"Name": "FTrace", "TimeSource": "SessionNs"}'
    tables: Tables = {
        "GENERIC_EVENT_SOURCES": [
            {"sourceId": 1, "data": source},
            {"sourceId": 2, "data": other},
            {"sourceId": 3, "data": "not JSON"},
        ],
        "GENERIC_EVENT_TYPES": [
            {"typeId": 512, "sourceId": 1, "data": "{}"},
            {"typeId": 513, "sourceId": 2, "data": "{}"},
            {"typeId": 514, "sourceId": 3, "data": "{}"},
        ],
        "GENERIC_EVENTS": [
            {"rawTimestamp": 5, "timestamp": None, "typeId": 512, "data": '{"SM Active": "8"}'},
            {"rawTimestamp": 6, "timestamp": 60, "typeId": 512, "data": '{"a": "1", "b": "x"}'},
            {"rawTimestamp": 7, "timestamp": 70, "typeId": 512, "data": "broken {"},
            {"rawTimestamp": 8, "timestamp": 80, "typeId": 513, "data": '{"cpu": "1"}'},
            {"rawTimestamp": 9, "timestamp": 90, "typeId": 514, "data": '{"cpu": "1"}'},
        ],
    }
    found = rows(tmp_path, "gpu_sample", tables)
    assert sorted((row["timestamp_ns"], row["metric"], row["value"]) for row in found) == [
        (5, "SM Active", 8.0),
        (60, "a", 1.0),
        (60, "b", None),
    ]


# --- devices ------------------------------------------------------------------------------------


def devices(tmp_path: Path, tables: Tables) -> list[tuple[Any, ...]]:
    found = rows(tmp_path, "device", tables)
    shown = ("process_id", "device_id", "gpu_id", "name", "sm_count")
    found.sort(key=lambda row: (row["device_id"], row["process_id"] or 0))
    return [tuple(row[name] for name in shown) for row in found]


def test_device_properties(tmp_path: Path) -> None:
    found = only(rows(tmp_path, "device", {KERNEL: [kernel()], GPU: [gpu(4, 0)]}))
    assert found == {
        "process_id": None,
        "device_id": 0,
        "gpu_id": 4,
        "name": "A100",
        "uuid": "uuid-4",
        "compute_capability": "8.0",
        "sm_count": 108,
        "clock_hz": 1_410_000_000,
        "memory_bytes": 42_506_321_920,
        "memory_bandwidth_bytes_per_s": 1_555_200_000_000,
        "l2_bytes": 41_943_040,
        "max_threads_per_block": 1024,
        "max_warps_per_sm": 64,
        "max_blocks_per_sm": 32,
        "max_registers_per_block": 65536,
        "max_registers_per_sm": 65536,
        "max_shared_bytes_per_block": 49152,
        "max_shared_bytes_per_block_optin": 166_912,
        "max_shared_bytes_per_sm": 167_936,
    }


def old_gpu(device: int, **values: Any) -> dict[str, Any]:
    usual = {
        "deviceId": device,
        "pid": 100,
        "name": "RTX 3080",
        "pciBusId": "0000:0A:00.0",
        "computeCapabilityMajor": 8,
        "computeCapabilityMinor": 6,
        "numMultiprocessors": 68,
        "coreClockRate": 1_740_000,
        "globalMemorySize": 10_495_524_864,
        "globalMemoryBandwidth": 760_080_000,
        "maxSharedMemoryPerBlock": 49152,
    }
    return usual | values


def test_exports_of_2020_have_other_units(tmp_path: Path) -> None:
    tables: Tables = {
        KERNEL: [kernel(), kernel(deviceId=1)],
        "TARGET_INFO_CUDA_GPU": [
            old_gpu(0),
            old_gpu(1, globalMemorySize=32_510, globalMemoryBandwidth=0, pciBusId="0000:0B:00.0"),
        ],
        GPU: [{"deviceId": 6, "name": "RTX 3080", "busLocation": "0000:0a:00.0"}],
    }
    first, second = sorted(rows(tmp_path, "device", tables), key=lambda row: int(row["device_id"]))
    assert (first["gpu_id"], first["clock_hz"], first["memory_bytes"]) == (
        6,
        1_740_000_000,
        10_495_524_864,
    )
    assert first["memory_bandwidth_bytes_per_s"] == 760_080_000_000
    assert first["compute_capability"] == "8.6"
    assert (second["memory_bytes"], second["memory_bandwidth_bytes_per_s"]) == (
        32_510 * 2**20,
        None,
    )


def test_units_of_2020_beyond_64_bits(tmp_path: Path) -> None:
    names = ("coreClockRate", "globalMemorySize", "globalMemoryBandwidth")
    numbers = dict.fromkeys(names, -(2**63))
    tables: Tables = {KERNEL: [kernel()], "TARGET_INFO_CUDA_GPU": [old_gpu(0, **numbers)]}
    (found,) = rows(tmp_path, "device", tables)
    columns = ("clock_hz", "memory_bytes", "memory_bandwidth_bytes_per_s")
    assert [found[column] for column in columns] == [None, None, None]


def test_adapters_that_are_no_cuda_gpus_do_not_count(tmp_path: Path) -> None:
    idle = {"computeMajor": 0, "computeMinor": 0, "smCount": 0}
    tables: Tables = {
        KERNEL: [kernel()],
        GPU: [gpu(0, 0), gpu(1, 0, "Integrated", **idle), gpu(2, 0, "Software", **idle)],
    }
    assert devices(tmp_path, tables) == [(None, 0, 0, "A100", 108)]


def test_a_process_own_numbering_decides(tmp_path: Path) -> None:
    tables: Tables = {
        KERNEL: [kernel(100), kernel(200), kernel(300)],
        GPU: [gpu(0, 0), gpu(1, 0, "H100", smCount=132)],
        "TARGET_INFO_CUDA_DEVICE": [
            {"gpuId": 0, "cudaId": 0, "pid": 100, "uuid": None, "numMultiprocessors": 54},
            {"gpuId": None, "cudaId": 0, "pid": 200, "uuid": "uuid-1", "numMultiprocessors": 0},
        ],
    }
    assert devices(tmp_path, tables) == [
        (global_id(100), 0, 0, "A100", 54),
        (global_id(200), 0, 1, "H100", 132),
        (global_id(300), 0, None, None, None),  # not listed, and two GPUs claim number 0
    ]


def test_processes_that_share_a_gpu_share_a_row(tmp_path: Path) -> None:
    tables: Tables = {KERNEL: [kernel(100), kernel(200)], GPU: [gpu(0, 0), gpu(1, 1, "H100")]}
    assert devices(tmp_path, tables) == [(None, 0, 0, "A100", 108), (None, 1, 1, "H100", 108)]


@pytest.mark.slow
def test_equal_gpus_with_one_number(tmp_path: Path) -> None:
    tables: Tables = {KERNEL: [kernel()], GPU: [gpu(number, 0) for number in range(4)]}
    assert devices(tmp_path, tables) == [(None, 0, None, "A100", 108)]
    found, description = read(tmp_path / "made.sqlite", "device")
    assert only(found["device"])["uuid"] is None
    assert "device 0 is one of 4 equal GPUs (A100), the file does not show which" in (
        description.notes
    )


@pytest.mark.slow
def test_unequal_gpus_without_numbers(tmp_path: Path) -> None:
    listed = [gpu(0, None, "V100", smCount=80), gpu(1, None, "P100", smCount=56)]
    tables: Tables = {KERNEL: [kernel(deviceId=1)], GPU: listed}
    assert devices(tmp_path, tables) == [(None, 1, None, None, None)]
    _, description = read(tmp_path / "made.sqlite", "device")
    assert any("one of several GPUs" in note for note in description.notes)


@pytest.mark.slow
def test_the_only_gpu_needs_no_number(tmp_path: Path) -> None:
    tables: Tables = {KERNEL: [kernel()], GPU: [gpu(5, None)]}
    assert devices(tmp_path, tables) == [(None, 0, 5, "A100", 108)]
    other: Tables = {KERNEL: [kernel(deviceId=1)], GPU: [gpu(5, None)]}
    (tmp_path / "other").mkdir()
    assert devices(tmp_path / "other", other)[1] == (None, 1, None, None, None)


@pytest.mark.slow
def test_devices_that_nothing_describes(tmp_path: Path) -> None:
    tables: Tables = {KERNEL: [kernel(100), kernel(200, deviceId=1), kernel(300, deviceId=1)]}
    assert devices(tmp_path, tables) == [
        (None, 0, None, None, None),
        (global_id(200), 1, None, None, None),
        (global_id(300), 1, None, None, None),
    ]
    _, description = read(tmp_path / "made.sqlite", "device")
    assert any("describes no GPU" in note for note in description.notes)


def test_a_device_with_an_operation_without_process_has_one_row(tmp_path: Path) -> None:
    tables: Tables = {
        KERNEL: [
            kernel(100),
            kernel(200, globalPid=None),
            kernel(100, deviceId=1),
            kernel(200, deviceId=1),
        ]
    }
    assert [row[:2] for row in devices(tmp_path, tables)] == [
        (None, 0),
        (global_id(100), 1),
        (global_id(200), 1),
    ]


def test_zero_is_unknown(tmp_path: Path) -> None:
    blank = gpu(0, 0, smCount=0, clockRate=0, uuid="00000000-0000-0000-0000-000000000000")
    found = only(rows(tmp_path, "device", {KERNEL: [kernel()], GPU: [blank]}))
    assert (found["sm_count"], found["clock_hz"], found["uuid"]) == (None, None, None)


# --- what the file says about itself ------------------------------------------------------------


@pytest.mark.slow
def test_description(tmp_path: Path) -> None:
    _, description = read(write(tmp_path / "made.sqlite", profile()))
    assert (description.tool, description.kind) == ("nsys", "timeline")
    assert description.export_version == "2026.2.1.210"
    assert description.schema_version == "3.25.0"
    assert description.tool_version is None
    assert description.utc_start_ns == 1_700_000_000_000_000_000
    assert "nsys: Not all CUDA events collected" in description.notes
    assert "2 processes used GPUs (pid 100, 200)" in description.notes


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ("/opt/nvidia/nsight-systems-cli/2024.5.1/target-linux-x64/libcupti.so.12.6", "2024.5.1"),
        (r"C:\NVIDIA Corporation\Nsight Systems 2026.2.1\target\cupti64_132.dll", "2026.2.1"),
        ("/opt/cuda/nsight_systems/target-linux-x64/libcupti.so.12.6", None),
    ],
)
def test_capture_version(tmp_path: Path, said: str, version: str | None) -> None:
    event = {"severity": 1, "globalPid": 0, "text": f"Loaded CUPTI library: {said}"}
    tables = profile() | {"DIAGNOSTIC_EVENT": [event]}
    _, description = read(write(tmp_path / "made.sqlite", tables), "device")
    assert description.tool_version == version


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"TIME_SHIFT": "500", "TIME_NORMALIZE": "false"}, 1_700_000_000_000_000_000 - 500),
        ({"TIME_SHIFT": "0", "TIME_NORMALIZE": "true"}, 0),
        ({"TIME_SHIFT": "strange"}, 1_700_000_000_000_000_000),
    ],
)
def test_start_of_a_shifted_export(tmp_path: Path, facts: dict[str, str], expected: int) -> None:
    tables = profile()
    tables["META_DATA_EXPORT"] += [
        {"name": f"EXPORT_PARAM_{name}", "value": value} for name, value in facts.items()
    ]
    _, description = read(write(tmp_path / "made.sqlite", tables), "device")
    assert description.utc_start_ns == expected


def test_note_on_kernels_without_a_call(tmp_path: Path) -> None:
    tables: Tables = {
        KERNEL: [kernel(), kernel(200), kernel(correlationId=51), kernel(correlationId=51)],
        RUNTIME: [call(4, correlationId=50)],
    }
    assert "3 kernels have no launching call" in notes(tmp_path, tables)


@pytest.mark.parametrize(
    ("tables", "note"),
    [
        ({KERNEL: [kernel()]}, "no CUDA API calls were recorded"),
        ({RUNTIME: [call(4)]}, "CUDA calls were recorded but no GPU activity"),
        ({NVTX: [nvtx(59, text="a")]}, "no CUDA activity was recorded"),
        (
            {GPU: [], "META_DATA_CAPTURE": [{"name": "CAPTURE_EVENT_TYPE", "value": "OSRuntime"}]},
            "CUDA was not traced: profile with --trace=cuda,nvtx",
        ),
        ({MEMCPY: [operation(copyKind=1)]}, "no kernel was recorded"),
        (
            {
                "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": [operation(graphId=1)],
                RUNTIME: [call(4, correlationId=50)],
            },
            "1 CUDA graph launches were traced as a whole",
        ),
        (
            {
                KERNEL: [kernel()],
                "META_DATA_EXPORT": [{"name": "DERIVED_WINDOW_NS", "value": "5-9"}],
            },
            "a slice that another tool cut from a recording (5-9 ns)",
        ),
    ],
)
def test_notes(tmp_path: Path, tables: Tables, note: str) -> None:
    assert note in notes(tmp_path, tables)


def test_routine_warnings_are_not_passed_on(tmp_path: Path) -> None:
    def said(text: str, pid: int = 100, severity: int = 2) -> dict[str, Any]:
        return {"severity": severity, "globalPid": global_id(pid), "text": text}

    tables: Tables = {
        KERNEL: [kernel()],
        "DIAGNOSTIC_EVENT": [
            said("CUDA profiling might have not been started correctly."),
            said("No NVTX events collected. Does the process use NVTX?"),
            said("Not all NVTX events might have been collected.", 300),
            said("Unable to collect CPU samples. perf event paranoid level is 4."),
            said("CUDA events dropped", severity=4),
            said("ActivityFlushAll returned 15:\n CUPTI_ERROR_NOT_INITIALIZED", severity=3),
        ],
    }
    assert [line for line in notes(tmp_path, tables).splitlines() if line.startswith("nsys:")] == [
        "nsys: ActivityFlushAll returned 15: CUPTI_ERROR_NOT_INITIALIZED"
    ]


@pytest.mark.slow
def test_no_environment_or_command_line_comes_out(tmp_path: Path) -> None:
    path = write(tmp_path / "made.sqlite", profile())
    assert SECRET.encode() in path.read_bytes()
    found, description = read(path)
    assert all(found[name] for name in found if name not in _NEVER_IN_NSYS)
    assert SECRET not in repr(found)
    assert SECRET not in repr(description)


_NEVER_IN_NSYS = {
    *("kernel_metric", "kernel_aggregate", "layer_definition", "trace"),
    *("memory_annotation", "memory_block", "memory_device", "memory_failure", "memory_plan"),
    "memory_segment",
    *("memory_stack", "memory_total", "operator_input", "collective_record", "job_rank"),
    *("job_point", "link_sample", "event_wait", "flight_group", "flight_record"),
}


# --- any subset of the schema -------------------------------------------------------------------

_COLUMNS = [(table, name) for table, columns in profile().items() for name in columns[0]]


@st.composite
def _damaged_profiles(draw: st.DrawFn) -> Tables:
    tables = copy.deepcopy(profile())
    for name in draw(st.sets(st.sampled_from(sorted(tables)), max_size=8)):
        del tables[name]
    for table, column in draw(st.sets(st.sampled_from(_COLUMNS), max_size=12)):
        for row in tables.get(table, []):
            row.pop(column, None)
    return tables


@pytest.mark.slow
@settings(max_examples=examples(15), suppress_health_check=[HealthCheck.too_slow])
@given(tables=_damaged_profiles())
def test_any_subset_of_the_schema_reads(
    tables: Tables, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = write(tmp_path_factory.mktemp("made") / "made.sqlite", tables)
    if not (EVENTS.keys() | {GPU}) & tables.keys():
        return
    found, description = read(path)
    for table, key in (("kernel", KERNEL), ("memcpy", MEMCPY), ("synchronization", SYNC)):
        assert len(found[table]) == len(tables.get(key, []))
    for operation_ in found["kernel"] + found["memcpy"] + found["memset"]:
        if operation_["device_id"] is not None:
            assert len(_matching(found["device"], operation_)) == 1
    lacking = [name for name in ("start", "end") if KERNEL in tables and _lacks(tables, name)]
    assert any(KERNEL in note for note in description.notes) is bool(lacking)


def _lacks(tables: Tables, column: str) -> bool:
    return not any(column in row for row in tables[KERNEL])


def _matching(found: Rows, operation_: dict[str, Any]) -> Rows:
    return [
        device
        for device in found
        if device["device_id"] == operation_["device_id"]
        and device["process_id"] in (None, operation_["process_id"])
    ]


def test_values_of_another_type_are_null(tmp_path: Path) -> None:
    odd = kernel(registersPerThread="many", gridX="4", deviceId=2**40, globalPid=b"\x00")
    found = only(rows(tmp_path, "kernel", {KERNEL: [odd]}))
    assert (found["registers_per_thread"], found["grid_x"]) == (None, 4)
    assert (found["device_id"], found["process_id"]) == (None, None)


# --- memory -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_events_are_streamed_past_the_tables_that_explain_them(tmp_path: Path) -> None:
    """No join keeps the events in memory: they are on the probe side of every one."""
    path = write(tmp_path / "made.sqlite", profile())
    with NsysReader(path) as reader, duckdb.connect() as connection:
        for table in ("kernel", "memcpy", "api_call", "annotation", "synchronization"):
            select = reader.relation(connection, table)
            plan = connection.execute(f"EXPLAIN {select}").fetchall()[0][1]
            assert "Join Type: LEFT" in plan
            assert "Join Type: RIGHT" not in plan


@pytest.mark.slow
def test_many_batches_and_threads(tmp_path: Path) -> None:
    path = write(tmp_path / "made.sqlite", {"StringIds": strings(), KERNEL: [], NVTX: []})
    count = 150_000
    with sqlite3.connect(path) as file:
        file.execute(f"DROP TABLE {KERNEL}")
        file.execute(
            f"CREATE TABLE {KERNEL} AS WITH RECURSIVE n(i) AS "
            f"(SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count}) "
            'SELECT i AS start, 2 * i AS "end", i AS correlationId, 1 AS demangledName FROM n'
        )
    with NsysReader(path) as reader, duckdb.connect(config={"threads": 4}) as connection:
        select = reader.relation(connection, "kernel")
        target = tmp_path / "kernel.parquet"
        connection.execute(f"COPY ({select}) TO '{target}'").fetchall()
        total = connection.execute(
            f"SELECT count(*), count(DISTINCT kernel_id), sum(duration_ns) FROM '{target}'"
        ).fetchall()
    assert total == [(count, count, count * (count + 1) // 2)]
