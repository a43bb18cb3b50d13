"""Read the printed output of Nsight Compute (2019 and later).

Supported: CSV (``ncu --csv``) of the raw page, the details page and summaries, in any units, and
the console form of the details page, each from a profiled run or from ``ncu --import``.
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
from tbd_trace.model.canonical_tables import canonical_tables
from tbd_trace.sources.base import Ask, TraceDescription
from tbd_trace.sources.csv.frames import register, total_by_name
from tbd_trace.sources.csv.text import Damage, head_lines, header_fields, tables
from tbd_trace.sources.ncu import canonical_rows as rows
from tbd_trace.sources.ncu.console import is_kernel
from tbd_trace.sources.ncu.devices import devices, processes
from tbd_trace.sources.ncu.tables import DETAILS, RAW, SUMMARY, NsightComputeLayout, Part, parts

_BANNERS = ("==PROF== ", "==ERROR== ", "==WARNING== ")
_EXTRACT: dict[str, tuple[Callable[[Part], pl.DataFrame], tuple[str, ...]]] = {
    # canonical table: function that extracts its rows; kinds of tables that contain them
    "kernel": (rows.kernels, (RAW, DETAILS)),
    "kernel_metric": (rows.metrics, (RAW, DETAILS, SUMMARY)),
    "kernel_aggregate": (rows.kernel_aggregates, (SUMMARY,)),
}


class NsightComputeReader:
    """Reader of one file.

    Raises:
        InputError: the file has no results.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._damage = Damage()
        self._notes: dict[str, None] = {}
        self._kinds: set[str] = set()
        self._shared_ids = 0
        # Rows of small tables, collected from all batches by the first pass.
        self._small = {"device": pl.DataFrame(), "process": pl.DataFrame()}
        table = next(tables(path, NsightComputeLayout(), Damage()), None)
        self._console = table is None
        for part in parts(path, self._damage, console=self._console):
            self._survey(part)
        if table is None and not self._kinds:
            raise InputError(
                f"{path}: log of an Nsight Compute run without results; print them with "
                "`ncu --import REPORT.ncu-rep --csv --page raw`"
            )
        if not self._kinds:
            self._note("no kernels were profiled")
        if self._shared_ids:
            self._note(
                f"kernels with an ID that another process uses: {self._shared_ids:,}; they are "
                "separate kernels with other numbers"
            )

    def _survey(self, part: Part) -> None:
        self._kinds.add(part.kind)
        self._shared_ids += part.shared_ids
        for table, extract, key in (
            ("device", devices, "device_id"),
            ("process", processes, "process_id"),
        ):
            known = pl.concat([self._small[table], extract(part)], how="diagonal_relaxed")
            first = pl.all().drop_nulls().first()
            self._small[table] = known.group_by(key, maintain_order=True).agg(first)
        if part.kind == SUMMARY and rows.is_per_range(part):
            self._note("summary per NVTX range: a kernel counts in every range around it")

    def describe(self, ask: Ask | None = None) -> TraceDescription:
        """Return kind and notes of the file; call after the last `relation`."""
        kind = "summary" if self._kinds == {SUMMARY} else "metrics"
        return TraceDescription("ncu", kind, notes=[*self._notes, *self._damage.notes])

    def relation(self, connection: duckdb.DuckDBPyConnection, table: str) -> str | None:
        """Return a SELECT over the rows of a canonical table, None if the file lacks them."""
        if table in self._small:
            known = self._small[table]
            return register(connection, table, [known]) if known.height else None
        extract, kinds = _EXTRACT.get(table, (rows.metrics, ()))
        if self._kinds.isdisjoint(kinds):
            return None
        frames = map(partial(self._extracted, extract), self._parts())
        select = register(connection, table, frames)
        return _TOTALS[table](select) if table in _TOTALS else select

    def _parts(self) -> Iterator[Part]:
        return parts(self._path, Damage(), console=self._console)

    def _note(self, note: str) -> None:
        self._notes[note] = None

    def _extracted(self, extract: Callable[[Part], pl.DataFrame], part: Part) -> pl.DataFrame:
        frame = extract(part)
        if "total_sizes_only" in frame.columns and frame["total_sizes_only"].any():
            self._note(
                "grid and block dimensions are not printed: grid_x and block_x contain the number "
                "of blocks and of threads per block"
            )
        if "duration_ns" in frame.columns and frame["duration_ns"].has_nulls():
            self._note("kernels without duration: collect gpu__time_duration.sum with the metrics")
        return frame

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Do nothing: the file is open only during a pass."""


def _one_row_per_kernel(select: str) -> str:
    # Several batches can contain rows of the same kernel.
    names = [column.name for column in canonical_tables()["kernel"].columns]
    merged = [f"any_value({n}) AS {n}" for n in names if n not in ("trace_id", "kernel_id")]
    columns = ", ".join(["kernel_id", *merged])
    return f"SELECT {columns} FROM ({select}) GROUP BY kernel_id ORDER BY kernel_id"


_TOTALS = {"kernel": _one_row_per_kernel, "kernel_aggregate": total_by_name}


class NsightComputeCsv:
    """Source for the printed output of Nsight Compute."""

    format = "ncu-csv"

    def detect(self, path: Path, head: bytes) -> bool:
        """Return True if a line is a table header, a kernel or a message of Nsight Compute."""
        return any(
            line.startswith(_BANNERS)
            or header_fields(line, NsightComputeLayout()) is not None
            or is_kernel(line)
            for line in head_lines(head)
        )

    def open(self, path: Path) -> NsightComputeReader:
        """Open a detected file.

        Raises:
            InputError: the file has no results.
        """
        return NsightComputeReader(path)


NSIGHT_COMPUTE_CSV = NsightComputeCsv()
