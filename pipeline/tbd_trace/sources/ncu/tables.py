"""The tables that Nsight Compute prints with ``--csv``."""

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

RAW: Final = "raw"  # --page raw: one row per kernel, one column per metric
DETAILS: Final = "details"  # --page details, the default: one row per kernel and metric
SUMMARY: Final = "summary"  # --print-summary: one row per kernel name and metric

_METRIC = re.compile(r"[a-z][a-z0-9_.:]*")
_WHOLE = re.compile(r"\d[\d,.]*")
_EMPTY = "No kernels were profiled"


def table_kind(header: Sequence[str]) -> str | None:
    """Return what a table holds, told by its column names; None if it is not Nsight Compute's."""
    names = set(header)
    if {"Kernel Name", "Invocations", "Metric Name", "Average"} <= names:
        return SUMMARY
    if not {"ID", "Kernel Name"} <= names:
        return None
    if {"Metric Name", "Metric Value"} <= names:
        return DETAILS
    return RAW if any("__" in name for name in metric_columns(header)) else None


def metric_columns(header: Sequence[str]) -> list[str]:
    """Return the columns of a raw page that are metrics; the others have titles with spaces."""
    return [
        name for name in header if _METRIC.fullmatch(name) or ("__" in name and " " not in name)
    ]


class _TableLayout:
    """How to recognise units and rows of one table; see ``csv_text.TableLayout``."""

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
        """Tell whether the line below the header holds the units of the columns."""
        return self._kind == RAW and not fields[self._number] and not fields[self._kernel]

    def is_row(self, fields: Fields) -> bool:
        """Tell whether a line is long enough and has a number where one belongs."""
        return len(fields) in self._widths and bool(_WHOLE.fullmatch(fields[self._number]))

    def repair(self, record: str) -> Fields | None:
        """Nsight Compute escapes quotes: there is nothing to repair."""
        return None


class NsightComputeLayout:
    """How to recognise Nsight Compute's tables; see ``csv_text.Layout``."""

    def table(self, fields: Fields) -> _TableLayout | None:
        """Return what the rows below a header look like, None if the line is no header."""
        kind = table_kind(fields)
        return _TableLayout(fields, kind) if kind else None

    def is_remark(self, line: str) -> bool:
        """Tell whether a line says that there is nothing to see."""
        return _EMPTY in line

    def ends_table(self, line: str) -> bool:
        """Progress and the program's output may stand anywhere: only a header ends a table."""
        return False


@dataclass(frozen=True, slots=True)
class Part:
    """Some rows of one table.

    Attributes:
        kind: what the table holds.
        frame: the rows as text, with the further column ``kernel_id`` unless it is a summary.
        units: printed unit by column, of a raw page.
        shared_ids: kernels among them whose ID another process uses, too.
    """

    kind: str
    frame: pl.DataFrame
    units: dict[str, str]
    shared_ids: int = 0


class _Numbers:
    """Numbers of a table's kernels: their IDs, but each process has its own.

    Args:
        first: the least number.
    """

    def __init__(self, first: int) -> None:
        self._first = first
        self._next = first
        self._numbers: dict[tuple[int | None, int | None], int] = {}
        self._taken: set[int] = set()
        self._printed: set[int] = set()

    def of(self, frame: pl.DataFrame) -> tuple[pl.Series, int]:
        """Return the number of each row's kernel, and how many new ones have another's ID.

        A row whose ID is no number has none.
        """
        keys = frame.select(
            integer(frame, "Process ID").alias("process"), integer(frame, "ID").alias("id")
        )
        new = [key for key in keys.unique(maintain_order=True).rows() if key not in self._numbers]
        shared = sum(self._add(process, printed) for process, printed in new)
        numbers = [self._numbers.get(key) for key in keys.rows()]
        return pl.Series("kernel_id", numbers, dtype=pl.Int64), shared

    def _add(self, process: int | None, printed: int | None) -> bool:
        """Number a kernel, and tell whether another process has its ID."""
        if printed is None:
            return False
        wanted = self._first + printed
        number = self._next if wanted in self._taken else wanted
        self._numbers[process, printed] = number
        self._taken.add(number)
        self._next = max(self._next, number + 1)
        is_shared = printed in self._printed
        self._printed.add(printed)
        return is_shared


def parts(path: Path, damage: Damage, *, console: bool = False) -> Iterator[Part]:
    """Read the tables of a file in batches of rows, in the order of the file.

    Args:
        path: the file.
        damage: filled in with what is no row.
        console: the file is console output, not CSV.
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
    """Prepare the rows of one table; ids continue those of the tables before it."""
    units = dict(zip(table.header, table.units, strict=False))
    numbers = _Numbers(first_kernel)
    decimal_comma: bool | None = None
    for frame in frames(table, "ID"):
        columns = _value_columns(kind, frame.columns)
        if decimal_comma is None:
            decimal_comma = any(csv_values.has_decimal_comma(frame[name]) for name in columns)
        if decimal_comma:
            points = [csv_values.with_decimal_point(pl.col(name)).alias(name) for name in columns]
            frame = frame.with_columns(points)  # noqa: PLW2901
        shared = 0
        if kind != SUMMARY:
            ids, shared = numbers.of(frame)
            frame = frame.with_columns(ids)  # noqa: PLW2901
        yield Part(kind, frame, units, shared)


def _value_columns(kind: str, header: Sequence[str]) -> list[str]:
    if kind == RAW:
        return metric_columns(header)
    return [name for name in ("Metric Value", "Minimum", "Maximum", "Average") if name in header]
