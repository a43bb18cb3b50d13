"""The tables that nvprof prints with ``--csv``, and what stands around them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Final

import polars as pl

from tbd_trace.errors import InputError
from tbd_trace.sources.csv.frames import frames
from tbd_trace.sources.csv.text import Damage, Fields, split, tables
from tbd_trace.sources.csv.values import NVPROF_UNITS, Unit, separators_as_in_c

TRACE: Final = "trace"  # --print-gpu-trace, --print-api-trace: one row per activity
METRIC_TRACE: Final = "metric trace"  # the same with --metrics or --events: a column per metric
METRIC_SUMMARY: Final = "metric summary"  # a row per kernel name and metric
SUMMARY: Final = "summary"  # a row per kernel name: calls and total time

_AVERAGES = ["Min", "Max", "Avg"]
_SUMMARY_COLUMNS = {"Time(%)", "Time", "Calls", "Avg", "Min", "Max", "Name"}
_DEVICE = re.compile(r"(.+?) \((\d+)\)(?:, |$)")
_NUMBER = re.compile(r"[-+]?[\d.,]+(?:e[-+]?\d+)?")
_UNIT = re.compile(r"[A-Za-z%]{0,4}(?:/s)?")

_MEMCPY = r"^\[(?:CUDA memcpy|Unified Memory Memcpy) "

_REMARK = re.compile(r"==(?P<pid>\d+|====)== (?P<said>.*)")
_EMPTY = "No kernels were profiled."
_PROCESS = re.compile(r"NVPROF is profiling process (\d+), command: (.*)")
_SECTION = re.compile(r"(?!Warning|Error|Profiling application)(\w[^:]*):$")
_DEVICE_SECTION = re.compile(r'Device "(.+)"$')
_NVTX_SECTION = re.compile(r" +(?:Thread|Domain|Range) ")


def table_kind(header: Sequence[str]) -> str | None:
    """Return what a table holds, told by its column names; None if it is none of nvprof's."""
    names = set(header)
    if {"Start", "Duration", "Name"} <= names:
        known = "Grid X" in names or "Correlation_ID" in names
        return TRACE if known or list(header) == ["Start", "Duration", "Name"] else None
    if {"Kernel", "Invocations", "Avg"} <= names:
        return METRIC_SUMMARY if names & {"Metric Name", "Event Name"} else None
    if {"Device", "Context", "Stream", "Kernel"} <= names:
        return METRIC_TRACE
    return SUMMARY if names >= _SUMMARY_COLUMNS else None


class _TableLayout:
    """How to recognise units and rows of one table; see ``csv_text.TableLayout``."""

    def __init__(self, header: Fields, kind: str) -> None:
        self._width = len(header)
        leading = {TRACE: "Start", SUMMARY: "Time(%)", METRIC_TRACE: "Device"}
        self._leading = header.index(leading.get(kind, "Invocations"))
        self._value = _DEVICE if kind == METRIC_TRACE else _NUMBER
        self._free_text = _with_free_text(header)

    def is_units(self, fields: Fields) -> bool:
        """Tell whether the line below the header holds the units of the columns."""
        return all(_UNIT.fullmatch(unit) for unit in fields)

    def is_row(self, fields: Fields) -> bool:
        """Tell whether a line is as long as the header, with a value where one belongs."""
        return len(fields) == self._width and bool(self._value.fullmatch(fields[self._leading]))

    def repair(self, record: str) -> Fields | None:
        """Return the fields of a row whose name holds quotes: nvprof does not escape them."""
        match = self._free_text.fullmatch(record)
        # A name that spans several fields: the row has more of them than the header.
        if not match or '","' in match["name"]:
            return None
        fields = [*split(match["before"])[:-1], match["name"], *split(match["after"])[1:]]
        return fields if self.is_row(fields) else None


def _with_free_text(header: Fields) -> re.Pattern[str]:
    """Return the pattern of a row in which only the name may hold quotes and line breaks."""
    name = header.index("Name") if "Name" in header else header.index("Kernel")
    cell = r'(?:"[^"]*"|[^",\n]*)'
    before = "".join([cell, ","] * name)
    after = rf"(?:,{cell}){{{len(header) - name - 1}}}"
    return re.compile(rf'(?P<before>{before})"(?P<name>.*)"(?P<after>{after})', re.DOTALL)


class NvprofLayout:
    """How to recognise nvprof's tables; see ``csv_text.Layout``."""

    def table(self, fields: Fields) -> _TableLayout | None:
        """Return what the rows below a header look like, None if the line is no header."""
        kind = table_kind(fields)
        return _TableLayout(fields, kind) if kind else None

    def is_remark(self, line: str) -> bool:
        """Tell whether a line outside tables is nvprof's own."""
        return _REMARK.match(line) is not None or line.startswith(_EMPTY)

    def ends_table(self, line: str) -> bool:
        """Tell whether a new section begins."""
        remark = _REMARK.match(line)
        titles = (_SECTION, _DEVICE_SECTION, _NVTX_SECTION)
        return remark is not None and any(title.match(remark["said"].rstrip()) for title in titles)


@dataclass(slots=True)
class Run:
    """What nvprof's own lines say about the table that follows, and about the whole file.

    Attributes:
        process_id: process that the table is about, None in output of an imported profile.
        section: title of the section, such as ``Metric result``.
        device: device of a section of ``--print-summary-per-gpu``.
        commands: executable by process id.
        empty: nvprof said that it saw no kernels.
    """

    process_id: int | None = None
    section: str | None = None
    device: str | None = None
    commands: dict[int, str] = field(default_factory=dict)
    empty: bool = False

    def read(self, remarks: Sequence[str]) -> None:
        """Take in nvprof's lines before a table."""
        for line in remarks:
            remark = _REMARK.match(line)
            if remark is None:
                self.empty = True
                continue
            self.process_id = int(remark["pid"]) if remark["pid"].isdigit() else None
            said = remark["said"].rstrip()
            if process := _PROCESS.match(said):
                words = process[2].split()
                self.commands[int(process[1])] = PurePosixPath(words[0]).name if words else ""
            elif section := _SECTION.match(said):
                self.section, self.device = section[1], None
            elif device := _DEVICE_SECTION.match(said):
                self.device = device[1]

    def repeats(self, kind: str) -> bool:
        """Tell whether a table shows again, in parts, what another one holds.

        The sections of NVTX ranges list the kernels of each range once more, and in versions
        without a ``Type`` column the API calls look like kernels but for their section's title.
        """
        if kind == SUMMARY:
            return self.section not in (None, "Profiling result")
        return self.section == "NVTX result"


@dataclass(frozen=True, slots=True)
class Part:
    """Some rows of one table.

    Attributes:
        kind: what the table holds.
        frame: the rows as text; a trace has the further column ``activity``.
        units: printed unit by column.
        process_id: process, None when the file does not say.
        device: device that the whole table is about, None when the rows say.
        first_kernel: number of kernels before these rows.
    """

    kind: str
    frame: pl.DataFrame
    units: dict[str, str]
    process_id: int | None
    device: str | None
    first_kernel: int

    @property
    def kernels(self) -> int:
        """Number of kernels in these rows."""
        if self.kind == TRACE:
            return int((self.frame["activity"] == "kernel").sum())
        return self.frame.height if self.kind == METRIC_TRACE else 0


def parts(path: Path, damage: Damage, run: Run) -> Iterator[Part]:
    """Read the tables of a file in batches of rows, in the order of the file.

    Args:
        path: the file.
        damage: filled in with what is no row.
        run: filled in with what nvprof's own lines say.

    Raises:
        InputError: a table of times does not say their unit.
    """
    kernels = 0
    for table in tables(path, NvprofLayout(), damage):
        run.read(table.remarks)
        kind = table_kind(table.header)
        if kind is None or run.repeats(kind):
            continue
        units = dict(zip(table.header, table.units, strict=False))
        _require_time_units(path, table.header, units)
        points: dict[str, pl.Expr] | None = None
        for frame in frames(table):
            if points is None:
                points = separators_as_in_c([frame[name] for name in _numbers(kind, frame)])
            frame = frame.with_columns(**points)  # noqa: PLW2901
            if kind == TRACE:
                frame = frame.with_columns(activity=_activity(table.header))  # noqa: PLW2901
            part = Part(kind, frame, units, run.process_id, run.device, kernels)
            kernels += part.kernels
            yield part


def _numbers(kind: str, frame: pl.DataFrame) -> list[str]:
    """Return the columns of a table that hold numbers which may have decimals.

    In a summary of metrics those of several units are lists, separated by commas.
    """
    if kind == METRIC_SUMMARY:
        titles = frame["Metric Name" if "Metric Name" in frame.columns else "Event Name"]
        return [] if titles.str.contains(" instances)", literal=True).any() else _AVERAGES
    texts = {"Name", "Kernel", "Device", "Type", "Context", "Stream", "Correlation_ID"}
    return [name for name in frame.columns if name not in texts and " Dev" not in name]


def devices(printed: str) -> list[tuple[int, str]]:
    """Return number and name of the devices in a text such as ``TITAN V (0), TITAN V (1)``."""
    return [(int(number), name) for name, number in _DEVICE.findall(printed)]


def _require_time_units(path: Path, header: Sequence[str], units: dict[str, str]) -> None:
    for column in ("Start", "Duration", "Time"):
        if column in header and NVPROF_UNITS.get(units.get(column, ""), Unit(1, None)).name != "ns":
            raise InputError(
                f"{path}: the row of units below the header is missing, so times cannot be read; "
                "print the profile again with nvprof --csv"
            )


def _activity(header: Sequence[str]) -> pl.Expr:
    """Return what each row of a trace is: kernel, memcpy, memset, API call, NVTX or other."""
    name = pl.col("Name")
    launched = pl.col("Grid X") != "" if "Grid X" in header else pl.lit(False)
    return (
        pl.when(name.str.starts_with("[Range start] ")).then(pl.lit("range start"))
        .when(name.str.starts_with("[Range end] ")).then(pl.lit("range end"))
        .when(name.str.starts_with("[Marker] ")).then(pl.lit("mark"))
        .when(name.str.contains(_MEMCPY)).then(pl.lit("memcpy"))
        .when(name.str.starts_with("[CUDA memset")).then(pl.lit("memset"))
        .when(name.str.starts_with("[")).then(pl.lit("other"))
        .when(launched).then(pl.lit("kernel"))
        .when(name.str.contains(r"^(?:cu|pthread_)")).then(pl.lit("api call"))
        .otherwise(pl.lit("other"))
    )  # fmt: skip
