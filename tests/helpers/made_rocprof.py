"""Recordings of rocprofv3, written as a rocpd database (two schemas) and as JSON.

Independent of the reader: it states the expected values of each record before it is written.
"""

from __future__ import annotations

import gzip
import json
import random
import sqlite3
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

UUID = "_0195c0de_7a2b_7000_8000_00000000000a"
PID = 4242
GPUS = ((2, 0), (3, 1))  # node and number of the GPU
CPU = 0
KINDS = ("NONE", "HIP_RUNTIME_API", "HSA_CORE_API", "MARKER_CORE_API", "MEMORY_COPY",
         "KERNEL_DISPATCH", "RCCL_API")  # fmt: skip
COPIES = ("NONE", "MEMORY_COPY_HOST_TO_DEVICE", "MEMORY_COPY_DEVICE_TO_HOST",
          "MEMORY_COPY_DEVICE_TO_DEVICE")  # fmt: skip
PROPERTIES = {"cu_count": 304, "max_engine_clk_fcompute": 2100, "workgroup_max_size": 1024,
              "max_waves_per_cu": 32, "lds_size_in_kb": 64}  # fmt: skip
SYMBOLS = {
    7: ("_ZN2at6native4gemmEPf.kd", "at::native::gemm(float*)", 1024, 32, 8),
    8: ("Cijk_Ailk_Bljk_SB.kd", "Cijk_Ailk_Bljk_SB", 0, 128, 0),
}  # of kernel id: symbol, shown name, static group bytes, vector and accumulation registers


@dataclass
class Dispatch:
    """One execution of a kernel."""

    id: int
    kernel: int
    gpu: int  # number of the GPU
    tid: int
    stream: int
    start: int
    end: int
    block: tuple[int, int, int]
    items: tuple[int, int, int]
    group: int
    private: int
    call: int


@dataclass
class Copy:
    """One copy; an agent is the number of a GPU, None for the CPU."""

    kind: int  # position in COPIES
    source: int | None
    target: int | None
    tid: int
    stream: int
    start: int
    end: int
    bytes: int
    call: int


@dataclass
class Call:
    """One call; a call of ROCTX has a message."""

    call: int
    category: str
    name: str
    tid: int
    start: int
    end: int
    parent: int = 0
    message: str | None = None


@dataclass
class Recording:
    """What one process did."""

    dispatches: list[Dispatch] = field(default_factory=list)
    copies: list[Copy] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)


def drawn(seed: int, number: int = 40) -> Recording:
    """Return a recording of steps with launches, copies, ranges and marks."""
    draw = random.Random(seed)
    made = Recording()
    now, call = draw.randrange(10**9, 10**14), 0
    for step in range(number):
        began = now
        call += 1
        marker = Call(call, "MARKER_CORE_API", "roctxRangePushA", PID, began, 0, 0, f"step {step}")
        made.calls.append(marker)
        for _ in range(draw.randrange(1, 4)):
            now += draw.randrange(1, 5000)
            call += 1
            launch = Call(call, "HIP_RUNTIME_API", "hipLaunchKernel", PID, now, now + 900)
            made.calls.append(launch)
            launching = call
            if draw.random() < 0.5:  # HSA inside of HIP, whose id the dispatch gets
                call += 1
                inner = Call(call, "HSA_CORE_API", "hsa_signal_store_screlease", PID, now + 100,
                             now + 200, launching)  # fmt: skip
                made.calls.append(inner)
            block = (draw.choice((32, 64, 256)), draw.choice((1, 2)), 1)
            items = tuple(size * draw.randrange(1, 60000) for size in block)
            kernel = draw.choice(list(SYMBOLS))
            start = now + draw.randrange(1000, 3000)
            made.dispatches.append(Dispatch(
                len(made.dispatches) + 1, kernel, draw.randrange(2), PID, draw.randrange(1, 5),
                start, start + draw.randrange(1, 10**6), block, items,
                SYMBOLS[kernel][2] + draw.choice((0, 4096)), draw.choice((0, 16)), call,
            ))  # fmt: skip
        now += draw.randrange(2000, 9000)
        call += 1
        kind = draw.randrange(1, 4)
        source = None if kind == 1 else draw.randrange(2)
        target = None if kind == 2 else draw.randrange(2)
        made.calls.append(Call(call, "HIP_RUNTIME_API", "hipMemcpyAsync", PID, now, now + 700))
        made.copies.append(Copy(kind, source, target, PID, 1, now + 800, now + 900 + step,
                                draw.randrange(1, 2**40), call))  # fmt: skip
        call += 1
        made.calls.append(
            Call(call, "MARKER_CORE_API", "roctxMarkA", PID, now, now, 0, f"at {step}")
        )
        call += 1
        made.calls.append(Call(call, "RCCL_API", "ncclAllReduce", PID, now + 5, now + 50))
        now += 1000
        marker.end = now
        now += draw.randrange(1, 500)
    return made


def agent(gpu: int | None) -> int:
    """Return the node of a GPU, or of the CPU."""
    return CPU if gpu is None else GPUS[gpu][0]


# a rocpd database

_INLINE = 'pid integer, tid integer, start bigint, "end" bigint'
_OF_TRACK = "track_id integer, start_id integer, end_id integer"
_SCHEMA = """
    create table rocpd_metadata{u} (id integer primary key, tag text, value text);
    create table rocpd_string{u} (id integer primary key, guid text, string text);
    create table rocpd_info_process{u} (id integer primary key, pid integer, command text,
        environment text);
    create table rocpd_info_thread{u} (id integer primary key, tid integer, name text);
    create table rocpd_info_agent{u} (id integer primary key, type text, absolute_index integer,
        type_index integer, name text, product_name text, extdata text);
    create table rocpd_info_kernel_symbol{u} (id integer primary key, kernel_name text,
        display_name text, group_segment_size integer, arch_vgpr_count integer,
        accum_vgpr_count integer);
    create table rocpd_event{u} (id integer primary key, category_id integer, stack_id integer,
        parent_stack_id integer, correlation_id integer, extdata text);
    create table rocpd_track{u} (id integer primary key, pid integer, tid integer,
        agent_id integer, stream_id integer);
    create table rocpd_timestamp{u} (id integer primary key, value bigint);
    create table rocpd_region{u} (id integer primary key, {when}, name_id integer,
        event_id integer);
    create table rocpd_sample{u} (id integer primary key, track_id integer, {instant},
        event_id integer);
    create table rocpd_kernel_dispatch{u} (id integer primary key, {when}, {where}
        kernel_id integer, workgroup_size_x integer, workgroup_size_y integer,
        workgroup_size_z integer, grid_size_x integer, grid_size_y integer, grid_size_z integer,
        group_segment_size integer, private_segment_size integer, event_id integer);
    create table rocpd_memory_copy{u} (id integer primary key, {when}, {stream} name_id integer,
        src_agent_id integer, dst_agent_id integer, size integer, event_id integer);
    create view if not exists rocpd_kernel_dispatch as select * from rocpd_kernel_dispatch{u};
    create view if not exists rocpd_metadata as select * from rocpd_metadata{u};
"""


class _Database:
    def __init__(self, path: Path, has_tracks: bool, uuid: str, pid: int) -> None:
        self.connection = sqlite3.connect(path)
        self.has_tracks, self.uuid, self.pid = has_tracks, uuid, pid
        self.strings: dict[str, int] = {}
        self.connection.executescript(_SCHEMA.format(
            u=uuid,
            when=_OF_TRACK if has_tracks else _INLINE,
            instant="timestamp_id integer, name_id integer" if has_tracks else "timestamp bigint",
            where="" if has_tracks else "agent_id integer, stream_id integer,",
            stream="" if has_tracks else "stream_id integer,",
        ))  # fmt: skip

    def add(self, table: str, **values: Any) -> int:
        names = ", ".join(f'"{name}"' for name in values)
        marks = ", ".join("?" * len(values))
        row = self.connection.execute(
            f"insert into rocpd_{table}{self.uuid} ({names}) values ({marks})", [*values.values()]
        ).lastrowid
        assert row is not None
        return row

    def text(self, value: str) -> int:
        if value not in self.strings:
            self.strings[value] = self.add("string", string=value)
        return self.strings[value]

    def event(self, category: str, call: int, parent: int = 0, message: str | None = None) -> int:
        data = {} if message is None else {"message": message}
        return self.add("event", category_id=self.text(category), stack_id=call, correlation_id=0,
                        parent_stack_id=parent, extdata=json.dumps(data))  # fmt: skip

    def when(self, made: Call | Copy | Dispatch, **track: int) -> dict[str, int]:
        if not self.has_tracks:
            return {"pid": self.pid, "tid": made.tid, "start": made.start, "end": made.end} | track
        start = self.add("timestamp", value=made.start)
        end = self.add("timestamp", value=made.end)
        track_id = self.add("track", pid=self.pid, tid=made.tid, **track)
        return {"track_id": track_id, "start_id": start, "end_id": end}


def write_database(
    path: Path, made: Recording, *, has_tracks: bool = False, uuid: str = UUID, pid: int = PID
) -> Path:
    """Add a recording to a database.

    Args:
        has_tracks: times and ids are in tables of their own, as newer schemas have them.
    """
    file = _Database(path, has_tracks, uuid, pid)
    file.add("metadata", tag="schema_version", value="3")
    file.add("info_process", id=pid, pid=pid, command="/opt/bin/python train.py --key secret",
             environment="{}")  # fmt: skip
    file.add("info_thread", id=PID, tid=PID, name="main")
    file.add("info_agent", id=CPU, type="CPU", absolute_index=0, type_index=0, name="EPYC")
    for node, number in GPUS:
        file.add("info_agent", id=node, type="GPU", absolute_index=node, type_index=number,
                 name="gfx942", product_name="AMD Instinct MI300X",
                 extdata=json.dumps(PROPERTIES))  # fmt: skip
    for kernel, (symbol, shown, group, vector, accumulation) in SYMBOLS.items():
        file.add("info_kernel_symbol", id=kernel, kernel_name=symbol, display_name=shown,
                 group_segment_size=group, arch_vgpr_count=vector,
                 accum_vgpr_count=accumulation)  # fmt: skip
    _add_records(file, made)
    file.connection.commit()
    file.connection.close()
    return path


def _add_records(file: _Database, made: Recording) -> None:
    for call in made.calls:
        event = file.event(call.category, call.call, call.parent, call.message)
        when = file.when(call)
        if call.start != call.end:
            file.add("region", id=call.call, name_id=file.text(call.name), event_id=event, **when)
        elif file.has_tracks:
            file.add("sample", id=call.call, track_id=when["track_id"], event_id=event,
                     timestamp_id=when["start_id"], name_id=file.text(call.name))  # fmt: skip
        else:
            track = file.add("track", pid=file.pid, tid=call.tid)
            file.add("sample", id=call.call, track_id=track, timestamp=call.start, event_id=event)
    for run in made.dispatches:
        when = file.when(run, agent_id=agent(run.gpu), stream_id=run.stream)
        sizes = {
            f"workgroup_size_{axis}": size for axis, size in zip("xyz", run.block, strict=True)
        }
        sizes |= {f"grid_size_{axis}": size for axis, size in zip("xyz", run.items, strict=True)}
        file.add("kernel_dispatch", id=run.id, kernel_id=run.kernel, group_segment_size=run.group,
                 private_segment_size=run.private,
                 event_id=file.event("KERNEL_DISPATCH", run.call), **when, **sizes)  # fmt: skip
    for copy in made.copies:
        when = file.when(copy, stream_id=copy.stream)
        file.add("memory_copy", name_id=file.text(COPIES[copy.kind]), size=copy.bytes,
                 src_agent_id=agent(copy.source), dst_agent_id=agent(copy.target),
                 event_id=file.event("MEMORY_COPY", copy.call), **when)  # fmt: skip


# JSON


def document(made: Recording) -> dict[str, Any]:
    """Return a recording as rocprofv3 writes it."""
    names: dict[str, list[str]] = {kind: [] for kind in KINDS}
    names["MEMORY_COPY"] = list(COPIES)
    for call in made.calls:
        if call.name not in names[call.category]:
            names[call.category].append(call.name)

    def record(category: str, each: Call | Copy | Dispatch, operation: int) -> dict[str, Any]:
        return {
            "kind": KINDS.index(category), "operation": operation, "thread_id": each.tid,
            "correlation_id": {"internal": each.call, "external": 0},
            "start_timestamp": each.start, "end_timestamp": each.end,
        }  # fmt: skip

    lists: dict[str, list[Any]] = {"hip_api": [], "hsa_api": [], "marker_api": [], "rccl_api": []}
    for call in made.calls:
        row = record(call.category, call, names[call.category].index(call.name))
        row["correlation_id"]["ancestor"] = call.parent
        lists[call.category.split("_")[0].lower() + "_api"].append(row)
    lists["kernel_dispatch"] = [
        record("KERNEL_DISPATCH", run, 2)
        | {
            "dispatch_info": {
                "agent_id": {"handle": 100 + agent(run.gpu)}, "queue_id": {"handle": 9},
                "kernel_id": run.kernel, "dispatch_id": run.id,
                "private_segment_size": run.private, "group_segment_size": run.group,
                "workgroup_size": dict(zip("xyz", run.block, strict=True)),
                "grid_size": dict(zip("xyz", run.items, strict=True)),
            },
            "stream_id": {"handle": run.stream},
        }
        for run in made.dispatches
    ]  # fmt: skip
    lists["memory_copy"] = [
        record("MEMORY_COPY", copy, copy.kind)
        | {
            "src_agent_id": {"handle": 100 + agent(copy.source)},
            "dst_agent_id": {"handle": 100 + agent(copy.target)},
            "bytes": copy.bytes, "stream_id": {"handle": copy.stream},
        }
        for copy in made.copies
    ]  # fmt: skip
    cpu = {"id": {"handle": 100}, "type": 1, "node_id": 0, "logical_node_type_id": 0}
    gpus = [
        {"id": {"handle": 100 + node}, "type": 2, "node_id": node, "logical_node_type_id": number,
         "name": "gfx942", "product_name": "AMD Instinct MI300X", **PROPERTIES}
        for node, number in GPUS
    ]  # fmt: skip
    symbols = [
        {"kernel_id": kernel, "kernel_name": symbol, "formatted_kernel_name": shown,
         "group_segment_size": group, "arch_vgpr_count": vector, "accum_vgpr_count": accumulation}
        for kernel, (symbol, shown, group, vector, accumulation) in SYMBOLS.items()
    ]  # fmt: skip
    messages = [
        {"key": call.call, "value": call.message} for call in made.calls if call.message is not None
    ]
    recording = {
        "metadata": {"pid": PID, "command": ["/opt/bin/python", "train.py", "--key", "secret"]},
        "agents": [cpu, *gpus],
        "strings": {
            "buffer_records": [{"kind": kind, "operations": names[kind]} for kind in KINDS],
            "marker_api": messages,
        },
        "kernel_symbols": symbols,
        "callback_records": {"counter_collection": []},
        "buffer_records": lists,
    }
    return {"rocprofiler-sdk-tool": [recording]}


def write_json(path: Path, content: Any) -> Path:
    """Write a document, gzipped if the name ends so."""
    text = json.dumps(content, indent=1).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path
