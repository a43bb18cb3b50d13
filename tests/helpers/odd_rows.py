"""Makes exports of nsys and nvprof of which some values cannot be, and others that are as usual."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

import made_nsys as nsys
import made_nvprof as nvprof

Change = tuple[str, int, str, Any]

EXTREMES = [
    None, 0, -1, 1, 3.5, 1e26, float("inf"), "text", "", b"\x00\xff", 2**31 - 1, 2**31, -(2**31),
    2**32 - 1, 2**53, 2**61, 2**62, -(2**62), 2**63 - 2, 2**63 - 1, -(2**63), 1 - 2**63,
    86_400 * 10**9 * 20, 1_700_000_000_000_000_000,
]  # fmt: skip
STEP, STEPS = 1_000_000, 6
_TEXTS = ("text", "value", "name")


def healthy_nsys() -> nsys.Tables:
    """Return six iterations of four kernels, two copies, a fill, a graph and a synchronisation."""
    tables = nsys.profile() | {"NVTX_EVENTS": []}
    events: dict[str, list[dict[str, Any]]] = {
        name: [] for name in (nsys.KERNEL, nsys.MEMCPY, nsys.MEMSET, nsys.GRAPH, nsys.SYNC)
    }
    calls, ranges = [], []
    number = 0
    for step in range(STEPS):
        begin = 1_000_000 + step * STEP
        ranges += [
            nsys.nvtx(59, text=f"step {step}", start=begin, end=begin + STEP - 1000),
            nsys.nvtx(59, text="layer:conv", start=begin + 10, end=begin + STEP // 2),
        ]
        for place, (table, values) in enumerate(_operations()):
            number += 1
            at = begin + 20_000 + place * 90_000
            times = {"start": at + 10_000, "end": at + 70_000, "correlationId": number}
            events[table].append(nsys.operation(**(values | times)))
            call = {"start": at, "end": at + 5_000, "correlationId": number}
            calls.append(nsys.call(4, **call))
    return tables | events | {nsys.RUNTIME: calls, nsys.NVTX: ranges}


def _operations() -> Iterator[tuple[str, dict[str, Any]]]:
    for _ in range(4):
        yield nsys.KERNEL, nsys.kernel()
    yield nsys.MEMCPY, {"bytes": 4096, "copyKind": 1, "srcKind": 1, "dstKind": 2}
    yield nsys.MEMCPY, {"bytes": 64, "copyKind": 2, "srcKind": 2, "dstKind": 1}
    yield nsys.MEMSET, {"bytes": 64, "memKind": 2}
    yield nsys.GRAPH, {"graphId": 4, "graphExecId": 5}
    yield nsys.SYNC, {"syncType": 3}


def healthy_nvprof() -> dict[str, list[dict[str, Any]]]:
    """Return twelve kernels with their launches, copies, fills and NVTX ranges."""
    begin = nvprof.START
    grid = dict.fromkeys(("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ"), 1)
    more = {"registersPerThread": 32, "staticSharedMemory": 0, "dynamicSharedMemory": 0}
    kernels = [
        nvprof.kernel(start=begin + 1000 * i, correlation=i + 1, **grid, **more) for i in range(12)
    ]
    calls = [nvprof.call(211, i + 1, begin + 1000 * i - 100) for i in range(24)]
    copies = [
        nvprof.kernel(start=begin + 1000 * i + 100, correlation=i + 13, copyKind=1, bytes=64)
        for i in range(6)
    ]
    fills = [
        nvprof.kernel(start=begin + 1000 * i + 200, correlation=i + 19, bytes=64) for i in range(6)
    ]
    marks = [
        {"timestamp": begin + 2000 * i + 900 * closes, "flags": 4 if closes else 2, "id": i + 1,
         "name": 0 if closes else 2, "domain": 0, **nvprof.host()}
        for i in range(6) for closes in (False, True)
    ]  # fmt: skip
    return {
        "CONCURRENT_KERNEL": kernels, "RUNTIME": calls, "MEMCPY": copies, "MEMSET": fills,
        "MARKER": marks,
    }  # fmt: skip


def changes(tables: dict[str, list[dict[str, Any]]]) -> st.SearchStrategy[list[Change]]:
    """Return strategies of changes: any number of any event becomes anything."""
    places = [
        (table, column)
        for table, rows in tables.items()
        if table.startswith(("CUPTI_", "NVTX_", "CUDA_GPU", "CUDNN", "OSRT", "GPU_METRICS", "COMP"))
        or table in nvprof_kinds()
        for column in dict.fromkeys(name for row in rows for name in row)
        if column not in _TEXTS and not column.endswith("objectId")
    ]
    change = st.sampled_from(places).flatmap(
        lambda place: st.tuples(
            st.just(place[0]),
            st.integers(0, len(tables[place[0]]) - 1),
            st.just(place[1]),
            st.sampled_from(EXTREMES),
        )
    )
    return st.lists(change, min_size=1, max_size=8)


def nvprof_kinds() -> set[str]:
    """Return the activity tables that ``healthy_nvprof`` fills."""
    return {"CONCURRENT_KERNEL", "RUNTIME", "MEMCPY", "MEMSET", "MARKER"}


def changed(
    tables: dict[str, list[dict[str, Any]]], wanted: list[Change]
) -> dict[str, list[dict[str, Any]]]:
    """Return a copy of tables with some values replaced."""
    copy = deepcopy(tables)
    for table, row, column, value in wanted:
        copy[table][row][column] = value
    return copy


def write_nsys(path: Path, wanted: list[Change]) -> Path:
    """Write an export of Nsight Systems with some values replaced."""
    return nsys.write(path, changed(healthy_nsys(), wanted))


def write_nvprof(path: Path, wanted: list[Change]) -> Path:
    """Write a database of nvprof with some values replaced."""
    return nvprof.make(path, ["gemm(float*)", "step"], changed(healthy_nvprof(), wanted))
