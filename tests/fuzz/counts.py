"""Counts of kernels by plain readers of the standard library, to compare with those of ingest."""

from __future__ import annotations

import csv
import gzip
import json
import sqlite3
import zlib
from collections.abc import Callable, Iterable
from contextlib import closing
from fractions import Fraction
from pathlib import Path

Count = tuple[int, int]
"""Kernels, and the sum of their durations in ns."""


def nsys(path: Path) -> Count:
    """Count the rows of the kernel table of an nsys export."""
    return _rows(path, ["CUPTI_ACTIVITY_KIND_KERNEL"])


def nvprof(path: Path) -> Count:
    """Count the rows of the kernel tables of an nvprof database."""
    prefix = "CUPTI_ACTIVITY_KIND_"
    return _rows(path, [f"{prefix}KERNEL", f"{prefix}CONCURRENT_KERNEL"])


def _rows(path: Path, tables: Iterable[str]) -> Count:
    count = total = 0
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        there = {n for (n,) in database.execute("SELECT name FROM sqlite_master").fetchall()}
        for table in there.intersection(tables):
            for start, end in database.execute(f'SELECT start, "end" FROM "{table}"'):
                count += 1
                if isinstance(start, int) and isinstance(end, int):
                    total += end - start
    return count, total


def nvprof_csv(path: Path) -> Count:
    """Count the rows of a GPU trace below its header and units."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    at = next(i for i, row in enumerate(rows) if "Duration" in row)
    duration, name = rows[at].index("Duration"), rows[at].index("Name")
    scale = {"s": 10**9, "ms": 10**6, "us": 1000, "ns": 1}[rows[at + 1][duration]]
    found = [row for row in rows[at + 2 :] if row and not row[name].startswith("[")]
    return len(found), sum(round(Fraction(row[duration]) * scale) for row in found)


def kineto(path: Path) -> Count:
    """Count the complete events of the category kernel of a PyTorch trace."""
    content = path.read_bytes()
    document = json.loads(gzip.decompress(content) if path.suffix == ".gz" else content)
    kernels = [
        event
        for event in document["traceEvents"]
        if isinstance(event, dict) and event.get("cat") == "kernel" and event.get("ph") == "X"
    ]
    return len(kernels), sum(round(Fraction(event["dur"]) * 1000) for event in kernels)


COUNTS: dict[str, Callable[[Path], Count]] = {
    "nsys": nsys, "nvprof": nvprof, "nvprof-csv": nvprof_csv, "kineto": kineto,
    "kineto-gz": kineto,
}  # fmt: skip
_NOT_WELL_FORMED: tuple[type[Exception], ...] = (
    sqlite3.Error, ValueError, TypeError, KeyError, IndexError, StopIteration, EOFError, OSError,
    csv.Error, OverflowError, AttributeError, RecursionError, zlib.error,
)  # fmt: skip


def count_kernels(kind: str, path: Path) -> Count | None:
    """Return the count of a file, None where the file is damaged or has no countable kernels."""
    if kind not in COUNTS:
        return None
    try:
        return COUNTS[kind](path)
    except _NOT_WELL_FORMED:
        return None
