"""The nvprof reader on databases made here, whose every row is known."""

from __future__ import annotations

import csv
import sqlite3
import struct
from collections.abc import Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tbd_trace
from fast import examples
from made_nvprof import PID, START, TID, Row, call, host, kernel, make
from nvtx_views import nvtx_rows
from tbd_trace import resources
from tbd_trace.errors import InputError
from tbd_trace.model.canonical_tables import canonical_tables
from tbd_trace.sources.base import TraceDescription
from tbd_trace.sources.nvprof import reader as reader_module
from tbd_trace.sources.nvprof.reader import NVPROF_SQLITE
from tbd_trace.sources.nvprof.tables import ACTIVITY_PREFIX, RAW_TABLES, Blob
from tbd_trace.store import Database


def read(path: Path) -> tuple[dict[str, list[Row]], TraceDescription]:
    """Read every canonical table, rows that have a number in its order."""
    tables: dict[str, list[Row]] = {}
    with NVPROF_SQLITE.open(path) as reader, duckdb.connect() as connection:
        for table in canonical_tables():
            select = reader.relation(connection, table)
            rows = connection.execute(f"FROM ({select})") if select else None
            names = [column[0] for column in rows.description] if rows else []
            found = rows.fetchall() if rows else []
            tables[table] = [dict(zip(names, row, strict=True)) for row in found]
            if (number := f"{table}_id") in names:
                tables[table].sort(key=itemgetter(number))
        return tables | nvtx_rows(tables["annotation"]), reader.describe()


def test_kernel_joins_its_launch_by_process_and_correlation(tmp_path: Path) -> None:
    activities = {
        "CONCURRENT_KERNEL": [kernel(gridX=3, graphId=0, sharedMemoryExecuted=8192)],
        "RUNTIME": [call(211, 7)],
        "DRIVER": [call(307, 8)],
    }
    tables, description = read(make(tmp_path / "a.nvvp", ["_ZN2ns3fooIfEEvPT_"], activities))
    (found,) = tables["kernel"]
    assert found["name"] == "void ns::foo<float>(float*)"
    assert (found["short_name"], found["mangled_name"]) == ("foo", "_ZN2ns3fooIfEEvPT_")
    assert (found["duration_ns"], found["process_id"], found["grid_x"]) == (50, PID, 3)
    assert found["graph_id"] is None
    launch = next(row for row in tables["api_call"] if row["correlation_id"] == 7)
    assert (launch["name"], launch["thread_id"]) == ("cudaLaunchKernel", TID)
    driver = next(row for row in tables["api_call"] if row["correlation_id"] == 8)
    assert driver["name"] == "cuLaunchKernel"
    assert tables["thread"] == [{"process_id": PID, "thread_id": TID, "tid": None, "name": None}]
    assert (description.kind, description.schema_version) == ("timeline", "18")
    assert description.utc_start_ns is None
    assert description.notes == []


def test_kernels_of_all_kinds_are_numbered_once(tmp_path: Path) -> None:
    activities = {
        "KERNEL": [kernel(0)],
        "CONCURRENT_KERNEL": [kernel(2), kernel(99)],
        "CDP_KERNEL": [kernel(1, START + 10)],
        "RUNTIME": [call(211, 7)],
    }
    tables, description = read(make(tmp_path / "a.nvvp", ["child", "plain"], activities))
    by_number = {row["kernel_id"]: row["name"] for row in tables["kernel"]}
    assert by_number == {1: "unnamed kernel", 2: "plain", 3: "unnamed kernel", 4: "child"}
    assert "--concurrent-kernels off" in description.notes[0]


def test_times_that_cupti_could_not_take_are_null(tmp_path: Path) -> None:
    activities = {"CONCURRENT_KERNEL": [kernel(start=0), kernel()], "RUNTIME": [call(211, 7)]}
    tables, description = read(make(tmp_path / "a.nvvp", ["k"], activities))
    times = [(row["start_ns"], row["end_ns"], row["duration_ns"]) for row in tables["kernel"]]
    assert times == [(None, None, None), (START, START + 50, 50)]
    assert description.notes[0].startswith("1 kernels have no times")


def test_unknown_callbacks_keep_their_number(tmp_path: Path) -> None:
    calls = {"RUNTIME": [call(99_999, 1), call(211, 2, end=0)], "DRIVER": [call(88_888, 3)]}
    tables, _ = read(make(tmp_path / "a.nvvp", [], calls))
    by_correlation = {row["correlation_id"]: row for row in tables["api_call"]}
    assert by_correlation[1]["name"] == "runtime callback 99999"
    assert by_correlation[3]["name"] == "driver callback 88888"
    assert by_correlation[2]["end_ns"] == by_correlation[2]["start_ns"]


def test_two_processes_leave_gpu_work_unassigned(tmp_path: Path) -> None:
    calls = [call(211, 7), call(211, 7, processId=PID + 1)]
    activities = {"CONCURRENT_KERNEL": [kernel()], "RUNTIME": calls}
    tables, description = read(make(tmp_path / "a.nvvp", ["k"], activities))
    assert tables["kernel"][0]["process_id"] is None
    assert {row["process_id"] for row in tables["process"]} == {PID, PID + 1}
    assert "several processes" in description.notes[0]


def test_process_name_is_the_command_without_options(tmp_path: Path) -> None:
    process = {"objectKind": 1, "objectId": struct.pack("<III", PID, 77, 9), "name": 1}
    windows = {"objectKind": 2, "objectId": struct.pack("<III", PID, 22680, 0), "name": 2}
    calls = [call(211, 1, threadId=22680)]
    strings = ["python train.py --token=s3cret", "worker"]
    activities = {"NAME": [process, windows], "RUNTIME": calls}
    tables, _ = read(make(tmp_path / "a.nvvp", strings, activities))
    assert tables["process"] == [{"process_id": PID, "pid": PID, "name": "python train.py"}]
    expected = {"process_id": PID, "thread_id": 22680, "tid": 22680, "name": "worker"}
    assert tables["thread"] == [expected]


def test_copies_between_host_gpus_and_managed_memory(tmp_path: Path) -> None:
    times = {"start": START, "end": START + 10}
    migration = {"start": START, "end": START + 4, "processId": PID, "value": 4096}
    cpu = 0xFFFFFFFF
    activities = {
        "MEMCPY": [
            {**times, "copyKind": 1, "srcKind": 1, "dstKind": 3, "bytes": 64, "deviceId": 2},
        ],
        "MEMCPY2": [
            {**times, "copyKind": 10, "srcKind": 3, "dstKind": 3, "bytes": 32, "deviceId": 0,
             "srcDeviceId": 0, "dstDeviceId": 1},
        ],
        "UNIFIED_MEMORY_COUNTER": [
            {**migration, "counterKind": 1, "srcId": cpu, "dstId": 3},
            {**migration, "counterKind": 2, "srcId": 3, "dstId": -1},
            {**migration, "counterKind": 4, "srcId": 3, "dstId": 0},
        ],
    }  # fmt: skip
    tables, _ = read(make(tmp_path / "a.nvvp", [], activities))
    shown = ("direction", "bytes", "device_id", "src_device_id", "dst_device_id", "src_kind")
    assert [tuple(row[name] for name in shown) for row in tables["memcpy"]] == [
        ("HtoD", 64, 2, None, None, "pageable"),
        ("PtoP", 32, 0, 0, 1, "device"),
        ("unified HtoD", 4096, 3, None, 3, None),
        ("unified DtoH", 4096, 3, 3, None, None),
    ]


COPY_KINDS = ["HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"]
"""CUpti_ActivityMemcpyKind, from 1 on."""
MEMORY_KINDS = ["unknown", "pageable", "pinned", "device", "array", "managed", "device static",
    "managed static"]  # fmt: skip
"""CUpti_ActivityMemoryKind, from 0 on."""


def test_kinds_of_copies_and_memory_have_the_numbers_of_cupti(tmp_path: Path) -> None:
    times = {"start": START, "end": START + 10, "bytes": 64, "deviceId": 0}
    copies = [
        {**times, "copyKind": number, "srcKind": number % 8, "dstKind": (number + 1) % 8}
        for number in range(1, 11)
    ]
    tables, _ = read(make(tmp_path / "a.nvvp", [], {"MEMCPY": copies}))
    shown = ("direction", "src_kind", "dst_kind")
    assert sorted(tuple(row[name] for name in shown) for row in tables["memcpy"]) == sorted(
        (kind, MEMORY_KINDS[number % 8], MEMORY_KINDS[(number + 1) % 8])
        for number, kind in enumerate(COPY_KINDS, 1)
    )


def test_other_operations(tmp_path: Path) -> None:
    times = {"start": START, "end": START + 10, "deviceId": 1, "contextId": 5, "streamId": 7}
    sync = {"start": START, "end": START + 3, "contextId": 5}
    activities = {
        "MEMSET": [{**times, "bytes": 16, "memoryKind": 3}],
        "GRAPH_TRACE": [{**times, "graphId": 4, "correlationId": 9}],
        "SYNCHRONIZATION": [
            {**sync, "type": 3, "streamId": 7, "correlationId": 2},
            {**sync, "type": 4, "streamId": -1, "correlationId": 3},
            {**sync, "type": 2, "streamId": 0xFFFFFFFF, "correlationId": 0},
        ],
        "CONTEXT": [{"contextId": 5, "deviceId": 1}],
        "ENVIRONMENT": [
            {"deviceId": 1, "timestamp": START, "environmentKind": 3,
             "data": struct.pack("<5I", 123_000, 200_000, 0, 0, 0)},
            {"deviceId": 1, "timestamp": START, "environmentKind": 2, "data": b"\x37\0"},
        ],
    }  # fmt: skip
    tables, _ = read(make(tmp_path / "a.nvvp", [], activities))
    assert tables["memset"][0]["memory_kind"] == "device"
    assert tables["graph_launch"][0]["duration_ns"] == 10
    syncs = [
        (row["sync_type"], row["stream_id"], row["device_id"], row["correlation_id"])
        for row in tables["synchronization"]
    ]
    assert syncs == [
        ("stream synchronize", 7, 1, 2),
        ("context synchronize", None, 1, 3),
        ("stream wait event", None, 1, None),
    ]
    samples = {row["metric"]: row["value"] for row in tables["gpu_sample"]}
    assert samples.pop("GPU temperature") is None  # the record is cut short
    assert samples == {"Power": pytest.approx(123.0), "Power limit": pytest.approx(200.0)}


def test_device_in_base_units(tmp_path: Path) -> None:
    row = {
        "id": 0, "name": 1, "coreClockRate": 1_530_000, "globalMemoryBandwidth": 898_048_000,
        "globalMemorySize": 1 << 34, "numMultiprocessors": 80, "computeCapabilityMajor": 7,
        "computeCapabilityMinor": 0, "uuid": bytes(range(16)), "l2CacheSize": 0,
    }  # fmt: skip
    zero = {**row, "id": 1, "uuid": bytes(16)}
    tables, _ = read(make(tmp_path / "a.nvvp", ["Tesla V100"], {"DEVICE": [row, zero]}))
    first, second = tables["device"]
    assert first["uuid"] == "00010203-0405-0607-0809-0a0b0c0d0e0f"
    assert second["uuid"] is None
    assert (first["name"], first["compute_capability"]) == ("Tesla V100", "7.0")
    assert first["clock_hz"] == 1_530_000_000
    assert first["memory_bandwidth_bytes_per_s"] == 898_048_000_000
    assert first["l2_bytes"] is None


@pytest.mark.slow
@pytest.mark.parametrize("number", [2**63 - 1, -(2**63)])
def test_units_of_a_device_beyond_64_bits(number: int, tmp_path: Path) -> None:
    row = {"id": 0, "coreClockRate": number, "globalMemoryBandwidth": number}
    path = make(tmp_path / "a.nvvp", ["k"], {"DEVICE": [row], "CONCURRENT_KERNEL": [kernel()]})
    database = Database(tmp_path / "made.duckdb")
    database.ingest([path])
    with tbd_trace.open(db=database.path) as traces:
        found = traces.sql("SELECT clock_hz, memory_bandwidth_bytes_per_s FROM device").rows()
    assert found == [(None, None)]


def test_allocations_from_either_table(tmp_path: Path) -> None:
    place = {"memoryKind": 3, "bytes": 512, "processId": PID, "deviceId": 0, "contextId": 1}
    high = -(1 << 63) + 16  # SQLite's integers are signed
    pairs = [
        {**place, "address": 4096, "start": START, "end": START + 9},
        {**place, "address": high, "start": START, "end": 0},
    ]
    tables, _ = read(make(tmp_path / "a.nvvp", [], {"MEMORY": pairs}))
    events = sorted(
        (r["address"], r["operation"], r["timestamp_ns"]) for r in tables["memory_event"]
    )
    assert events == [
        (4096, "allocate", START),
        (4096, "free", START + 9),
        ((1 << 63) + 16, "allocate", START),
    ]
    single = {
        **place, "address": 1, "timestamp": START, "memoryOperationType": 2, "streamId": -1,
        "deviceId": 0xFFFFFFFF,
    }  # fmt: skip
    tables, _ = read(make(tmp_path / "b.nvvp", [], {"MEMORY": pairs, "MEMORY2": [single]}))
    (event,) = tables["memory_event"]
    assert (event["operation"], event["stream_id"], event["memory_kind"]) == (
        "free",
        None,
        "device",
    )


def ranges(path: Path, markers: Sequence[Row], **more: Sequence[Row]) -> dict[str, Row]:
    activities = {"MARKER": markers, **more}
    tables, _ = read(make(path, ["a", "b", "c", "my domain"], activities))
    return {row["text"]: row for row in tables["nvtx_range"]}


def mark(flags: int, at: int, number: int, name: int = 0, **more: Any) -> Row:
    where = host() | more
    return {"flags": flags, "timestamp": START + at, "id": number, "name": name, **where}


def test_nested_ranges_are_push_pop(tmp_path: Path) -> None:
    markers = [
        mark(2, 0, 1, 1), mark(2, 0, 2, 2), mark(4, 5, 2), mark(2, 5, 3, 3, domain=4),
        mark(4, 9, 3), mark(4, 9, 1), mark(1, 4, 4, 2),
    ]  # fmt: skip
    found = ranges(tmp_path / "a.nvvp", markers)
    assert {name: row["kind"] for name, row in found.items()} == dict.fromkeys("abc", "push_pop")
    assert (found["b"]["start_ns"], found["b"]["end_ns"]) == (START, START + 5)
    assert (found["a"]["thread_id"], found["a"]["process_id"]) == (TID, PID)
    assert (found["c"]["domain"], found["a"]["domain"]) == ("my domain", None)
    assert (found["c"]["domain_id"], found["a"]["domain_id"]) == (4, 0)
    assert [row["nvtx_range_id"] for row in found.values()] == [1, 2, 3]
    tables, _ = read(tmp_path / "a.nvvp")
    assert [(m["text"], m["timestamp_ns"]) for m in tables["nvtx_mark"]] == [("b", START + 4)]


@pytest.mark.slow
def test_crossing_and_travelling_ranges_are_start_end(tmp_path: Path) -> None:
    crossing = [mark(2, 0, 1, 1), mark(2, 2, 2, 2), mark(4, 4, 1), mark(4, 6, 2)]
    found = ranges(tmp_path / "a.nvvp", crossing)
    assert (found["a"]["kind"], found["b"]["kind"]) == ("start_end", "push_pop")
    elsewhere = host(tid=99)
    found = ranges(tmp_path / "b.nvvp", [mark(2, 0, 1, 1), mark(4, 4, 1, **elsewhere)])
    assert (found["a"]["kind"], found["a"]["end_thread_id"]) == ("start_end", 99)
    process = {"objectKind": 1}
    found = ranges(tmp_path / "c.nvvp", [mark(2, 0, 1, 1, **process), mark(4, 4, 1, **process)])
    assert (found["a"]["kind"], found["a"]["thread_id"]) == ("start_end", None)


def test_open_ranges_last_to_the_end_of_the_recording(tmp_path: Path) -> None:
    markers = [mark(2, 0, 1, 1), mark(2, 2, 2, 2), mark(4, 4, 1), mark(2, 6, 3, 3)]
    kernels = {"CONCURRENT_KERNEL": [kernel(start=START + 100)]}
    found = ranges(tmp_path / "a.nvvp", markers, **kernels)
    assert [row["is_open"] for row in found.values()] == [False, True, True]
    assert found["b"]["end_ns"] == found["c"]["end_ns"] == START + 150
    # b was open when the range around it was closed: no pop can have done that.
    assert [row["kind"] for row in found.values()] == ["push_pop", "start_end", "push_pop"]


def test_markers_before_version_9_have_no_domain(tmp_path: Path) -> None:
    found = ranges(tmp_path / "a.nvvp", [mark(2, 0, 1, 1), mark(4, 4, 1)])
    assert (found["a"]["domain_id"], found["a"]["domain"]) == (0, None)


def test_payload_is_read_by_its_kind(tmp_path: Path) -> None:
    markers = [mark(2, 0, 1, 1), mark(4, 1, 1), mark(2, 2, 2, 2), mark(4, 3, 2), mark(2, 4, 3, 3)]
    data = [
        {"id": 1, "payloadKind": 0, "payload": struct.pack("<d", 2.5)},
        {"id": 2, "payloadKind": 4, "payload": struct.pack("<q", -3)},
        {"id": 3, "payloadKind": 0, "payload": bytes(8)},
    ]
    found = ranges(tmp_path / "a.nvvp", markers, MARKER_DATA=data)
    assert [row["payload"] for row in found.values()] == [2.5, -3.0, None]


def nesting_by_stack(closed: Mapping[int, tuple[int, int]]) -> set[int]:
    """Return the ranges whose end finds another, later one still open: no stack closes those."""
    crossed = set()
    for number, (start, end) in closed.items():
        inside = [other for other in closed.values() if start < other[0] < end]
        if any(other_end > end for _, other_end in inside):
            crossed.add(number)
    return crossed


@pytest.mark.slow
@settings(
    max_examples=examples(25),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=8))
def test_push_pop_ranges_always_nest(tmp_path: Path, spans: list[tuple[int, int]]) -> None:
    closed = {number: (min(span), max(span)) for number, span in enumerate(spans, 1)}
    path = tmp_path / "nest.nvvp"
    path.unlink(missing_ok=True)
    markers = [mark(2, start, number, 1) for number, (start, _) in closed.items()]
    markers += [mark(4, end, number) for number, (_, end) in closed.items()]
    tables, _ = read(make(path, ["r"], {"MARKER": markers}))
    kinds = {row["nvtx_range_id"]: row["kind"] for row in tables["nvtx_range"]}
    crossed = nesting_by_stack(closed)
    assert kinds == {n: "start_end" if n in crossed else "push_pop" for n in closed}


METRICS = {  # number, name, bytes, value, unit: as CUPTI defines them for Volta
    "percent": (20971523, "warp_execution_efficiency", struct.pack("<d", 83.5), 83.5, "%"),
    "throughput": (20971548, "gld_throughput", struct.pack("<Q", 1 << 40), 2.0**40, "byte/s"),
    "uint64": (20971536, "gld_transactions", struct.pack("<Q", 57), 57.0, "count"),
}  # fmt: skip


def metric_rows(path: Path, **activities: Sequence[Row]) -> list[Row]:
    rows = {"KERNEL": [kernel(correlation=7)], **activities}
    tables, _ = read(make(path, ["k"], rows))
    return tables["kernel_metric"]


@pytest.mark.parametrize("kind", METRICS)
def test_metric_values_by_kind(tmp_path: Path, kind: str) -> None:
    number, name, blob, value, unit = METRICS[kind]
    row = {"id": number, "value": blob, "correlationId": 7, "flags": 0}
    (found,) = metric_rows(tmp_path / "a.nvprof", METRIC=[row])
    assert (found["metric"], found["value"], found["unit"]) == (name, value, unit)
    assert (found["metric_id"], found["kernel_id"], found["kernel_name"]) == (number, 1, "k")
    assert found["text"] is None


def test_level_is_the_low_half_of_its_bytes(tmp_path: Path) -> None:
    levels = [row for row in metric_table() if row["kind"] == "level"]
    number = int(levels[0]["id"])
    row = {"id": number, "value": struct.pack("<II", 10, 0xDEAD), "correlationId": 7, "flags": 0}
    (found,) = metric_rows(tmp_path / "a.nvprof", METRIC=[row])
    assert (found["value"], found["unit"], found["metric"]) == (10.0, "level", levels[0]["name"])


def test_metric_values_that_are_none(tmp_path: Path) -> None:
    number, _, blob, *_ = METRICS["percent"]
    rows = [
        {"id": number, "value": blob, "correlationId": 7, "flags": 1},
        {"id": number, "value": blob, "correlationId": 7, "flags": 2},
        {"id": number, "value": struct.pack("<d", float("nan")), "correlationId": 7, "flags": 0},
        {"id": 987654321, "value": bytes.fromhex("0102030405060708"), "correlationId": 7},
        {"id": number, "value": b"\1", "correlationId": 7, "flags": 0},
    ]
    path = tmp_path / "a.nvprof"
    found = metric_rows(path, METRIC=rows)
    assert [row["value"] for row in found] == [None] * 5
    by_text = {row["text"]: row for row in found}
    assert set(by_text) == {"<OVERFLOW>", "<INVALID>", "nan", "0102030405060708", None}
    unknown = by_text["0102030405060708"]
    assert (unknown["metric"], unknown["unit"]) == ("metric 987654321", None)
    _, description = read(path)
    assert description.kind == "metrics"
    assert any("987654321" in note for note in description.notes)


def test_instances_and_events(tmp_path: Path) -> None:
    number, _, blob, *_ = METRICS["percent"]
    instance = {"id": number, "value": blob, "correlationId": 7, "flags": 0, "instance": 79}
    event = {"id": 100663364, "value": 12, "correlationId": 7}
    unknown = {"id": 424242, "value": 13, "correlationId": 7, "instance": 1}
    rows = {"METRIC_INSTANCE": [instance], "EVENT": [event], "EVENT_INSTANCE": [unknown]}
    found = {row["metric"]: row for row in metric_rows(tmp_path / "a.nvprof", **rows)}
    assert found["warp_execution_efficiency"]["unit_instance"] == 79
    warps = found["warps_launched"]
    assert (warps["value"], warps["metric_id"], warps["unit_instance"]) == (12.0, None, None)
    assert (found["event 424242"]["value"], found["event 424242"]["unit"]) == (13.0, None)


@pytest.mark.slow
def test_metrics_of_an_ambiguous_launch_name_no_kernel(tmp_path: Path) -> None:
    number, _, blob, *_ = METRICS["percent"]
    metric = {"id": number, "value": blob, "correlationId": 7, "flags": 0}
    child = {"CDP_KERNEL": [kernel(correlation=7)]}
    (found,) = metric_rows(tmp_path / "a.nvprof", METRIC=[metric], **child)
    assert found["kernel_id"] == 1
    twice = {"KERNEL": [kernel(correlation=7), kernel(correlation=7, deviceId=1)]}
    (found,) = metric_rows(tmp_path / "b.nvprof", METRIC=[metric], **twice)
    assert (found["kernel_id"], found["device_id"], found["kernel_name"]) == (None, None, "k")


def test_relations_do_not_depend_on_their_order(tmp_path: Path) -> None:
    number, _, blob, *_ = METRICS["percent"]
    metric = {"id": number, "value": blob, "correlationId": 7, "flags": 0}
    activities = {"KERNEL": [kernel()], "METRIC": [metric], "MEMSET": [{"start": 1, "end": 2}]}
    path = make(tmp_path / "a.nvprof", ["k"], activities)
    with NVPROF_SQLITE.open(path) as reader, duckdb.connect() as connection:
        for table in ("kernel", "memset", "kernel_metric", "process", "kernel"):
            select = reader.relation(connection, table)
            assert select is not None
            assert len(connection.execute(select).fetchall()) == (0 if table == "process" else 1)


def test_epoch_clock_is_recognised(tmp_path: Path) -> None:
    activities = {"CONCURRENT_KERNEL": [kernel(start=1_583_978_810_959_705_735)]}
    _, description = read(make(tmp_path / "a.nvvp", ["k"], activities))
    assert description.utc_start_ns == 0


def test_empty_recordings_say_why(tmp_path: Path) -> None:
    tables, description = read(make(tmp_path / "a.nvvp", [], {"RUNTIME": []}))
    assert not any(tables.values())
    assert "recorded nothing" in description.notes[0]
    assert "cudaProfilerStart" in description.notes[0]
    device = {"DEVICE": [{"id": 0}], "RUNTIME": []}
    tables, description = read(make(tmp_path / "b.nvvp", [], device))
    assert [row["device_id"] for row in tables["device"]] == [0]
    assert "although CUDA was started" in description.notes[0]


def test_newer_versions_are_read_with_a_note(tmp_path: Path) -> None:
    path = make(tmp_path / "a.nvvp", ["k"], {"CONCURRENT_KERNEL": [kernel(novelty=1)]}, version=23)
    tables, description = read(path)
    assert len(tables["kernel"]) == 1
    assert description.schema_version == "23"
    assert "23" in description.notes[0]


def detected(path: Path) -> bool:
    return NVPROF_SQLITE.detect(path, path.read_bytes()[:65_536])


def test_detection_is_by_content(tmp_path: Path) -> None:
    assert detected(make(tmp_path / "no-extension", [], {"RUNTIME": []}))
    assert not detected(make(tmp_path / "other.nvvp", [], {}))
    (tmp_path / "text.nvvp").write_text("SQLite format 3")
    assert not detected(tmp_path / "text.nvvp")
    with sqlite3.connect(tmp_path / "nsys.sqlite") as database:
        database.execute(f"CREATE TABLE {ACTIVITY_PREFIX}KERNEL (start)")
        database.execute("CREATE TABLE StringIds (id, value)")
    database.close()
    assert not detected(tmp_path / "nsys.sqlite")


def test_truncated_file_is_one_clear_error(tmp_path: Path) -> None:
    whole = make(tmp_path / "a.nvvp", ["k"], {"CONCURRENT_KERNEL": [kernel()] * 2000})
    cut = tmp_path / "cut.nvvp"
    cut.write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
    assert detected(cut)
    with pytest.raises(InputError, match=r"damaged or incomplete"):
        NVPROF_SQLITE.open(cut)


def filler(name: str, kind: object, row: int) -> object:
    """Return a value that a column could hold; flags have every bit that means something."""
    if isinstance(kind, Blob):
        return bytes(range(1, 17))
    if name == "flags":
        return 7
    return 1 if name.endswith(("Kind", "Type")) else START + row


def full_rows() -> dict[str, list[Row]]:
    """Return two rows of every activity table with every column that is read."""
    return {
        table.removeprefix(ACTIVITY_PREFIX): [
            {n: filler(n, kind, row) for n, kind in columns.items() if n != "_id_"}
            for row in range(2)
        ]
        for table, columns in RAW_TABLES.items()
        if table.startswith(ACTIVITY_PREFIX)
    }


@pytest.mark.slow
@settings(
    max_examples=examples(30),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.data())
def test_any_missing_tables_and_columns_are_survived(tmp_path: Path, data: st.DataObject) -> None:
    full = full_rows()
    kept = data.draw(st.sets(st.sampled_from(sorted(full)), min_size=1))
    columns = sorted({name for kind in kept for name in full[kind][0]})
    dropped = data.draw(st.sets(st.sampled_from(columns), max_size=6))
    activities = {
        kind: [{n: v for n, v in row.items() if n not in dropped} for row in full[kind]]
        for kind in kept
    }
    path = tmp_path / "some.nvvp"
    path.unlink(missing_ok=True)
    tables, _ = read(make(path, ["k"], activities))
    kernels = sum(2 for kind in kept if kind in ("KERNEL", "CONCURRENT_KERNEL", "CDP_KERNEL"))
    assert len(tables["kernel"]) == kernels
    migrations = "UNIFIED_MEMORY_COUNTER" in kept and "counterKind" not in dropped
    copies = sum(2 for kind in kept if kind in ("MEMCPY", "MEMCPY2")) + 2 * migrations
    assert len(tables["memcpy"]) == copies


@pytest.mark.slow
def test_every_mapping_yields_columns_of_its_canonical_table(tmp_path: Path) -> None:
    path = make(tmp_path / "full.nvvp", ["k"], full_rows())
    filled = set()
    with NVPROF_SQLITE.open(path) as reader, duckdb.connect() as connection:
        for name, table in canonical_tables().items():
            if select := reader.relation(connection, name):
                filled.add(name)
                types = {column.name: column.type for column in table.columns}
                given_names = [
                    row[0] for row in connection.execute(f"DESCRIBE {select}").fetchall()
                ]
                assert set(given_names) <= types.keys() - {"trace_id"}
                casts = ", ".join(f"CAST({given} AS {types[given]})" for given in given_names)
                assert connection.execute(f"SELECT {casts} FROM ({select})").fetchall(), name
    mappings = Path(reader_module.__file__).with_name("sql").glob("[!_]*.sql")
    assert filled == {mapping.stem for mapping in mappings}


def metric_table() -> list[dict[str, str]]:
    with (resources.data() / "nvprof_metrics.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_data_tables_have_unique_keys_and_known_words() -> None:
    rows = metric_table()
    assert len({(row["record"], row["id"]) for row in rows}) == len(rows) > 1000
    kinds = {row["kind"] for row in rows}
    assert kinds <= {"double", "uint64", "int64", "percent", "throughput", "level"}
    assert all((row["kind"] == "percent") == (row["unit"] == "%") for row in rows)
    assert {row["unit"] for row in rows if row["name"] == "dram_read_bytes"} == {"byte"}
    with (resources.data() / "cupti_callbacks.csv").open(newline="") as file:
        calls = list(csv.DictReader(file))
    assert len({(row["domain"], row["cbid"]) for row in calls}) == len(calls) > 1000
    assert not any(row["name"].endswith(("_ptsz", "_v7000", "_v2")) for row in calls)
