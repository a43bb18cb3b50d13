"""Find and read the tables that Nsight Compute prints with ``--csv``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import polars as pl

from tbd_trace.sources.csv import values as csv_values
from tbd_trace.sources.csv.frames import frames, integer
from tbd_trace.sources.csv.text import Damage, Fields, Table, tables
from tbd_trace.sources.ncu.console import console_tables

# Kinds of tables.
RAW: Final = "raw"  # --page raw: one row per kernel, one column per metric
DETAILS: Final = "details"  # --page details, the default: one row per kernel and metric
SUMMARY: Final = "summary"  # --print-summary: one row per kernel name and metric

_METRIC = re.compile(r"[a-z][a-z0-9_.:]*")
_WHOLE = re.compile(r"\d[\d,.]*")
_EMPTY = "No kernels were profiled"


def table_kind(header: Sequence[str]) -> str | None:
    """Return the kind of a table from its column names, None if another tool printed it."""
    names = set(header)
    if {"Kernel Name", "Invocations", "Metric Name", "Average"} <= names:
        return SUMMARY
    if not {"ID", "Kernel Name"} <= names:
        return None
    if {"Metric Name", "Metric Value"} <= names:
        return DETAILS
    return RAW if any("__" in name for name in metric_columns(header)) else None


def metric_columns(header: Sequence[str]) -> list[str]:
    """Return the metric columns of a raw page."""
    # The other columns have titles with spaces or capitals.
    return [
        name for name in header if _METRIC.fullmatch(name) or ("__" in name and " " not in name)
    ]


class _TableLayout:
    """Implementation of `TableLayout`."""

    def __init__(self, header: Fields, kind: str) -> None:
        number, last = {
            RAW: ("ID", header[-1]),
            DETAILS: ("ID", "Metric Value"),
            SUMMARY: ("Invocations", "Average"),
        }[kind]
        self._kind = kind
        self._number, self._kernel = header.index(number), header.index("Kernel Name")
        # Rows of the details page are shorter than their header; some rows end with a comma.
        self._widths = range(header.index(last) + 1, len(header) + 2)

    def is_units(self, fields: Fields) -> bool:
        return self._kind == RAW and not fields[self._number] and not fields[self._kernel]

    def is_row(self, fields: Fields) -> bool:
        return len(fields) in self._widths and bool(_WHOLE.fullmatch(fields[self._number]))

    def repair(self, record: str) -> Fields | None:
        return None  # Nsight Compute escapes quotes


class NsightComputeLayout:
    """Layout of Nsight Compute's tables; see `csv.text.Layout`."""

    def table(self, fields: Fields) -> _TableLayout | None:
        """Return the format of the rows below a header, None if the line is not a header."""
        kind = table_kind(fields)
        return _TableLayout(fields, kind) if kind else None

    def is_message(self, line: str) -> bool:
        """Return True if a line reports that no kernels were profiled."""
        return _EMPTY in line

    def ends_table(self, line: str) -> bool:
        """Return False: progress and program output can be inside a table."""
        return False


@dataclass(frozen=True, slots=True)
class Part:
    """Batch of rows of one table."""

    kind: str  # kind of the table
    frame: pl.DataFrame  # rows as text and, except for summaries, the column ``kernel_id``
    units: dict[str, str]  # printed unit by column; only raw pages have them
    shared_ids: int = 0  # kernels whose ID a kernel of another process also has


class _KernelNumbers:
    # Each profiled process numbers its own kernels, so IDs can repeat in a file. The first kernel
    # with an ID keeps it as its number; the others get numbers above all known ones.

    def __init__(self, first: int) -> None:
        self._first = first
        self._next = first
        self._numbers: dict[tuple[int | None, int | None], int] = {}
        self._used_numbers: set[int] = set()
        self._used_ids: set[int] = set()

    def number_rows(self, frame: pl.DataFrame) -> tuple[pl.Series, int]:
        # Returns the kernel number of each row and the number of kernels with a shared ID.
        keys = frame.select(
            integer(frame, "Process ID").alias("process"), integer(frame, "ID").alias("id")
        )
        new = [key for key in keys.unique(maintain_order=True).rows() if key not in self._numbers]
        shared = sum(self._add(process, kernel_id) for process, kernel_id in new)
        numbers = [self._numbers.get(key) for key in keys.rows()]
        return pl.Series("kernel_id", numbers, dtype=pl.Int64), shared

    def _add(self, process: int | None, kernel_id: int | None) -> bool:
        if kernel_id is None:
            return False
        wanted = self._first + kernel_id
        number = self._next if wanted in self._used_numbers else wanted
        self._numbers[process, kernel_id] = number
        self._used_numbers.add(number)
        self._next = max(self._next, number + 1)
        is_shared = kernel_id in self._used_ids
        self._used_ids.add(kernel_id)
        return is_shared


def parts(path: Path, damage: Damage, *, console: bool = False) -> Iterator[Part]:
    """Yield the rows of all tables of a file in batches.

    Args:
        console: the file is console output instead of CSV.
    """
    first = 0
    layout = NsightComputeLayout()
    for table in console_tables(path, damage) if console else tables(path, layout, damage):
        kind = table_kind(table.header)
        following = first
        for part in _parts(table, kind, first) if kind else ():
            yield part
            if "kernel_id" in part.frame.columns:
                following = max(following, int(part.frame["kernel_id"].max() or 0) + 1)  # type: ignore[arg-type]
        first = following


def _parts(table: Table, kind: str, first_kernel: int) -> Iterator[Part]:
    units = dict(zip(table.header, table.units, strict=False))
    numbers = _KernelNumbers(first_kernel)
    decimal_comma: bool | None = None  # decided by the first batch
    for frame in frames(table, "ID"):
        columns = _value_columns(kind, frame.columns)
        if decimal_comma is None:
            decimal_comma = any(csv_values.has_decimal_comma(frame[name]) for name in columns)
        if decimal_comma:
            points = [csv_values.with_decimal_point(pl.col(name)).alias(name) for name in columns]
            frame = frame.with_columns(points)  # noqa: PLW2901
        shared = 0
        if kind != SUMMARY:
            ids, shared = numbers.number_rows(frame)
            frame = frame.with_columns(ids)  # noqa: PLW2901
        yield Part(kind, frame, units, shared)


def _value_columns(kind: str, header: Sequence[str]) -> list[str]:
    if kind == RAW:
        return metric_columns(header)
    return [name for name in ("Metric Value", "Minimum", "Maximum", "Average") if name in header]
