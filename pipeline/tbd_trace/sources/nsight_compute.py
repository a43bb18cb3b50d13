"""Nsight Compute's printed output: CSV of the raw page, the details page and summaries; console.

``ncu --csv`` with ``--page raw`` or ``details``, ``--metrics``, ``--print-summary``, with and
without ``--print-units base``, from versions 2019 on, printed by the profiled run itself or with
``ncu --import``; and the console form of the details page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

import duckdb
import polars as pl

from tbd_trace.errors import InputError
from tbd_trace.schema import canonical_tables
from tbd_trace.sources import nsight_compute_rows as rows
from tbd_trace.sources.base import TraceDescription
from tbd_trace.sources.csv_frames import register, total_by_name
from tbd_trace.sources.csv_text import Damage, head_lines, split, tables
from tbd_trace.sources.nsight_compute_console import is_kernel
from tbd_trace.sources.nsight_compute_devices import devices, processes
from tbd_trace.sources.nsight_compute_tables import (
    SUMMARY,
    NsightComputeLayout,
    Part,
    parts,
    table_kind,
)

_BANNERS = ("==PROF== ", "==ERROR== ", "==WARNING== ")
_EXTRACT: dict[str, tuple[Callable[[Part], pl.DataFrame], str]] = {
    # canonical table: how to get its rows; the key by which rows of several batches are one
    "kernel": (rows.kernels, "kernel_id"),
    "kernel_metric": (rows.metrics, ""),
    "kernel_aggregate": (rows.kernel_aggregates, ""),
    "device": (devices, "device_id"),
    "process": (processes, "process_id"),
}


class NsightComputeReader:
    """One open file of Nsight Compute's printed output.

    Args:
        path: the file.

    Raises:
        InputError: it holds no results.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._damage = Damage()
        self._notes: dict[str, None] = {}
        table = next(tables(path, NsightComputeLayout(), Damage()), None)
        self._console = table is None
        self._kind = SUMMARY if table and table_kind(table.header) == SUMMARY else "metrics"
        if table is not None and not table.header:
            self._note("no kernels were profiled")
        elif next(self._parts(), None) is None:
            self._nothing(path, is_csv=table is not None)

    def _nothing(self, path: Path, *, is_csv: bool) -> None:
        if not is_csv:
            raise InputError(
                f"{path}: the log of an Nsight Compute run without its results; print them with "
                "`ncu --import REPORT.ncu-rep --csv --page raw`"
            )
        self._note("no kernels were profiled")

    def describe(self) -> TraceDescription:
        """Return what the file says about itself; called after the last ``relation``."""
        return TraceDescription("ncu", self._kind, notes=[*self._notes, *self._damage.notes])

    def relation(self, connection: duckdb.DuckDBPyConnection, table: str) -> str | None:
        """Return a SELECT over the rows of one canonical table, None if the file lacks them."""
        if table not in _EXTRACT:
            return None
        extract, key = _EXTRACT[table]
        select = register(connection, table, map(partial(self._extracted, extract), self._parts()))
        if table == "kernel_aggregate":
            return total_by_name(select)
        return _merged(table, select, key) if key else select

    def _parts(self) -> Iterator[Part]:
        self._damage = Damage()
        return parts(self._path, self._damage, console=self._console)

    def _note(self, note: str) -> None:
        self._notes[note] = None

    def _extracted(self, extract: Callable[[Part], pl.DataFrame], part: Part) -> pl.DataFrame:
        """Extract rows and note what a user of them should know."""
        frame = extract(part)
        if "total_sizes_only" in frame.columns and frame["total_sizes_only"].any():
            self._note(
                "shapes of grids and blocks are not printed: grid_x and block_x hold the number of "
                "blocks and of threads per block"
            )
        if "duration_ns" in frame.columns and frame["duration_ns"].has_nulls():
            self._note("kernels without duration: collect gpu__time_duration.sum with the metrics")
        if part.kind == SUMMARY and rows.is_per_range(part):
            self._note("summary per NVTX range: a kernel counts in every range around it")
        return frame

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Nothing stays open between reads."""


def _merged(table: str, select: str, key: str) -> str:
    """Return a SELECT with one row per key: the first value that is not NULL of every column."""
    columns = [column.name for column in canonical_tables()[table].columns]
    merged = [f"any_value({name}) AS {name}" for name in columns if name not in ("trace_id", key)]
    return f"SELECT {key}, {', '.join(merged)} FROM ({select}) GROUP BY {key} ORDER BY {key}"


class NsightComputeCsv:
    """The format: what Nsight Compute prints."""

    format = "ncu-csv"

    def detect(self, path: Path, head: bytes) -> bool:
        """Tell from a table's column names, the line of a kernel, or Nsight Compute's own lines."""
        return any(
            line.startswith(_BANNERS)
            or ("," in line and (table_kind(split(line)) is not None or is_kernel(line)))
            for line in head_lines(head)
        )

    def open(self, path: Path) -> NsightComputeReader:
        """Open a detected file.

        Raises:
            InputError: it holds no results.
        """
        return NsightComputeReader(path)


NSIGHT_COMPUTE_CSV = NsightComputeCsv()
