"""Implausible rows: how an ingest corrects and reports them."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import tbd_trace
from all_answers import answers
from fast import examples, one_in
from made_nsys import (
    GRAPH,
    KERNEL,
    MEMCPY,
    MEMORY,
    MEMSET,
    NVTX,
    RUNTIME,
    STRINGS,
    Tables,
    call,
    gpu,
    kernel,
    nvtx,
    operation,
    strings,
    write,
)  # fmt: skip
from made_nvprof import START, host, make
from made_nvprof import call as nvprof_call
from made_nvprof import kernel as nvprof_kernel
from tbd_trace.query import Result
from tbd_trace.store import Database

TOO_LATE, TOO_EARLY = 2**63 - 1, -(2**63)


class Ingested:
    """A made file in a database of its own."""

    def __init__(self, path: Path) -> None:
        database = Database(path.with_name("db.duckdb"))
        (report,) = database.ingest([path])
        self.notes = report.notes
        self._traces = tbd_trace.open(db=database.path)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the rows of a SELECT on the canonical tables."""
        return self._traces.sql(sql).rows()

    def ask(self, name: str) -> pl.DataFrame:
        """Return the answer of a query."""
        return self._traces.query(name)

    def ask_all(self, *names: str) -> list[pl.DataFrame]:
        """Return the answers of queries, over one connection."""
        found = answers(self._traces.database, names)
        return [result.frame for result in found.values() if isinstance(result, Result)]

    def note(self, words: str) -> str:
        """Return the only note with some words."""
        (found,) = [note for note in self.notes if words in note]
        return found


def base(kernels: Sequence[dict[str, Any]], **more: Any) -> Tables:
    """Return an export of some kernels, each with its launch 20 ns before."""
    launches = [
        call(4, start=row["start"] - 20, end=row["start"] - 10, correlationId=row["correlationId"])
        for row in kernels
        if isinstance(row["start"], int) and 0 < row["start"] < 10**12
    ]
    return {"StringIds": strings(), KERNEL: list(kernels), RUNTIME: launches} | more | {
        "TARGET_INFO_GPU": [gpu(0, 0)]
    }  # fmt: skip


def regular(count: int, length: int = 50_000, every: int = 60_000) -> list[dict[str, Any]]:
    """Return kernels one after the other on one stream."""
    return [
        kernel(start=10**6 + i * every, end=10**6 + i * every + length, correlationId=i + 1)
        for i in range(count)
    ]


def ingested(folder: Path, tables: Tables) -> Ingested:
    return Ingested(write(folder / "made.sqlite", tables))


@pytest.mark.slow
def test_a_sound_trace_has_no_notes_and_keeps_every_value(tmp_path: Path) -> None:
    kernels = regular(50)
    found = ingested(tmp_path, base(kernels))
    assert found.notes == []
    starts = found.rows("SELECT start_ns, end_ns, duration_ns FROM kernel ORDER BY kernel_id")
    assert starts == [(k["start"], k["end"], k["end"] - k["start"]) for k in kernels]


@pytest.mark.slow
def test_end_before_start(tmp_path: Path) -> None:
    kernels = regular(10)
    for i in (2, 5):
        kernels[i]["end"] = kernels[i]["start"] - 7
    kernels[7]["end"] = kernels[7]["start"]  # an instant is a time
    copies = [operation(bytes=8, copyKind=1, start=10**6, end=10**6 - 1, correlationId=50)]
    graphs = [operation(graphId=1, start=10**6, end=10**6 - 1, correlationId=51)]
    ranges = [nvtx(59, text="backwards", start=10**6, end=10**6 - 5)]
    more = {MEMCPY: copies, GRAPH: graphs, NVTX: ranges}
    tables = base(kernels, **more)
    tables[RUNTIME].append(call(4, start=999_000, end=998_000, correlationId=99))
    found = ingested(tmp_path, tables)
    assert found.note("kernels that end before").endswith(": 2; their duration is NULL")
    assert ": 1;" in found.note("memory copies that end before")
    assert found.note("CUDA graph launches that end before").endswith(": 1; removed")
    assert ": 1;" in found.note("API calls that end before")
    assert ": 1;" in found.note("NVTX ranges that end before")
    (total,) = found.rows("SELECT sum(duration_ns), count(*), count(duration_ns) FROM kernel")
    assert total == (7 * 50_000, 10, 8)
    assert found.rows("SELECT start_ns, end_ns FROM nvtx_range") == [(10**6, 10**6)]
    assert found.rows("SELECT start_ns, end_ns FROM api_call WHERE correlation_id = 99") == [
        (999_000, 999_000)
    ]
    assert found.rows("SELECT count(*) FROM graph_launch") == [(0,)]


@pytest.mark.slow
def test_end_before_start_in_nvprof(tmp_path: Path) -> None:
    kernels = [
        nvprof_kernel(start=START + 100 * i, correlation=i + 1, end=START + 100 * i + length)
        for i, length in enumerate((50, -50, 0))
    ]
    calls = [nvprof_call(211, i + 1, START + 100 * i - 10) for i in range(3)]
    path = make(tmp_path / "a.nvprof", ["gemm"], {"CONCURRENT_KERNEL": kernels, "RUNTIME": calls})
    found = Ingested(path)
    assert ": 1;" in found.note("kernels that end before they start")
    assert found.rows("SELECT duration_ns FROM kernel ORDER BY kernel_id") == [(50,), (None,), (0,)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("extreme", "column"),
    one_in(
        8,
        [
            (TOO_LATE, "start"),
            (TOO_EARLY, "end"),
            (TOO_EARLY, "start"),
            (2**62 + 1, "start"),
            (2**62 + 1, "end"),
            (60 * 86_400 * 10**9, "start"),
            (60 * 86_400 * 10**9, "end"),
            (TOO_LATE, "end"),
        ],
        then_one_in=2,
    ),
)
def test_times_far_from_all_others(tmp_path: Path, extreme: int, column: str) -> None:
    kernels = regular(10)
    kernels[4][column] = extreme
    tables = base(kernels)
    tables[RUNTIME].append(
        call(4, **{"start": 500, "end": 600, "correlationId": 77, column: extreme})
    )
    tables[NVTX] = [nvtx(59, text="fine"), nvtx(59, text="open", end=None)]
    found = ingested(tmp_path, tables)
    assert ": 1;" in found.note("kernels with implausible times")
    assert found.rows("SELECT count(*), count(start_ns), sum(duration_ns) FROM kernel") == [
        (10, 9, 450_000)
    ]
    assert found.note("API calls with implausible times").endswith(": 1; removed")
    info, activity = found.ask_all("trace_info", "gpu_activity")
    ((duration,),) = info.select("duration_ns").rows()
    assert duration < 10**7
    assert activity["elapsed_ns"].sum() < 10**7


@pytest.mark.slow
def test_grids_blocks_and_sizes_that_cannot_be(tmp_path: Path) -> None:
    kernels = regular(8)
    kernels[0] |= dict.fromkeys(("blockX", "blockY", "blockZ"), 0)
    kernels[1] |= dict.fromkeys(("gridX", "gridY", "gridZ"), TOO_LATE)
    kernels[2] |= {"blockX": 1024, "blockY": 2}
    kernels[3] |= {"registersPerThread": -1}
    kernels[4] |= {"gridX": 2**31 - 1, "gridY": 65_535, "gridZ": 65_535}  # the limits themselves
    copies = [operation(bytes=TOO_LATE, copyKind=1, correlationId=60, start=10, end=20)]
    found = ingested(tmp_path, base(kernels, **{MEMCPY: copies}))
    assert ": 3;" in found.note("a grid or block of 0 or beyond")
    assert ": 1;" in found.note("registers or shared memory")
    assert ": 1;" in found.note("memory copies with an implausible size")
    shapes = found.rows("SELECT grid_x, block_x, duration_ns FROM kernel ORDER BY kernel_id")
    assert shapes[:3] == [(4, None, 50_000), (None, 128, 50_000), (4, None, 50_000)]
    assert found.rows("SELECT bytes FROM memcpy") == [(None,)]
    assert found.ask("occupancy").height == 1


@pytest.mark.slow
def test_the_same_rows_twice(tmp_path: Path) -> None:
    """As in an export that was merged with itself; a graph's nodes share much, and stay."""
    kernels = regular(20)
    nodes = [
        kernel(start=5_000_000, end=5_010_000, correlationId=90, graphNodeId=n) for n in (1, 2, 3)
    ]
    fills = [operation(bytes=8, memKind=2, correlationId=91, start=10, end=20)]
    tables = base([*kernels, *nodes, *kernels], **{MEMSET: [*fills, *fills]})
    found = ingested(tmp_path, tables)
    assert ": 20;" in found.note("rows of kernel that stand twice")
    assert ": 22;" in found.note("rows of api_call that stand twice")
    assert ": 1;" in found.note("rows of memset that stand twice")
    assert found.rows("SELECT count(*), count(DISTINCT start_ns) FROM kernel") == [(23, 21)]


@pytest.mark.slow
def test_ids_of_texts_that_repeat(tmp_path: Path) -> None:
    twice = [*strings(), *strings(), {"id": 1, "value": "another name"}]
    found = ingested(tmp_path, base(regular(10)) | {"StringIds": twice})
    assert f": {len(STRINGS) + 1};" in found.note("texts that repeat the id")
    assert found.rows("SELECT count(*), min(name), max(name) FROM kernel") == [
        (10, STRINGS[1], STRINGS[1])
    ]


@pytest.mark.slow
def test_ids_of_texts_that_repeat_in_nvprof(tmp_path: Path) -> None:
    path = make(
        tmp_path / "a.nvprof",
        ["gemm", "step"],
        {
            "CONCURRENT_KERNEL": [nvprof_kernel()],
            "RUNTIME": [nvprof_call(211, 7, START - 10)],
            "MARKER": [{"timestamp": START, "flags": 1, "id": 1, "name": 2, "domain": 0, **host()}],
        },
    )
    with sqlite3.connect(path) as file:
        file.execute("CREATE TABLE copy AS SELECT * FROM StringTable")
        file.execute("DROP TABLE StringTable")
        file.execute("ALTER TABLE copy RENAME TO StringTable")
        file.execute("INSERT INTO StringTable SELECT * FROM StringTable")
    file.close()
    found = Ingested(path)
    assert ": 3;" in found.note("texts that repeat the id")
    assert found.rows("SELECT text FROM nvtx_mark") == [("step",)]
    assert found.rows("SELECT count(*) FROM kernel") == [(1,)]


@pytest.mark.slow
def test_a_kernel_over_its_successors_on_one_stream(tmp_path: Path) -> None:
    kernels = regular(1000)
    kernels[500]["end"] += 2_000_000_000
    found = ingested(tmp_path, base(kernels))
    note = found.note("overlap an earlier one on the same stream")
    assert ": 499, over 1 earlier ones" in note
    assert "2,000.050 ms" in note


@pytest.mark.slow
def test_of_many_kernels_the_longest_of_each_stream_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first 2,000 kernels are the only sample; the long kernel follows them."""
    monkeypatch.setattr("tbd_trace.store.audit._MOST_ROWS", 100)
    kernels = regular(2600)
    kernels[2500]["end"] += 2_000_000_000
    note = ingested(tmp_path, base(kernels)).note("overlap an earlier one on the same stream")
    assert ": 99 in a sample of one in 260, over 1 earlier ones" in note


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        lambda i: {"streamId": i % 2},
        lambda i: {"contextId": i % 2},
        lambda i: {"deviceId": i % 2, "contextId": i % 2},
        lambda i: {"graphNodeId": i + 1},
        lambda i: {"end": 10**6 + i * 60_000 + 65_000},  # 5 us early: a dependent launch
    ],
)
def test_overlap_that_can_be(tmp_path: Path, change: Any) -> None:
    kernels = regular(100, length=110_000)
    changed = [row | change(i) for i, row in enumerate(kernels)]
    assert not [note for note in ingested(tmp_path, base(changed)).notes if "overlap" in note]


@pytest.mark.slow
def test_kernels_launched_by_kernels_run_inside_them(tmp_path: Path) -> None:
    outer = [nvprof_kernel(start=START + 10**6 * i, correlation=i + 1) for i in range(6)]
    outer = [row | {"end": row["start"] + 500_000} for row in outer]
    inner = [
        row | {"start": row["start"] + 100_000, "end": row["start"] + 300_000} for row in outer
    ]
    calls = [nvprof_call(211, i + 1, START + 10**6 * i - 10_000) for i in range(6)]
    rows = {"CONCURRENT_KERNEL": outer, "CDP_KERNEL": inner, "RUNTIME": calls}
    found = Ingested(make(tmp_path / "a.nvprof", ["gemm"], rows))
    assert found.notes == []
    assert found.rows("SELECT count(*) FROM kernel") == [(12,)]


@pytest.mark.slow
@given(st.lists(st.integers(1, 4), min_size=2, max_size=24), st.randoms(use_true_random=False))
@settings(max_examples=examples(15), phases=[Phase.explicit, Phase.generate])
def test_an_operation_belongs_to_the_nearest_launch_before_it(ids: list[int], random: Any) -> None:
    """Correlation ids wrap; each launch is of a range with its own name and has up to 3 kernels."""
    calls, ranges, kernels, at = [], [], [], 10**6
    truth: dict[str, int] = {}
    for place, number in enumerate(ids):
        ranges.append(nvtx(59, text=f"range {place}", start=at, end=at + 30_000))
        calls.append(call(4, start=at + 1_000, end=at + 3_000, correlationId=number))
        at += 8_000
        for _ in range(random.randint(0, 3)):
            kernels.append(kernel(start=at, end=at + 1_000, correlationId=number))
            truth[f"range {place}"] = truth.get(f"range {place}", 0) + 1
            at += 2_000
        at += 30_000
    if not kernels:
        return
    with tempfile.TemporaryDirectory() as folder:
        tables = {"StringIds": strings(), KERNEL: kernels, RUNTIME: calls, NVTX: ranges}
        found = ingested(Path(folder), tables)
        counted, scoped = found.ask_all("nvtx_kernels", "nvtx_gpu_time")
        counted = counted.filter(pl.col("range_path").is_not_null())
        assert dict(counted.select("range_path", "instances").rows()) == truth
        scoped = scoped.filter(pl.col("range_name").is_not_null())
        assert scoped["kernels"].sum() == len(kernels)
        repeated = {k["correlationId"] for k in kernels} & {n for n in ids if ids.count(n) > 1}
        notes = [note for note in found.notes if note.startswith("correlation ids that one")]
        assert bool(notes) == bool(repeated)


@pytest.mark.slow
def test_a_driver_call_inside_its_runtime_call_is_no_other_launch(tmp_path: Path) -> None:
    tables = base(regular(5))
    tables[RUNTIME] += [
        row | {"start": row["start"] + 1, "end": row["end"] - 1, "nameId": 5}
        for row in tables[RUNTIME]
    ]
    assert ingested(tmp_path, tables).notes == []


@pytest.mark.slow
def test_allocations_of_sizes_that_cannot_be(tmp_path: Path) -> None:
    event = {
        "start": 10**6,
        "globalPid": 1 << 48 | 100 << 24,
        "deviceId": 0,
        "memoryOperationType": 0,
    }
    events = [event | {"bytes": size} for size in (512, -1, TOO_LATE)]
    found = ingested(tmp_path, base(regular(3), **{MEMORY: events}))
    assert ": 2;" in found.note("memory events with an implausible size")
    assert sorted(found.rows("SELECT bytes FROM memory_event"), key=str) == [
        (512,),
        (None,),
        (None,),
    ]


@pytest.mark.slow
def test_marks_of_nvprof_at_the_end_of_64_bits(tmp_path: Path) -> None:
    marks = [
        {"timestamp": at, "flags": flags, "id": number, "name": 2 * (flags == 2), "domain": 0}
        for number, start, end in ((1, START, START + 50), (2, TOO_LATE, TOO_LATE))
        for at, flags in ((start, 2), (end, 4))
    ]
    rows = {
        "CONCURRENT_KERNEL": [nvprof_kernel()],
        "RUNTIME": [nvprof_call(211, 7, START - 10)],
        "MARKER": [mark | host() for mark in marks],
    }
    found = Ingested(make(tmp_path / "a.nvprof", ["gemm", "step"], rows))
    assert found.note("NVTX ranges with implausible times").endswith(": 1; removed")
    assert found.rows("SELECT start_ns, end_ns FROM nvtx_range") == [(START, START + 50)]
