"""Traces of torch.profiler: numbers equal those of a plain JSON reader, to the nanosecond.

The reference tables in ``reference/kineto`` were made with Python's ``json`` and ``decimal``.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from corpus import reference_rows
from fixed_columns import fixed_columns
from real_traces import KINETO, Traces
from tbd_trace.errors import CannotAnswerError

file_by_file = pytest.mark.parametrize("path", KINETO, scope="module")
# Canonical rows of the reference's categories; calls of runtime and driver are one table.
ROWS = {
    "kernel": "kernel",
    "gpu_memcpy": "memcpy",
    "gpu_memset": "memset",
    "cuda_sync": "synchronization",
    "call": "api_call",
    "cpu_op": "annotation WHERE source = 'operator'",
    "user_annotation": "annotation WHERE source = 'python'",
    "overhead": "annotation WHERE source = 'profiler'",
}
CALLS = ("cuda_runtime", "cuda_driver")
FRAMES = "python_function"


@cache
def oracle(table: str) -> dict[str, list[dict[str, str]]]:
    """Rows of a reference table by file."""
    rows: dict[str, list[dict[str, str]]] = {}
    for row in reference_rows(f"kineto/{table}.csv"):
        rows.setdefault(row.pop("file"), []).append(row)
    return rows


def expected(table: str, path: Path) -> list[dict[str, str]]:
    return oracle(table).get(path.name, [])


def name_of(path: Path) -> str:
    return f"kineto/{path.name}"


@pytest.mark.slow
@file_by_file
def test_counts_and_durations(traces: Traces, path: Path) -> None:
    events: Counter[str] = Counter()
    durations: Counter[str] = Counter()
    for row in expected("counts", path):
        category = "call" if row["category"] in CALLS else row["category"]
        events[category] += int(row["events"])
        durations[category] += int(row["duration_ns"])
    for category, rows in ROWS.items():
        found = traces.sql(
            name_of(path), f"SELECT count(*), sum(end_ns - start_ns)::BIGINT FROM {rows}"
        ).row(0)
        assert (found[0], found[1] or 0) == (events[category], durations[category]), category
    notes = " ".join(traces.sql(name_of(path), "SELECT unnest(notes) FROM trace").to_series())
    for category in events.keys() - ROWS.keys() - {FRAMES}:
        assert f"{category} {events[category]:,}" in notes
    modules = traces.sql(name_of(path), "SELECT count(*) FROM annotation WHERE source = 'module'")
    frames = events[FRAMES] - modules.item()
    assert not frames or f"except calls of modules: {frames:,}" in notes
    assert "dropped" not in notes


@pytest.mark.slow
@file_by_file
def test_columns_are_the_same_in_all_files(path: Path) -> None:
    assert fixed_columns(path)


@pytest.mark.slow
@file_by_file
def test_streams(traces: Traces, path: Path) -> None:
    found = traces.sql(
        name_of(path),
        """
        SELECT device_id, stream_id, category, count(*), sum(duration_ns)::BIGINT
        FROM (
            SELECT 'kernel' AS category, device_id, stream_id, duration_ns FROM kernel
            UNION ALL SELECT 'gpu_memcpy', device_id, stream_id, duration_ns FROM memcpy
            UNION ALL SELECT 'gpu_memset', device_id, stream_id, duration_ns FROM memset
        ) GROUP BY ALL
        """,
    ).rows()
    keys = ("device", "stream", "category", "operations", "duration_ns")
    wanted = [tuple(row[key] for key in keys) for row in expected("streams", path)]
    assert sorted(tuple(map(str, row)) for row in found) == sorted(wanted)


@file_by_file
def test_longest_kernels(traces: Traces, path: Path) -> None:
    wanted = expected("top_kernels", path)
    if not wanted:
        with pytest.raises(CannotAnswerError):
            traces.ask(name_of(path), "kernel_summary")
        return
    columns = ["kernel_name", "instances", "total_ns", "min_ns", "max_ns"]
    found = {row[0]: row[1:] for row in traces.ask(name_of(path), "kernel_summary")[columns].rows()}
    keys = ("calls", "total_ns", "min_ns", "max_ns")
    assert {row["name"]: tuple(int(row[key]) for key in keys) for row in wanted}.items() <= (
        found.items()
    )
    longest = sorted((total for _, total, _, _ in found.values()), reverse=True)[: len(wanted)]
    assert longest == [int(row["total_ns"]) for row in wanted]


@pytest.mark.slow
@file_by_file
def test_busy_time(traces: Traces, path: Path) -> None:
    wanted = expected("busy", path)
    if not wanted:
        return
    frame = traces.ask(name_of(path), "compute_util", {"window": "trace"})
    found = {
        str(device): (busy, kernels)
        for device, busy, kernels in frame["device_id", "gpu_busy_ns", "kernel_busy_ns"].rows()
    }
    # A device without kernels has no row.
    assert found == {
        row["device"]: (int(row["busy_all_ns"]), int(row["busy_kernels_ns"]))
        for row in wanted
        if row["device"] in found or int(row["busy_kernels_ns"])
    }


@pytest.mark.slow
@file_by_file
def test_steps(traces: Traces, path: Path) -> None:
    wanted = expected("steps", path)
    if not wanted:
        return
    steps = traces.sql(
        name_of(path),
        """
        SELECT text, start_ns, end_ns FROM annotation
        WHERE text LIKE 'ProfilerStep#%' ORDER BY start_ns
        """,
    )
    assert steps.rows() == [
        (row["step"], int(row["start_ns"]), int(row["end_ns"])) for row in wanted
    ]
    # Where the host runs ahead, steps begin and end on the GPU; their host time is that above.
    frame = traces.ask(name_of(path), "iteration_timing")
    found = [
        (label, host, kernels or 0, duration or 0)
        for label, host, kernels, duration in frame[
            "label", "host_ns", "kernels", "kernel_ns"
        ].rows()
    ]
    assert found == [
        (
            row["step"],
            int(row["end_ns"]) - int(row["start_ns"]),
            int(row["kernels_launched_any_thread"]),
            int(row["kernel_ns_any_thread"]),
        )
        for row in wanted
    ]


@file_by_file
def test_copies_and_fills(traces: Traces, path: Path) -> None:
    wanted: Counter[tuple[str, str]] = Counter()
    for row in expected("copies", path):
        words = row["name"].split()
        kind = words[1] if row["category"] == "gpu_memcpy" and len(words) > 1 else ""
        operation = f"[CUDA memcpy {kind}]" if kind else "[CUDA memset]"
        if row["category"] == "gpu_memcpy" and not kind:
            operation = "[CUDA memcpy unknown]"
        for column in ("operations", "duration_ns", "bytes"):
            wanted[operation, column] += int(row[column] or 0)
    if not wanted:
        return
    frame = traces.ask(name_of(path), "memory_operations")
    found: Counter[tuple[str, str]] = Counter()
    for operation, *numbers in frame["operation", "instances", "total_ns", "total_bytes"].rows():
        for column, number in zip(("operations", "duration_ns", "bytes"), numbers, strict=True):
            found[operation, column] += number or 0
    assert found == wanted


@file_by_file
def test_allocations(traces: Traces, path: Path) -> None:
    found = traces.sql(
        name_of(path),
        """
        SELECT e.device_id, count(*), count(*) FILTER (operation = 'allocate'),
            coalesce(sum(bytes) FILTER (operation = 'allocate'), 0)::BIGINT,
            coalesce(sum(bytes) FILTER (operation = 'free'), 0)::BIGINT,
            max(t.allocated_bytes), coalesce(max(t.reserved_bytes), 0)
        FROM memory_event e JOIN memory_total t USING (sequence)
        GROUP BY ALL
        """,
    ).rows()
    keys = (
        *("events", "allocations", "allocated_bytes", "freed_bytes"),
        *("peak_total_allocated", "peak_total_reserved"),
    )
    assert sorted(found, key=str) == sorted(
        (
            (
                None if row["device_type"] == "0" else int(row["device_id"]),
                *(int(row[key]) for key in keys),
            )
            for row in expected("memory", path)
        ),
        key=str,
    )


@file_by_file
def test_start_of_the_clock(traces: Traces, path: Path) -> None:
    for row in expected("file", path):
        absolute = int(row["start_ns"]) > 10**18
        wanted = 0 if absolute else int(row["base_ns"]) or None
        assert traces.sql(name_of(path), "SELECT utc_start_ns FROM trace").item() == wanted
