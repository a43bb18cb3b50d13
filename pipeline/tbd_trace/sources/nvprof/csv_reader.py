"""Read nvprof's CSV output: traces, metrics per kernel, and summaries.

Supported: ``--print-gpu-trace``, ``--print-api-trace``, ``--metrics``, ``--events``,
``--analysis-metrics`` and the default summary, of a run or an imported profile.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Self

import duckdb
import polars as pl

from tbd_trace.errors import InputError
from tbd_trace.sources.base import Ask, TraceDescription
from tbd_trace.sources.csv.frames import numbered, register, total_by_name
from tbd_trace.sources.csv.text import Damage, head_lines, header_fields
from tbd_trace.sources.csv.values import NVPROF_UNITS
from tbd_trace.sources.nvprof import csv_canonical_rows as rows
from tbd_trace.sources.nvprof.csv_metrics import metrics
from tbd_trace.sources.nvprof.csv_nvtx import Nvtx
from tbd_trace.sources.nvprof.csv_tables import (
    METRIC_TRACE,
    SUMMARY,
    TRACE,
    NvprofLayout,
    Part,
    Run,
    devices,
    parts,
)

_BANNER = re.compile(r"==(?:\d+|====)== (?:NVPROF is profiling process|Profiling result:)")

_NO_KERNELS = "this output holds no kernels"
_EXTRACT: dict[str, tuple[str, Callable[[Part], pl.DataFrame]]] = {
    # canonical table: content that it needs (see _Survey), function that extracts its rows
    "kernel": ("kernel", rows.kernels),
    "memcpy": ("memcpy", rows.memcpys),
    "memset": ("memset", rows.memsets),
    "api_call": ("api call", rows.api_calls),
    "kernel_metric": ("metric", metrics),
    "kernel_aggregate": ("aggregate", rows.kernel_aggregates),
}


@dataclass(slots=True)
class _Survey:
    # Results of the first pass over a file.

    kinds: set[str] = field(default_factory=set)  # kinds of tables
    # Number of rows by activity of a trace, and of rows of metrics and aggregates.
    content: Counter[str] = field(default_factory=Counter)
    devices: dict[int, str] = field(default_factory=dict)  # product name by device number
    processes: set[int] = field(default_factory=set)
    end_ns: int = 0  # end of the last activity
    step_ns: float = 0.0  # precision of the printed times
    rounded_sizes: bool = False  # sizes are printed in steps of more than a byte
    impossible: int = 0  # times and sizes of at least 2^62

    def add(self, part: Part) -> None:
        self.kinds.add(part.kind)
        printed = part.frame["Device"].unique().to_list() if "Device" in part.frame.columns else []
        for text in (*printed, part.device or ""):
            self.devices.update(devices(text))
        if part.process_id is not None:
            self.processes.add(part.process_id)
        for column in {"Start", "Time"} & part.units.keys():
            step = NVPROF_UNITS[part.units[column]].factor * rows.PRINTED_STEP
            self.step_ns = max(self.step_ns, step)
        self.impossible += rows.count_impossible(part)
        if part.kind == TRACE:
            self._add_trace(part)
        elif part.kind == SUMMARY:
            self.content["aggregate"] += rows.kernel_aggregates(part).height
        else:
            self.content["metric"] += part.frame.height
            self.content["kernel"] += part.kernels

    def _add_trace(self, part: Part) -> None:
        self.content.update(part.frame["activity"].to_list())
        end = rows.scaled(part, "Start") + rows.scaled(part, "Duration").fill_null(0)
        self.end_ns = max(self.end_ns, part.frame.select(end.max()).item() or 0)
        self.rounded_sizes |= part.units.get("Size", "")[:1] in ("G", "T")

    @property
    def kind(self) -> str:
        if METRIC_TRACE in self.kinds:
            return "metrics"
        return "timeline" if TRACE in self.kinds or not self.kinds else "summary"

    @property
    def notes(self) -> list[str]:
        content, step = self.content, self.step_ns
        notes = [
            (not (content["kernel"] or content["aggregate"] or content["metric"]), _NO_KERNELS),
            (
                step > 1,
                f"times are printed in steps of {step:.0f} ns, which limits their precision",
            ),
            (self.rounded_sizes, "sizes of copies and fills are printed in steps of a kilobyte"),
            (
                content["range start"] > 0,
                "nvprof prints no threads: NVTX ranges are paired by name, last opened first",
            ),
            (
                content["other"] > 0,
                f"{content['other']} rows of other kinds (such as page faults) were not kept",
            ),
            (
                len(self.processes) > 1,
                "each process counts time from its own start: do not compare times across them",
            ),
            (
                self.impossible > 0,
                f"implausible times or sizes: {self.impossible:,}; left out",
            ),
            (METRIC_TRACE in self.kinds, "the durations of kernels are not printed with metrics"),
            (SUMMARY in self.kinds, "only the totals of kernels are read from a summary"),
        ]
        return [note for holds, note in notes if holds]


class NvprofCsvReader:
    """Reader of one file.

    Raises:
        InputError: the file has no CSV table, or times without a unit.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._damage = Damage()
        self._run = Run()
        self._nvtx = Nvtx()
        self._survey = _Survey()
        for part in parts(path, self._damage, self._run):
            self._survey.add(part)
        if not self._survey.kinds and self._damage.too_long:
            raise InputError(
                f"{path}: rows are longer than the header because of unquoted decimal commas; "
                "print the profile again with LC_ALL=C nvprof --csv --log-file FILE"
            )
        if not self._survey.kinds and not self._run.empty:
            raise InputError(
                f"{path}: messages of nvprof without a CSV table; "
                "print the profile again with nvprof --csv --log-file FILE"
            )

    def describe(self, ask: Ask | None = None) -> TraceDescription:
        """Return kind and notes of the file; call after the last `relation`."""
        notes = self._survey.notes + self._damage.notes
        if self._nvtx.unmatched:
            notes.append(f"{self._nvtx.unmatched} NVTX range ends without a start were dropped")
        return TraceDescription(tool="nvprof", kind=self._survey.kind, notes=notes)

    def relation(self, connection: duckdb.DuckDBPyConnection, table: str) -> str | None:
        """Return a SELECT over the rows of a canonical table, None if the file lacks them."""
        frames = self._frames(table)
        if frames is None:
            return None
        select = register(connection, table, frames)
        return total_by_name(select) if table == "kernel_aggregate" else select

    def _frames(self, table: str) -> Iterator[pl.DataFrame] | None:
        content = self._survey.content
        if table == "device":
            return self._devices()
        if table == "process":
            return self._processes()
        if table == "annotation":
            return self._annotations()
        needs, extract = _EXTRACT.get(table, ("", rows.kernels))
        if not content[needs]:
            return None
        return numbered(table, map(extract, self._parts()))

    def _annotations(self) -> Iterator[pl.DataFrame] | None:
        content = self._survey.content
        if not (content["range start"] or content["mark"]):
            return None
        ranges = self._nvtx.ranges(self._parts(), self._survey.end_ns)
        return chain(
            ranges if content["range start"] else (),
            self._nvtx.marks(self._parts()) if content["mark"] else (),
        )

    def _parts(self) -> Iterator[Part]:
        return parts(self._path, Damage(), Run())

    def _devices(self) -> Iterator[pl.DataFrame] | None:
        devices = sorted(self._survey.devices.items())
        schema = {"device_id": pl.Int64, "name": pl.String}
        return iter([pl.DataFrame(devices, schema=schema, orient="row")]) if devices else None

    def _processes(self) -> Iterator[pl.DataFrame] | None:
        processes = [
            {"process_id": pid, "pid": pid, "name": self._run.commands.get(pid)}
            for pid in sorted(self._survey.processes)
        ]
        schema = {"process_id": pl.Int64, "pid": pl.Int64, "name": pl.String}
        return iter([pl.DataFrame(processes, schema=schema)]) if processes else None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Do nothing: the file is open only during a pass."""


class NvprofCsv:
    """Source for CSV printed by nvprof."""

    format = "nvprof-csv"

    def detect(self, path: Path, head: bytes) -> bool:
        """Return True if a line is a table header or a message of nvprof."""
        return any(
            _BANNER.match(line) or header_fields(line, NvprofLayout()) is not None
            for line in head_lines(head)
        )

    def open(self, path: Path) -> NvprofCsvReader:
        """Open a detected file.

        Raises:
            InputError: the file has no CSV table, or times without a unit.
        """
        return NvprofCsvReader(path)


NVPROF_CSV = NvprofCsv()
