"""What the trace holds: its tables, kernels, copies and ranges."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from sample_facts import (
    CAPTURE,
    DEVICE,
    DOMAIN,
    GPU,
    PID,
    Call,
    Counters,
    Operation,
    Range,
    Row,
    Timeline,
    capture,
    counters,
    number,
    row,
    sha256,
    timeline,
    trace_id,
)

MEMORY = ("annotation", "block", "device", "failure", "plan", "segment", "stack", "total")
# Canonical tables and the tables of an nsys export that they are read from.
TABLES: dict[str, str | None] = {
    "api_call": "CUPTI_ACTIVITY_KIND_RUNTIME",
    "collective_record": None,
    "cpu_sample": "SAMPLING_CALLCHAINS",
    "device": "TARGET_INFO_GPU",
    "event_wait": None,
    "flight_group": None,
    "flight_record": None,
    "gpu_sample": "GPU_METRICS",
    "graph_launch": "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
    "job_point": None,
    "job_rank": None,
    "link_sample": None,
    "kernel": "CUPTI_ACTIVITY_KIND_KERNEL",
    "kernel_aggregate": None,
    "kernel_metric": None,
    "operator_input": None,
    "memcpy": "CUPTI_ACTIVITY_KIND_MEMCPY",
    "memory_event": "CUDA_GPU_MEMORY_USAGE_EVENTS",
    **dict.fromkeys(f"memory_{what}" for what in MEMORY),
    "memset": "CUPTI_ACTIVITY_KIND_MEMSET",
    "annotation": "NVTX_EVENTS",
    "process": "PROCESSES",
    "synchronization": "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
    "thread": "ThreadNames",
}
METRIC_RUN = {"device", "kernel", "kernel_metric", "process"}  # what a kernel's row tells
IDENTITY = 8  # columns before the metrics

Group = Callable[[Operation], tuple[str | None, ...]]


def grouped(operations: Iterable[Operation], key: Group) -> dict[Any, list[Operation]]:
    groups = defaultdict(list)
    for op in operations:
        groups[key(op)].append(op)
    return groups


def spread(durations: list[int]) -> Row:
    return {
        "instances": len(durations),
        "total_ns": sum(durations),
        "mean_ns": statistics.mean(durations),
        "median_ns": statistics.median(durations),
        "min_ns": min(durations),
        "max_ns": max(durations),
        "stddev_ns": statistics.stdev(durations) if len(durations) > 1 else None,
    }


def by_time(rows: Iterable[Row], *then: str) -> list[Row]:
    """Sort by falling total time, then by columns whose NULLs come last."""
    return sorted(
        rows,
        key=lambda r: (-r["total_ns"], *((r[c] is None, r[c] or "") for c in then)),
    )


def trace_info() -> list[Row]:
    events: Sequence[Call | Range | Operation] = [
        *timeline().calls,
        *timeline().ranges,
        *timeline().operations,
    ]
    held = sorted(
        {t for t, source in TABLES.items() if source and timeline().counts.get(source)}
        | {"layer_definition"}
    )
    measured: Row = {
        "tool": "nsys",
        "tool_version": None,
        "export_version": timeline().export["EXPORT_PRODUCT_VERSION"],
        "schema_version": timeline().export["EXPORT_SCHEMA_VERSION"],
        "format": "nsys-sqlite",
        "kind": "timeline",
    }
    counts: Row = {
        "kernels": len(timeline().kernels),
        "kernel_ns": sum(op.duration for op in timeline().kernels),
        "memcpys": sum(op.kind == "memcpy" for op in timeline().operations),
        "memsets": sum(op.kind == "memset" for op in timeline().operations),
        "graph_launches": 0,
        "api_calls": len(timeline().calls),
        "nvtx_ranges": len(timeline().ranges),
        "metrics": 0,
    }
    duration = max(e.end for e in events) - min(e.start for e in events)
    return [_metric_run(), _described(Timeline, measured, duration, counts, held)]


def _metric_run() -> Row:
    measured: Row = dict.fromkeys(
        ("tool", "tool_version", "export_version", "schema_version", "format", "kind")
    )
    measured |= {"tool": "ncu", "format": "ncu-csv", "kind": "metrics"}
    times = [number(r["gpu__time_duration.sum"]) for r in counters().rows]  # us
    columns = list(counters().units)[IDENTITY:]
    counts: Row = dict.fromkeys(
        ("kernels", "kernel_ns", "memcpys", "memsets", "graph_launches", "api_calls"), 0
    )
    counts |= {"kernels": len(times), "kernel_ns": round(1000 * sum(times)), "nvtx_ranges": 0}
    counts["metrics"] = sum(not name.startswith("device__attribute_") for name in columns)
    held = sorted(METRIC_RUN | {"layer_definition"})
    return _described(Counters, measured, None, counts, held)


def _described(
    file: type[Timeline | Counters],
    measured: Row,
    duration: int | None,
    counts: Row,
    held: list[str],
) -> Row:
    return {
        "trace_id": trace_id(file.path),
        "name": f"{CAPTURE.name}/{file.path.name}",
        **measured,
        "capture_id": capture()["capture_id"],
        "file_bytes": file.path.stat().st_size,
        "sha256": sha256(file.path),
        "duration_ns": duration,
        "processes": 1,
        "devices": f"{DEVICE}: {GPU} (compute capability 8.0)",
        **counts,
        "holds": held,
        "lacks": sorted({*TABLES, "layer_definition"} - set(held)),
        "notes": [],
    }


def kernel_summary(by: str = "kernel") -> list[Row]:
    def key(op: Operation) -> tuple[str | None, ...]:
        return (op.name, *(op.shape if by == "configuration" else (None, None)))

    total = sum(op.duration for op in timeline().kernels)
    rows = []
    for (name, grid, block), same in grouped(timeline().kernels, key).items():
        times = spread([op.duration for op in same])
        share = 100 * times["total_ns"] / total
        rows.append(row(kernel_name=name, grid=grid, block=block, **times, share_pct=share))
    return by_time(rows, "kernel_name", "grid", "block")


def memory_operations(by: str = "operation") -> list[Row]:
    def kind(op: Operation, column: str) -> str | None:
        number = op.details.get(column) if by == "memory_kind" else None
        return None if number is None else str(timeline().memory_kinds[number]).lower()

    def key(op: Operation) -> tuple[str | None, ...]:
        target = kind(op, "dstKind" if op.kind == "memcpy" else "memKind")
        return op.name, kind(op, "srcKind"), target

    operations = [op for op in timeline().operations if op.kind != "kernel"]
    total = sum(op.duration for op in operations)
    rows = []
    for (name, source, target), same in grouped(operations, key).items():
        times = spread([op.duration for op in same])
        moved = sum(op.details["bytes"] for op in same)
        rows.append(
            row(
                operation=name,
                src_kind=source,
                dst_kind=target,
                **times,
                share_pct=100 * times["total_ns"] / total,
                total_bytes=moved,
                throughput_gb_s=moved / times["total_ns"],
            )
        )
    return by_time(rows, "operation", "src_kind", "dst_kind")


def path(r: Range) -> str:
    return " > ".join(around.text for around in timeline().around(r.start, r.end, r.tid))


def nvtx_kernels(by: str = "path") -> list[Row]:
    def called(r: Range) -> str:
        return f"{DOMAIN}: {path(r)}" if by == "path" else f"{DOMAIN}:{r.text}"

    begun: dict[str, tuple[int, int]] = {}
    for r in timeline().ranges:
        start, number = begun.get(called(r), (r.start, r.number))
        begun[called(r)] = min(start, r.start), min(number, r.number)
    found: dict[tuple[str, int, str], list[tuple[Range, Operation]]] = defaultdict(list)
    for kernel in timeline().kernels:
        for r in kernel.ranges:
            found[called(r), r.tid, kernel.name].append((r, kernel))
    rows = [
        row(
            range_path=name,
            style="push_pop",
            pid=PID,
            tid=tid,
            range_instances=len({r.number for r, _ in inside}),
            kernel_name=kernel_name,
            **spread([kernel.duration for _, kernel in inside]),
        )
        for (name, tid, kernel_name), inside in found.items()
    ]
    return sorted(by_time(rows, "kernel_name"), key=lambda r: (begun[r["range_path"]], r["tid"]))


def nvtx_projection() -> list[Row]:
    rows = []
    for r in timeline().ranges:
        inside = [op for op in timeline().operations if r in op.ranges]
        if not inside:
            continue
        *ancestors, _ = timeline().around(r.start, r.end, r.tid)
        start = min(op.start for op in inside)
        rows.append(
            row(
                nvtx_range_id=r.number,
                parent_id=ancestors[-1].number if ancestors else None,
                depth=len(ancestors),
                range_name=f"{DOMAIN}:{r.text}",
                style="push_pop",
                pid=PID,
                tid=r.tid,
                gpu_start_ns=start,
                gpu_ns=max(op.end for op in inside) - start,
                gpu_sum_ns=sum(op.duration for op in inside),
                start_ns=r.start,
                host_ns=r.end - r.start,
                launches=len({op.launch for op in inside}),
                operations=len(inside),
            )
        )
    return sorted(rows, key=lambda r: (r["gpu_start_ns"], -r["gpu_ns"], r["nvtx_range_id"]))


def nvtx_gpu_time() -> list[Row]:
    """Return the answer by names and by texts: no text of the sample has numbers to leave out."""
    total = sum(op.duration for op in timeline().kernels)
    rows = []
    for (text,), same in grouped(timeline().operations, lambda op: (op.ranges[-1].text,)).items():
        instances = len({op.ranges[-1].number for op in same})
        kernels = [op for op in same if op.kind == "kernel"]
        memory = [op.duration for op in same if op.kind != "kernel"]
        gpu_ns = sum(op.duration for op in kernels)
        by_name = {
            name: sum(op.duration for op in group)
            for (name,), group in grouped(kernels, lambda op: (op.name,)).items()
        }
        largest = max(by_name, key=lambda name: (by_name[name], name), default=None)
        rows.append(
            row(
                range_name=f"{DOMAIN}:{text}",
                style="push_pop",
                instances=instances,
                kernels=len(kernels),
                gpu_ns=gpu_ns,
                mean_ns=gpu_ns / instances,
                share_pct=100 * gpu_ns / total,
                kernel_name=largest,
                kernel_pct=100 * by_name[largest] / gpu_ns if largest else None,
                memory_operations=len(memory),
                memory_ns=sum(memory),
            )
        )
    return sorted(rows, key=lambda r: (-r["gpu_ns"], -r["memory_ns"], r["range_name"]))


def nvtx_summary() -> list[Row]:
    total = sum(r.end - r.start for r in timeline().ranges)
    rows = []
    # Of equal totals, the one that began first comes first.
    begun = sorted(timeline().ranges, key=lambda r: r.start)
    for (text,), same in grouped(begun, lambda r: (r.text,)).items():
        times = spread([r.end - r.start for r in same])
        instances = {"instances": times.pop("instances"), "open_instances": 0}
        share = 100 * times["total_ns"] / total
        name = f"{DOMAIN}:{text}"
        rows.append(row(range_name=name, style="push_pop", **instances, **times, share_pct=share))
    return by_time(rows)
