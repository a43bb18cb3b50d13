"""Exports of nsys with values at the ends of 64 bits, and other rows that no profiler writes.

All are in one database: each keeps its kernels, notes the rows that were left out, and stops no
answer about another. The sound export has 24 kernels of 60,000 ns.
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import made_nsys as nsys
from odd_rows import healthy_nsys
from tbd_trace.query import Catalogue, execute
from tbd_trace.store import Database

KERNELS, DURATION_NS = 24, 60_000
LARGEST, SMALLEST = 2**63 - 1, -(2**63)
SIZES = ("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ", "registersPerThread")
SHARED = dict.fromkeys(("staticSharedMemory", "dynamicSharedMemory"), LARGEST)
Row = dict[str, Any]
pytestmark = [pytest.mark.slow, pytest.mark.nightly]  # ten exports are ingested

# How each kernel changes, by its number, and how many durations stay known.
KERNEL_CHANGES: dict[str, tuple[Callable[[int, Row], Row], int]] = {
    "sizes of zero": (lambda i, row: dict.fromkeys(SIZES, 0), KERNELS),
    "largest sizes": (lambda i, row: dict.fromkeys(SIZES, 2**31 - 1) | SHARED, KERNELS),
    "ends of 64 bits": (
        lambda i, row: {
            0: {"start": SMALLEST},
            1: {"start": SMALLEST, "end": LARGEST},
            23: {"end": LARGEST},
        }.get(i, {}),
        21,
    ),
    "all at the end of time": (lambda i, row: {"start": LARGEST - 1, "end": LARGEST}, 0),
    "half end before their start": (
        lambda i, row: {"end": row["start"] - 10**6} if i % 2 else {},
        12,
    ),
    "times missing": (
        lambda i, row: [{"start": None}, {"end": None}, {}][i % 3],
        8,
    ),
}


def changed_kernels(change: Callable[[int, Row], Row]) -> nsys.Tables:
    tables = healthy_nsys()
    kernels = [row | change(i, row) for i, row in enumerate(tables[nsys.KERNEL])]
    return tables | {nsys.KERNEL: kernels}


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Database:
    """Return a database of the sound export and all others, named by what is wrong."""
    folder = tmp_path_factory.mktemp("hostile")
    files = [nsys.write(folder / "sound", healthy_nsys())]
    files += [
        nsys.write(folder / name, changed_kernels(change))
        for name, (change, _) in KERNEL_CHANGES.items()
    ]
    large = healthy_nsys()
    large[nsys.MEMCPY] = [row | {"bytes": LARGEST} for row in large[nsys.MEMCPY]]
    files.append(nsys.write(folder / "largest copies", large))
    twice = healthy_nsys()
    twice["StringIds"] = twice["StringIds"] * 2
    files.append(nsys.write(folder / "names twice", twice))
    names = nsys.write(folder / "long name, not UTF-8", healthy_nsys())
    with closing(sqlite3.connect(names)) as file, file:
        file.execute("UPDATE StringIds SET value = ? WHERE id = 1", ["L" * 5_000_000])
        file.execute("UPDATE StringIds SET value = CAST(X'ff00fe41' AS TEXT) WHERE id = 2")
    files.append(names)
    found = Database(folder / "db.duckdb")
    found.ingest(files)
    return found


def ask(database: Database, query: str) -> pl.DataFrame:
    """Return an answer about all traces, with the name of the trace's file in each row."""
    names = execute(database, Catalogue().get("trace_info")).frame.select("trace_id", file="name")
    return execute(database, Catalogue().get(query)).frame.join(names, on="trace_id")


def test_each_keeps_its_kernels_and_known_durations(database: Database) -> None:
    rows = {row["file"]: row for row in ask(database, "trace_info").to_dicts()}
    assert {row["kernels"] for row in rows.values()} == {KERNELS}
    known = dict.fromkeys(rows, KERNELS) | {
        name: count for name, (_, count) in KERNEL_CHANGES.items()
    }
    durations = {name: row["kernel_ns"] or 0 for name, row in rows.items()}
    assert durations == {name: DURATION_NS * count for name, count in known.items()}
    silent = {name for name, row in rows.items() if not row["notes"]}
    assert silent <= {"sound", "long name, not UTF-8"}  # these are names


def test_occupancy_of_impossible_sizes_is_unknown(database: Database) -> None:
    rows = ask(database, "occupancy")
    unknown = rows.filter(pl.col("theoretical_pct").is_null())["file"].unique()
    assert set(unknown) == {"sizes of zero", "largest sizes"}
    assert set(rows["file"]) > {"sound", *unknown}


def test_copies_of_impossible_sizes_have_none(database: Database) -> None:
    rows = ask(database, "memory_operations")
    sizes = {name: group["total_bytes"].sum() for (name,), group in rows.group_by("file")}
    filled = 6 * 64
    assert sizes.pop("largest copies") == filled
    assert set(sizes.values()) == {6 * (4096 + 64) + filled}


def test_deep_ranges_need_little_memory(tmp_path: Path) -> None:
    """A path of names per range would take 1 GB at a depth of 20,000."""
    depth, kernels = 20_000, 20
    tables = healthy_nsys()
    ranges = [
        nsys.nvtx(59, text=f"d{i}", start=1_000 + i, end=10_000_000 - i) for i in range(depth)
    ]
    path = nsys.write(tmp_path / "deep.sqlite", tables | {nsys.NVTX: ranges})
    command = [sys.executable, "-m", "tbd_trace", "query", "nvtx_kernels", str(path)]
    environment = {**os.environ, "TBD_TRACE_CACHE": str(tmp_path / "cache")}
    with (tmp_path / "answer.csv").open("w") as answer:
        process = subprocess.Popen([*command, "--format", "csv"], stdout=answer, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    rows = pl.read_csv(tmp_path / "answer.csv")
    assert rows["instances"].sum() >= kernels
    assert usage.ru_maxrss < 600_000  # kB
