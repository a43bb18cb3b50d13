"""The same sums and projections as NVIDIA's `nsys stats`, row for row, on real traces."""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Iterable
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import polars as pl
import pytest

from corpus import corpus_file
from real_traces import Traces, oracle_rows

NERSC = "nsys/NERSC_sc22-dl-tutorial__sample_nsys_profiles__{}.qdrep.exp2022.4.sqlite"
TRACES = {  # what nsys 2022.4 was asked about, and the file that it read
    "DLProf_native2022.1": "nsys/MohanadOdema_DLProf__nsys_profile.sqlite",
    "NERSC_4gpu_baseline_qdrep": NERSC.format("4gpu_baseline"),
    "NERSC_baseline_qdrep": NERSC.format("baseline"),
    "NERSC_dali_amp_apex_jit_qdrep": NERSC.format("dali_amp_apex_jit"),
    "gartangh_darknet19": "nsys/gartangh_Master-s-Dissertation__Darknet-19.qdrep.exp2022.4.sqlite",
    "zx3xyy_nvtx_native2024.6": "nsys/zx3xyy_assignment2-systems__result_2_7B_nvtx.sqlite",
}
STYLES = {"push_pop": "PushPop", "start_end": "StartEnd", None: "None"}
TIMES = ["Total Time (ns)", "Avg (ns)", "Med (ns)", "Min (ns)", "Max (ns)", "StdDev (ns)"]

Row = dict[str, Any]
per_trace = pytest.mark.parametrize("stem", TRACES, scope="module")


def oracle(stem: str, report: str) -> list[dict[str, str]]:
    return oracle_rows(f"nsys_stats_2022.4__{stem}_{report}.csv")


def printed(value: float | None) -> str:
    """Return a number as NVIDIA prints it: one digit, and 0.0 for the deviation of one value."""
    exact = Decimal(repr(value)) if value is not None else Decimal(0)
    return str(exact.quantize(Decimal("0.1"), ROUND_HALF_UP))


def text(value: object) -> str:
    return str(value)  # NVIDIA prints None, too


def times(row: Row) -> list[str]:
    return [
        text(row["total_ns"]),
        *(printed(row[name]) for name in ("mean_ns", "median_ns")),
        *(text(row[name]) for name in ("min_ns", "max_ns")),
        printed(row["stddev_ns"]),
    ]


def same(ours: Iterable[list[str]], theirs: Iterable[list[str]]) -> None:
    """Assert that two lists of rows are equal but for their order, showing few of the others."""
    left, right = Counter(map(tuple, ours)), Counter(map(tuple, theirs))
    assert left
    assert not list((left - right).items())[:3] + list((right - left).items())[:3]


@pytest.mark.slow
@per_trace
def test_kernel_sums(traces: Traces, stem: str) -> None:
    theirs = oracle(stem, "gpukernsum")
    answer = traces.ask(TRACES[stem], "kernel_summary", {"by": "configuration"})
    columns = ["Name", "GridXYZ", "BlockXYZ", "Instances", *TIMES, "Time (%)"]
    same(
        (
            [
                *(text(row[name]) for name in ("kernel_name", "grid", "block", "instances")),
                *times(row),
                printed(row["share_pct"]),
            ]
            for row in answer.iter_rows(named=True)
        ),
        # its grids and blocks are padded
        ([re.sub(r"(?<=\d) +(?=\d)", " ", row[c].strip()) for c in columns] for row in theirs),
    )
    # The same order: the longest first.
    assert [text(total) for total in answer["total_ns"]] == [row[TIMES[0]] for row in theirs]


@pytest.mark.slow
@per_trace
def test_memory_operations(traces: Traces, stem: str) -> None:
    answer = traces.ask(TRACES[stem], "memory_operations")
    columns = ["Operation", "Count", *TIMES, "Time (%)"]
    same(
        (
            [row["operation"], text(row["instances"]), *times(row), printed(row["share_pct"])]
            for row in answer.iter_rows(named=True)
        ),
        ([row[column] for column in columns] for row in oracle(stem, "gpumemtimesum")),
    )


@per_trace
def test_nvtx_ranges(traces: Traces, stem: str) -> None:
    answer = traces.ask(TRACES[stem], "nvtx_summary").filter(pl.col("style") == "push_pop")
    # Where a range was left open, the last NVTX event ends it there.
    closed = answer.filter(pl.col("open_instances") == 0)
    left_open = answer.filter(pl.col("open_instances") > 0)["range_name"].to_list()
    theirs = [row for row in oracle(stem, "nvtxppsum") if row["Range"] not in left_open]
    columns = ["Range", "Instances", *TIMES]
    same(
        (
            [text(row["range_name"]), text(row["instances"]), *times(row)]
            for row in closed.iter_rows(named=True)
        ),
        ([row[column] for column in columns] for row in theirs),
    )
    if not left_open:
        assert [text(total) for total in closed["total_ns"]] == [row[TIMES[0]] for row in theirs]


@pytest.mark.slow
@per_trace
def test_kernels_by_nvtx_range(traces: Traces, stem: str) -> None:
    answer = traces.ask(TRACES[stem], "nvtx_kernels", {"by": "range"})
    columns = ["NVTX Range", "Style", "PID", "TID", "NVTX Inst", "Kern Inst", *TIMES, "Kernel Name"]
    names = ("pid", "tid", "range_instances", "instances")
    same(
        (
            [
                text(row["range_path"]),
                STYLES[row["style"]],
                *(text(row[name]) for name in names),
                *times(row),
                row["kernel_name"],
            ]
            for row in answer.iter_rows(named=True)
        ),
        ([row[column] for column in columns] for row in oracle(stem, "nvtxkernsum")),
    )


@pytest.mark.slow
@per_trace
def test_projection_onto_the_gpu(traces: Traces, stem: str) -> None:
    answer = traces.ask(TRACES[stem], "nvtx_projection")
    columns = ["Name", "Projected Start (ns)", "Projected Duration (ns)", "Orig Start (ns)"]
    columns += ["Orig Duration (ns)", "PID", "TID", "NumGPUOps", "Style"]
    names = ["range_name", "gpu_start_ns", "gpu_ns", "start_ns", "host_ns", "pid", "tid"]
    # nsys shows the GPU's times as recorded; one of the files has them on another clock.
    first = min(int(row["Projected Start (ns)"]) for row in oracle(stem, "nvtxgpuproj"))
    offset = first - answer["gpu_start_ns"].min()
    assert (offset != 0) == (stem == "NERSC_4gpu_baseline_qdrep")
    shown = answer.with_columns(pl.col("gpu_start_ns") + offset)
    same(
        (
            [text(row[name]) for name in [*names, "launches"]] + [STYLES[row["style"]]]
            for row in shown.iter_rows(named=True)
        ),
        ([row[column] for column in columns] for row in oracle(stem, "nvtxgpuproj")),
    )


@per_trace
def test_innermost_ranges(traces: Traces, stem: str) -> None:
    """What a range launches itself is what it launches, less what the ranges directly in it do.

    Of every domain, as in the same report, whose parents are not used: see test_nesting_of_ranges.
    """
    own: Counter[int] = Counter()
    names: dict[int, str] = {}
    around: dict[str, list[tuple[int, int]]] = {}  # open ranges of a thread: end and number
    theirs = [
        (int(r["Orig Start (ns)"]), int(r["Orig Duration (ns)"]), r)
        for r in oracle(stem, "nvtxgpuproj")
    ]
    for start, duration, row in sorted(theirs, key=lambda r: (r[0], -r[1])):
        number, launches = int(row["RangeId"]), int(row["NumGPUOps"])
        outer = around.setdefault(row["TID"], [])
        while outer and outer[-1][0] < start + duration:
            outer.pop()
        if outer:
            own[outer[-1][1]] -= launches
        own[number] += launches
        names[number] = row["Name"]
        outer.append((start + duration, number))
    expected = Counter(names[number] for number, launches in own.items() if launches)
    answer = traces.ask(TRACES[stem], "nvtx_gpu_time", {"by": "text", "library_domains": "^$"})
    inside = answer.filter(pl.col("range_name").is_not_null())
    assert expected
    assert dict(inside.select("range_name", "instances").iter_rows()) == expected


def rounded_as_nsys(start: int, end: int) -> tuple[float, float]:
    """Return how SQLite's R-tree, which nsys stats nests ranges with, keeps a range."""
    with sqlite3.connect(":memory:") as database:
        database.execute("CREATE VIRTUAL TABLE range USING rtree (id, start_ns, end_ns)")
        database.execute("INSERT INTO range VALUES (1, ?, ?)", (start, end))
        ((start_ns, end_ns),) = database.execute("SELECT start_ns, end_ns FROM range")
    return start_ns, end_ns


def encloses(outer: tuple[float, float], inner: tuple[float, float]) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]


@per_trace
def test_nesting_of_ranges(traces: Traces, stem: str) -> None:
    """Parents and levels agree, but where NVIDIA loses a parent by rounding times to 32 bits.

    SQLite's R-tree keeps 32-bit floats: 3 s into a trace their step is 256 ns, and an inner range
    that ends within that of the outer one may seem to outlast it. The same report would also let
    ranges of one NVTX domain nest in those of another; none of these traces has such.
    """
    theirs = oracle(stem, "nvtxgpuproj")
    ours = list(traces.ask(TRACES[stem], "nvtx_projection").iter_rows(named=True))
    theirs_by_id = {row["RangeId"]: row for row in theirs}
    ours_by_id = {row["nvtx_range_id"]: row for row in ours}
    ours_by_key = {(r["range_name"], text(r["start_ns"]), text(r["tid"])): r for r in ours}

    def twin(row: dict[str, str] | None) -> Row | None:
        return row and ours_by_key[row["Name"], row["Orig Start (ns)"], row["TID"]]

    def path(row: Row | None) -> list[int]:
        """Return the range and those around it, the innermost first."""
        found = []
        while row is not None:
            found.append(row["nvtx_range_id"])
            row = ours_by_id.get(row["parent_id"])
        return found

    lost = 0
    for row in theirs:
        mine = twin(row)
        assert mine is not None
        parent = ours_by_id.get(mine["parent_id"])
        their_parent = twin(theirs_by_id.get(row["ParentId"]))
        if parent is their_parent:
            continue
        lost += 1
        assert parent is not None
        # NVIDIA's parent is one farther out, …
        assert their_parent is None or their_parent["nvtx_range_id"] in path(parent)[1:]
        # … although ours encloses the range, exactly, and not once rounded.
        outer, inner = ((r["start_ns"], r["start_ns"] + r["host_ns"]) for r in (parent, mine))
        assert encloses(outer, inner)
        assert not encloses(rounded_as_nsys(*outer), rounded_as_nsys(*inner))
    assert lost == (2 if "dali" in stem else 0)
    levels = [int(row["Lvl"]) - int(twin(row)["depth"]) for row in theirs]  # type: ignore[index]
    assert {level for level in levels if level} == ({-1} if lost else set())


TEXT_REPORTS = {
    "zx3xyy_assignment2-systems__nsys_stats.txt": "result_2_7B",
    "zx3xyy_assignment2-systems__nsys_stats_compile_ro.txt": "result_2_7B_compile_ro",
}


@pytest.mark.slow
@pytest.mark.parametrize("report", TEXT_REPORTS)
def test_kernel_sums_of_a_newer_nsys(traces: Traces, report: str) -> None:
    """nsys 2024.6 printed the authors' own reports, by name alone, and cut long names."""
    block = (
        corpus_file(f"oracle/{report}")
        .read_text()
        .split("** CUDA GPU Kernel Summary (cuda_gpu_kern_sum):")[1]
    )
    lines = block.split("Processing")[0].strip().splitlines()[2:]
    theirs = [line.split(maxsplit=8) for line in lines]
    trace = f"nsys/zx3xyy_assignment2-systems__{TEXT_REPORTS[report]}.sqlite"
    ours = traces.ask(trace, "kernel_summary").rows(named=True)
    assert len(theirs) == len(ours)
    for row, (share, total, instances, *rest, name) in zip(ours, theirs, strict=True):
        assert [printed(row["share_pct"]), text(row["total_ns"])] == [share, total]
        assert [text(row["instances"]), *times(row)[1:]] == [instances, *rest]
        assert row["kernel_name"].startswith(name.strip().removesuffix("…"))
