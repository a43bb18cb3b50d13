"""Traces of torch.profiler: what each event becomes, and the traps of the format."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest

import made_kineto as made
import tbd_trace
from corpus import ROOT
from fast import one_in
from fixed_columns import fixed_columns
from made_kineto import document, event, frame, kernel, launch, memory, operator, write
from tbd_trace.errors import CannotAnswerError, InputError
from tbd_trace.model.canonical_tables import canonical_tables
from tbd_trace.query import Catalogue, execute, sql
from tbd_trace.query.advice import how_to_collect
from tbd_trace.sources.kineto import event_list, kept_events
from tbd_trace.sources.kineto import reader as kineto
from tbd_trace.sources.kineto.module_paths import Frames
from tbd_trace.store import Database

SAMPLE = ROOT / "data" / "samples" / "synthetic_mlp"


class Ingested:
    """One file in a database of its own."""

    def __init__(self, path: Path) -> None:
        self.database = Database(path.with_name(f"{path.name}.duckdb"))
        (self.report,) = self.database.ingest([path])
        self.notes = " | ".join(self.report.notes)

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        return sql(self.database, statement, [self.report.trace_id]).rows()

    def connect(self) -> duckdb.DuckDBPyConnection:
        """Return a connection with the tables of the file."""
        return tbd_trace.open(db=self.database.path).connect()


def ingest(folder: Path, content: Any, name: str = "trace.json") -> Ingested:
    return Ingested(write(folder / name, content))


@pytest.mark.slow
def test_kernel(tmp_path: Path) -> None:
    found = ingest(tmp_path, document([launch(10, 4), kernel("20.125", "1.5", 4)]), "t.json.gz")
    assert found.report.format == "torch-json"
    columns = (
        "start_ns, end_ns, duration_ns, process_id, device_id, context_id, stream_id, "
        "correlation_id, name, grid_x, grid_y, grid_z, block_x, block_y, block_z, "
        "registers_per_thread, static_shared_bytes, dynamic_shared_bytes, graph_id"
    )
    assert found.rows(f"SELECT {columns} FROM kernel") == [
        (20125, 21625, 1500, made.PID, 0, 1, 7, 4, "gemm", 2, 3, 4, 32, 2, 1, 40, None, 1024, None)
    ]
    assert found.rows("SELECT tool, metric, unit, value FROM kernel_metric") == [
        ("torch", "est. achieved occupancy", "%", 31.0)
    ]
    assert found.rows("SELECT tool, kind, schema_version, utc_start_ns FROM trace") == [
        ("torch", "timeline", "1", None)
    ]


@pytest.mark.slow
def test_nanoseconds_come_from_the_text(tmp_path: Path) -> None:
    # A double holds this time only to 0.25 us.
    text = json.dumps(document([kernel(12345, 1)])).replace("12345", "1712195495406752.797")
    found = ingest(tmp_path, text.encode())
    assert found.rows("SELECT start_ns FROM kernel") == [(1712195495406752797,)]
    assert float("1712195495406752.797") * 1000 != 1712195495406752797
    assert found.rows("SELECT utc_start_ns FROM trace") == [(0,)]


@pytest.mark.slow
@pytest.mark.parametrize(("unit", "base"), [("ns", 5), ("ms", 1767189312000000000)])
def test_times_are_microseconds_in_every_unit_of_display(
    tmp_path: Path, unit: str, base: int
) -> None:
    content = document([kernel(3.5)], displayTimeUnit=unit)
    content["baseTimeNanoseconds"] = base  # behind the events
    found = ingest(tmp_path, content)
    assert found.rows("SELECT k.start_ns, utc_start_ns FROM kernel k, trace") == [(3500, base)]


@pytest.mark.slow
def test_ids_may_be_texts(tmp_path: Path) -> None:
    call = launch(1, "9", pid="77", tid="4093687616")
    work = kernel(2, 1, "9", device="0", stream="7") | {"tid": "stream 7"}
    del work["args"]["stream"]
    found = ingest(tmp_path, document([call, work]))
    assert found.rows("SELECT process_id, stream_id, correlation_id FROM kernel") == [(77, 7, 9)]
    assert found.rows("SELECT thread_id FROM api_call") == [(4093687616,)]


@pytest.mark.slow
def test_a_list_of_events_is_a_trace(tmp_path: Path) -> None:
    events = [
        event("Operator", "aten::mm", 1, 5, args={"External id": 2, "Input dims": [[8, 4], []]}),
        event("Operator", "ProfilerStep#4", 0, 9, args={"External id": 1, "Input dims": []}),
        event("Operator", "aten::to", 7, 1, args={"External id": 3, "Input dims": []}),
        event("Runtime", "cudaLaunchKernel", 2, args={"correlation": 6}),
        event("Kernel", "gemm", 3, pid=0, tid="stream 7", args={"correlation": 6, "stream": 7}),
        event("Memset", "Memset (Device)", 4, pid=0, tid="stream 7", args={"bytes": 3}),
    ]
    found = ingest(tmp_path, events)
    assert found.rows("SELECT process_id, device_id, stream_id FROM kernel") == [(77, 0, 7)]
    assert found.rows("SELECT text FROM annotation") == [
        ("aten::mm, op_id = 2, sizes = [[8, 4], []]",),
        ("ProfilerStep#4",),
        ("aten::to, op_id = 3",),
    ]
    assert found.rows("SELECT memory_kind, bytes FROM memset") == [("device", 3)]


@pytest.mark.slow
def test_the_process_of_gpu_work_is_that_of_its_call(tmp_path: Path) -> None:
    events = [
        launch(1, 5, pid=70),
        launch(1, 6, pid=71),
        launch(1, 7, pid=70),
        launch(1, 7, pid=71),
    ]
    events += [kernel(2, 1, 5), kernel(3, 1, 6), kernel(4, 1, 7), kernel(5, 1, 8)]
    found = ingest(tmp_path, document(events))
    assert found.rows("SELECT process_id FROM kernel ORDER BY start_ns") == [
        (70,), (71,), (None,), (None,)
    ]  # fmt: skip


@pytest.mark.slow
def test_ranges_with_the_process_of_another_namespace(tmp_path: Path) -> None:
    step = event("user_annotation", "ProfilerStep#1", 0, 99, pid=3100453, tid=3100453)
    found = ingest(tmp_path, document([step, launch(1, 5), kernel(2, 1, 5)]))
    assert found.rows("SELECT process_id FROM annotation UNION SELECT process_id FROM kernel") == [
        (77,)
    ]
    assert "ranges of process 3100453 are of process 77" in found.notes
    assert found.rows("SELECT process_id FROM process") == [(77,)]


@pytest.mark.slow
def test_without_host_events_the_process_is_unknown(tmp_path: Path) -> None:
    assert ingest(tmp_path, document([kernel(1)])).rows("SELECT process_id FROM kernel") == [
        (None,)
    ]


@pytest.mark.slow
def test_copies_and_fills(tmp_path: Path) -> None:
    def gpu(cat: str, name: str, ts: int, size: Any) -> dict[str, Any]:
        args = {"device": 0, "stream": 7, "correlation": ts, "bytes": size}
        return event(cat, name, ts, pid=0, tid=7, args=args)

    events = [
        gpu("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 1, 2048),
        gpu("gpu_memcpy", "Memcpy DtoH (Device -> Pageable)", 2, "64"),
        gpu("gpu_memcpy", "CopyDeviceToDevice", 3, None),
        gpu("gpu_memset", "Memset (Device)", 4, 16),
    ]
    found = ingest(tmp_path, document(events))
    assert found.rows("SELECT direction, src_kind, dst_kind, bytes FROM memcpy ORDER BY 4") == [
        ("DtoH", "device", "pageable", 64),
        ("HtoD", "pinned", "device", 2048),
        ("unknown", None, None, None),
    ]
    assert found.rows("SELECT memory_kind, bytes FROM memset") == [("device", 16)]


@pytest.mark.slow
def test_annotations(tmp_path: Path) -> None:
    events = [
        operator("aten::mm", 1, 9, **{"Sequence number": 12, "Input Dims": [[8, 4], [4]]}),
        event("user_annotation", "ProfilerStep#3", 0, 20),
        event("overhead", "CUPTI Buffer Flush", 2, 3),
        operator("aten::add", 11, 2, finished=False),
    ]
    found = ingest(tmp_path, document(events))
    columns = "source, domain_id, text, start_ns, end_ns, is_open, thread_id"
    assert found.rows(f"SELECT {columns} FROM annotation ORDER BY annotation_id") == [
        ("operator", -1, "aten::mm, seq = 12, op_id = 1, sizes = [[8, 4], [4]]",
         1000, 10000, False, 77),
        ("python", 0, "ProfilerStep#3", 0, 20000, False, 77),
        ("profiler", -2, "CUPTI Buffer Flush", 2000, 5000, False, 77),
        ("operator", -1, "aten::add, op_id = 1", 11000, 13000, True, 77),
    ]  # fmt: skip


@pytest.mark.slow
def test_modules_are_named_by_their_place_in_the_model(tmp_path: Path) -> None:
    events = [
        frame(1, "train.py(3): main", 1, None),
        frame(2, "nn.Module: Net_0", 2, 1),
        frame(3, "net.py(9): forward", 3, 2),
        frame(4, "nn.Module: Conv2d_0", 4, 3),
        frame(5, "nn.Module: Conv2d_1", 6, 5),  # its caller follows
        frame(5, "net.py(9): forward", 5, 2),
        frame(6, "nn.Module: Lost_0", 8, 99),
        frame(7, "nn.Module: Knot_0", 9, 9),
    ]
    found = ingest(tmp_path, document(events))
    assert found.rows("SELECT source, domain_id, text FROM annotation ORDER BY start_ns") == [
        ("module", -1, text)
        for text in ("Net_0", "Net_0/Conv2d_0", "Net_0/Conv2d_1", "Lost_0", "Knot_0")
    ]
    assert "except calls of modules: 3" in found.notes


FILES = {
    "one kernel": [kernel(1)],
    "several processes": [launch(1, 5, pid=70), launch(1, 6, pid=71), kernel(2, 1, 5)],
    "another namespace": [event("user_annotation", "a", 0, pid=9), launch(1, 5), kernel(2, 1, 5)],
    "modules": [frame(1, "nn.Module: Net_0", 2, 1), operator("aten::mm", 2)],
    "memory": [memory(1, 64, 512, 512), memory(2, 64, -512, 0)],
    "torch 1.8": [event("Kernel", "k", 1, pid=0, tid="stream 7", args={"correlation": 6})],
    "without arguments": [event("kernel", "k", 1), event("cuda_runtime", "cudaMalloc", 1)],
}


@pytest.mark.slow
@pytest.mark.parametrize("first", one_in(7, FILES, then_one_in=3))
def test_the_columns_of_a_file_serve_for_all_others(
    tmp_path: Path, first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    known: dict[str, dict[str, str]] = {}
    monkeypatch.setattr(kineto, "_column_types", known)
    for name in [first, *FILES]:
        path = write(tmp_path / f"{name}.json", document(FILES[name]))
        for table, types in fixed_columns(path).items():
            assert known[table] == types, (name, table)
    assert {"annotation", "kernel", "memory_event", "process", "thread"} <= known.keys()


@pytest.mark.slow
def test_a_trace_without_frames_is_read_without_libraries_that_start_slowly(
    tmp_path: Path,
) -> None:
    write(tmp_path / "trace.json", document([kernel(20)]))
    command = [sys.executable, "-X", "importtime", "-m", "tbd_trace", "ingest", "trace.json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "duckdb" in imported
    assert not imported & {"pyarrow", "numpy", "polars"}
    assert " 1 kernels " in done.stdout


@pytest.mark.slow
def test_lone_surrogates_and_numbers_out_of_range_in_the_header(tmp_path: Path) -> None:
    gpu = {"id": 0, "name": "A\ud800", "numSms": 10**11, "totalGlobalMem": 10**11}
    found = ingest(tmp_path, document([kernel(20)], deviceProperties=[gpu], host_name="h\udfff",
                   distributedInfo={"rank": 0, "backend": "n\ud800"}))  # fmt: skip
    device = found.rows("SELECT device_id, name, sm_count, memory_bytes FROM device")
    assert device == [(0, "A?", None, 10**11)]
    assert found.rows("SELECT rank, backend, host FROM job_rank") == [(0, "n?", "h?")]
    assert "values of the header out of range: 1; NULL" in found.notes
    assert "rank 0 (n?) of a distributed job" in found.notes


@pytest.mark.slow
def test_characters_outside_the_basic_plane_are_kept(tmp_path: Path) -> None:
    gpu = {"id": 0, "name": "A\U0001f680"}  # written as a pair of surrogates
    found = ingest(tmp_path, document([kernel(20)], deviceProperties=[gpu]))
    assert "\\ud83d\\ude80" in (tmp_path / "trace.json").read_text()
    assert found.rows("SELECT name FROM device") == [("A\U0001f680",)]


@pytest.mark.parametrize("first", [0, 1 << 31])
def test_module_paths_match_a_walk_up_the_frames(first: int) -> None:
    import random

    import numpy as np

    random.seed(7)
    count = 400
    ids = random.sample(range(first, first + 10**6), count)
    parents = [random.choice(ids[:i]) if i and random.random() < 0.95 else -1 for i in range(count)]
    names = [f"M_{i}" if random.random() < 0.3 else None for i in range(count)]
    order = random.sample(range(count), count)
    frames = Frames()
    for part in (order[:150], order[150:]):
        frames.add(
            {
                "event_id": np.array(part),
                "is_module": np.array([names[i] is not None for i in part]),
                "name": np.array([f"nn.Module: {names[i]}" for i in part], object),
                "id": np.array([ids[i] for i in part]),
                "parent": np.array([parents[i] for i in part]),
            }
        )
    by_id = {number: i for i, number in enumerate(ids)}

    def walk(i: int) -> str:
        above, found = parents[i], [names[i]]
        while above != -1:
            found.append(names[by_id[above]])
            above = parents[by_id[above]]
        return "/".join(name for name in reversed(found) if name)

    table = frames.paths()
    paths = dict(zip(*(table[c].to_pylist() for c in ("event_id", "path")), strict=True))
    assert paths == {i: walk(i) for i in range(count) if names[i]}


@pytest.mark.slow
def test_memory_of_the_allocator_by_device(tmp_path: Path) -> None:
    events = [
        memory(1, 512, 1024, 3000),
        memory(2, 99, 64, 64, device=-1, kind=0),
        memory(4, 512, -1024, 2000),
        memory(3, 2**63 + 8, 24, 3024),
    ]
    found = ingest(tmp_path, document(events))
    columns = "sequence, device_id, operation, allocator, memory_kind, address, bytes"
    assert found.rows(f"SELECT {columns} FROM memory_event ORDER BY sequence") == [
        (0, 0, "allocate", "torch", "device", 512, 1024),
        (1, None, "allocate", "torch", "pageable", 99, 64),
        (2, 0, "allocate", "torch", "device", 2**63 + 8, 24),
        (3, 0, "free", "torch", "device", 512, 1024),
    ]
    columns = "device_id, sequence, allocated_bytes, reserved_bytes"
    assert found.rows(f"SELECT {columns} FROM memory_total ORDER BY 2, 1 NULLS LAST") == [
        (0, -1, 1976, None), (None, -1, 0, None), (0, 0, 3000, 4096), (None, 1, 64, None),
        (0, 2, 3024, 4096), (0, 3, 2000, 4096),
    ]  # fmt: skip


@pytest.mark.slow
def test_device(tmp_path: Path) -> None:
    columns = "device_id, name, compute_capability, sm_count, max_warps_per_sm, memory_bytes"
    assert ingest(tmp_path, document([kernel(1)])).rows(f"SELECT {columns} FROM device") == [
        (0, made.GPU["name"], "8.0", 108, 64, 42505273344)
    ]


ROCM = {**made.GPU, "name": "AMD Instinct MI210", "computeMajor": 9, "warpSize": 64, "numSms": 104}


def rocm(folder: Path, agents: list[int], gpus: list[dict[str, Any]]) -> Ingested:
    content = document([kernel(agent, 1, device=agent) for agent in agents])
    return ingest(folder, content | {"deviceProperties": gpus})


@pytest.mark.slow
def test_an_amd_gpu_has_no_compute_capability(tmp_path: Path) -> None:
    gpus = [{**ROCM, "id": number} for number in range(2)]
    found = rocm(tmp_path, [9], gpus)
    columns = "device_id, gpu_id, name, compute_capability, max_warps_per_sm"
    assert found.rows(f"SELECT {columns} FROM device") == [
        (9, None, "AMD Instinct MI210", None, 32)
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("agents", "names"), [([2, 3], ["AMD Instinct MI210"] * 2), ([2], ["AMD a", "AMD b"])]
)
def test_amd_gpus_that_cannot_be_distinguished(
    tmp_path: Path, agents: list[int], names: list[str]
) -> None:
    gpus = [{**ROCM, "id": number, "name": name} for number, name in enumerate(names)]
    found = rocm(tmp_path, agents, gpus)
    assert found.rows("SELECT device_id, name, sm_count FROM device ORDER BY 1") == [
        (agent, None, None) for agent in agents
    ]
    assert "numbered differently" in found.notes


@pytest.mark.slow
def test_an_amd_gpu_without_a_name_is_recognized_by_its_warps(tmp_path: Path) -> None:
    found = rocm(tmp_path, [0], [{**ROCM, "name": ""}])
    assert found.rows("SELECT name, compute_capability FROM device") == [(None, None)]


@pytest.mark.slow
def test_synchronizations_processes_threads(tmp_path: Path) -> None:
    args = {
        "device": 0,
        "context": 1,
        "stream": 7,
        "correlation": 3,
        "cuda_sync_kind": "Stream Sync",
    }
    named = {"ph": "M", "pid": 77, "tid": 77, "ts": 0}
    events = [
        {**named, "name": "process_name", "args": {"name": "python"}},
        {**named, "name": "thread_name", "args": {"name": "thread 77 (pt_main)"}},
        {**named, "name": "process_name", "pid": 0, "args": {"name": "python"}},
        launch(1, 3, "cudaStreamSynchronize"),
        event("cuda_sync", "Stream Sync", 1, 4, pid=0, tid=7, args=args),
    ]
    found = ingest(tmp_path, document(events))
    assert found.rows("SELECT sync_type, process_id, stream_id FROM synchronization") == [
        ("stream synchronize", 77, 7)
    ]
    assert found.rows("SELECT process_id, pid, name FROM process") == [(77, 77, "python")]
    assert found.rows("SELECT thread_id, name FROM thread") == [(77, "thread 77 (pt_main)")]


@pytest.mark.slow
def test_waits_for_events_name_the_call_that_recorded_them(tmp_path: Path) -> None:
    stream = {"device": 0, "context": 1, "stream": 20, "correlation": 6}
    awaited = {"wait_on_stream": 7, "wait_on_cuda_event_id": 1}
    known = {"wait_on_cuda_event_record_corr_id": 5}
    kind = {"cuda_sync_kind": "Stream Wait Event"}
    events = [
        launch(1, 5, "cudaEventRecord"),
        launch(3, 6, "cudaStreamWaitEvent"),
        event("cuda_sync", "Stream Wait Event", 3, 1, pid=0, tid=20, args=stream | kind | awaited),
        event(
            *("cuda_sync", "Stream Wait Event", 4, 1),
            **{"pid": 0, "tid": 20, "args": stream | kind | awaited | known},
        ),
    ]
    found = ingest(tmp_path, document(events))
    waits = "FROM event_wait JOIN synchronization USING (trace_id, synchronization_id)"
    assert found.rows(
        f"SELECT start_ns, stream_id, event_stream_id, record_correlation_id {waits}"
    ) == [(found.rows("SELECT max(start_ns) FROM synchronization")[0][0], 20, 7, 5)]


@pytest.mark.slow
def test_what_is_not_stored_is_counted(tmp_path: Path) -> None:
    events = [
        kernel(1),
        event("gpu_user_annotation", "step", 1),
        event("mtia_runtime", "copy", 1),
        {"ph": "s", "cat": "ac2g", "id": 1, "pid": 1, "tid": 1, "ts": 1, "name": "ac2g"},
    ]
    found = ingest(tmp_path, document(events, distributedInfo={"rank": 3, "world_size": 8}))
    assert "events derived from others, not stored: ac2g 1, gpu_user_annotation 1" in found.notes
    assert "is not read: mtia_runtime 1" in found.notes
    assert "rank 3 of 8 of a distributed job" in found.notes
    assert (
        "rank 5 of a distributed job, by the file name"
        in ingest(tmp_path, document(events), "rank-5.pt.trace.json").notes
    )


@pytest.mark.slow
def test_a_trace_of_many_blocks_has_the_rows_of_one_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One block stays a table of DuckDB, several become Parquet files."""
    content = json.loads((SAMPLE / "timeline.pt.trace.json").read_text())
    whole = ingest(tmp_path, content, "whole.json")
    monkeypatch.setattr(event_list, "BLOCK_BYTES", 20_000)
    monkeypatch.setattr(event_list, "_TAIL_BYTES", 4_000)
    opened: list[Path] = []
    relation = kept_events.parquet_relation
    monkeypatch.setattr(
        kept_events, "parquet_relation", lambda files: opened.extend(files) or relation(files)
    )
    content["traceName"] = "cut"
    cut = ingest(tmp_path, content, "cut.json")
    assert len(opened) == 3
    with cut.connect() as in_blocks, whole.connect() as in_one_block:
        for table in canonical_tables():
            kept = "start_ns, end_ns, holds" if table == "trace" else "* EXCLUDE (trace_id)"
            select = f"SELECT {kept} FROM {table} ORDER BY ALL"
            rows = in_one_block.execute(select).fetchall()
            assert in_blocks.execute(select).fetchall() == rows, table
            assert table != "trace" or len(rows[0][2]) > 8


@pytest.mark.slow
def test_a_directory_with_a_trace_per_rank(tmp_path: Path) -> None:
    folder = tmp_path / "job"
    folder.mkdir()
    for rank in range(2):
        content = document([kernel(1, 1 + rank)], distributedInfo={"rank": rank, "world_size": 2})
        write(folder / f"host_{rank}.1234.pt.trace.json.gz", content)
    write(folder / "rank2.json", document([kernel(1, 3)]))
    (folder / "notes.txt").write_text("not a trace")
    database = Database(tmp_path / "x.duckdb")
    reports = database.ingest([folder])
    assert [report.name for report in reports] == [
        "job/host_0.1234.pt.trace.json.gz", "job/host_1.1234.pt.trace.json.gz", "job/rank2.json"
    ]  # fmt: skip
    assert [report.notes[0].split(" of a ")[0] for report in reports] == [
        "rank 0 of 2", "rank 1 of 2", "rank 2"
    ]  # fmt: skip
    durations = sql(database, "SELECT duration_ns FROM kernel ORDER BY 1", None).rows()
    assert durations == [(1000,), (2000,), (3000,)]


@pytest.fixture(scope="module")
def without_devices(tmp_path_factory: pytest.TempPathFactory) -> Ingested:
    events = [frame(1, "train.py(1): main", 1, None), launch(2, 1)]
    return ingest(tmp_path_factory.mktemp("without_devices"), document(events))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("query", "argument"),
    [
        ("memory_peak", "profile(profile_memory=True)"),
        ("nvtx_summary", "profile(activities=supported_activities())"),
        ("compute_util", "profile(activities=supported_activities())"),
    ],
)
def test_what_is_missing_is_an_argument_of_the_profiler(
    without_devices: Ingested, query: str, argument: str
) -> None:
    found = without_devices
    with pytest.raises(CannotAnswerError) as abstained:
        execute(found.database, Catalogue().get(query), [found.report.trace_id])
    assert argument in str(abstained.value)
    assert "record_function(NAME)" in how_to_collect(["nvtx_range"], "torch", "timeline")


@pytest.mark.slow
def test_implausible_times(tmp_path: Path) -> None:
    events = [kernel(5, 0), kernel(6, -1), kernel(0, 0), kernel(None), kernel(7, float("nan"))]
    found = ingest(tmp_path, document(events))
    assert found.rows("SELECT start_ns, duration_ns FROM kernel") == [(5000, 0)]
    for note in ("with negative durations: 1", "at time 0: 1", "without times: 2"):
        assert f"events {note}; dropped" in found.notes


@pytest.mark.slow
def test_ends_beyond_64_bits(tmp_path: Path) -> None:
    """In nanoseconds the largest time is 2^63 - 1."""
    last = kernel(3, 4, 1, "last")
    text = json.dumps(document([kernel(11111, 22222, 1, "late"), last, kernel(33333, 1, 1)]))
    text = text.replace("11111", "9223372036854775.0").replace("22222", "0.808")
    text = text.replace("33333", "9223372036854775.808")
    found = ingest(tmp_path, text.encode())
    assert found.rows("SELECT name, start_ns, end_ns FROM kernel") == [("last", 3000, 7000)]
    assert "events without times: 2; dropped" in found.notes


def text_of(events: list[dict[str, Any]]) -> str:
    return json.dumps(document(events))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("raw", "name"),
    [
        (r"C:\work\new\x.py", r"C:\work" + "\n" + r"ew\x.py"),
        (r"C:\data\users", r"C:\data\users"),
        ('a "quoted" name', 'a "quoted" name'),
        ("two\nlines\tand\x01control", "two\nlines\tand\x01control"),
    ],
)
def test_names_that_torch_does_not_escape(tmp_path: Path, raw: str, name: str) -> None:
    content = text_of([kernel(1), kernel(2, name="NAME"), kernel(3)]).replace("NAME", raw)
    found = ingest(tmp_path, content.encode())
    assert found.rows("SELECT name FROM kernel ORDER BY start_ns") == [
        ("gemm",),
        (name,),
        ("gemm",),
    ]


@pytest.mark.slow
def test_an_event_beyond_repair_is_dropped_alone(tmp_path: Path) -> None:
    content = text_of([kernel(1), kernel(2, name="NAME"), kernel(3)])
    content = content.replace('"name": "NAME", "pid": 0', '"name": , "pid" 0')
    found = ingest(tmp_path, content.encode())
    assert found.rows("SELECT start_ns FROM kernel ORDER BY 1") == [(1000,), (3000,)]
    assert "invalid JSON: 1 events dropped" in found.notes


@pytest.mark.slow
def test_bytes_that_are_not_utf8_are_replaced(tmp_path: Path) -> None:
    content = text_of([kernel(1, name="NAME"), kernel(2)]).encode().replace(b"NAME", b"a\xffb")
    found = ingest(tmp_path, content)
    assert found.rows("SELECT name FROM kernel ORDER BY start_ns") == [("a\ufffdb",), ("gemm",)]
    assert "not UTF-8" in found.notes


@pytest.mark.slow
def test_values_that_json_does_not_allow(tmp_path: Path) -> None:
    events = [
        kernel(1, **{"shared memory": 2**70, "est. achieved occupancy %": float("inf")}),
        kernel("2e0", "1", grid="grid()", device={"a": [{"ph": 1}, {"ph": 2}]}),
        operator("triton", 3, grid="(1,)", **{"Input Dims": None}),
    ]
    content = text_of(events).replace("]}]}", "]},]}").replace("]}}]}", "]}},]}")
    found = ingest(tmp_path, content.encode())
    assert found.rows(
        "SELECT start_ns, grid_x, device_id, dynamic_shared_bytes FROM kernel ORDER BY 1"
    ) == [(1000, 2, 0, None), (2000, None, 0, 1024)]
    assert found.rows("SELECT text FROM annotation") == [("triton, op_id = 1",)]


@pytest.mark.slow
def test_exact_duplicates_are_kept_once(tmp_path: Path) -> None:
    found = ingest(tmp_path, document([kernel(1), kernel(1), kernel(9, correlation=2)]))
    assert found.rows("SELECT count(*) FROM kernel") == [(2,)]
    assert "rows of kernel that stand twice, equal in all columns: 1; left out" in found.notes


@pytest.mark.slow
def test_a_truncated_file_keeps_its_whole_events(tmp_path: Path) -> None:
    content = text_of([kernel(1), kernel(2), kernel(3)])
    cut = content.index('"ts": 3')
    found = ingest(tmp_path, content[:cut].encode())
    assert found.rows("SELECT count(*) FROM kernel") == [(2,)]
    assert "ends in the middle: 2 events read, last at 7,000 ns" in found.notes


@pytest.mark.slow
def test_a_truncated_gzip_stream_keeps_its_whole_events(tmp_path: Path) -> None:
    whole = gzip.compress(
        text_of([kernel(i, 1, i, f"k{i * 7919}") for i in range(1, 3000)]).encode()
    )
    path = tmp_path / "a.json.gz"
    path.write_bytes(whole[: len(whole) // 2])
    found = Ingested(path)
    ((kernels, last),) = found.rows("SELECT count(*), max(start_ns) FROM kernel")
    assert 500 < kernels < 2500
    assert last == kernels * 1000
    assert "ends in the middle (the gzip stream ends early)" in found.notes


@pytest.mark.slow
def test_members_of_a_gzip_file_follow_each_other(tmp_path: Path) -> None:
    content = text_of([kernel(1), kernel(2)]).encode()
    path = tmp_path / "a.json.gz"
    path.write_bytes(gzip.compress(content[:300]) + gzip.compress(content[300:]) + bytes(20))
    assert Ingested(path).rows("SELECT count(*) FROM kernel") == [(2,)]


@pytest.mark.parametrize("content", [document([]), {**document([]), "x": 1}])
def test_no_events(tmp_path: Path, content: Any) -> None:
    with pytest.raises(InputError, match="without events; record one with") as refused:
        ingest(tmp_path, content)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"schema": "1.0.1", "pid": 1, "nodes": []}, "an execution trace"),
        ({"segments": [], "device_traces": []}, "a memory snapshot of PyTorch as JSON"),
        ({"traceEvents": [{"ph": "X", "name": "x", "ts": 1}]}, "Chrome's JSON format"),
        ({"schemaVersion": 1, "deviceProperties": []}, "ends before its events"),
        (b"<!DOCTYPE html><html></html>", "a web page"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "a Git LFS pointer"),
    ],
)
@pytest.mark.parametrize("name", ["a.json", "a.pt.trace.json.gz"])
def test_look_alikes_are_named(tmp_path: Path, content: Any, said: str, name: str) -> None:
    with pytest.raises(InputError) as refused:
        ingest(tmp_path, content, name)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)
