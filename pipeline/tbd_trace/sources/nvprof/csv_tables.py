"""Find and read the tables that nvprof prints with ``--csv``, and the messages around them."""

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
from tbd_trace.sources.csv.values import NVPROF_UNITS, Unit, decimal_point_conversions

# Kinds of tables.
TRACE: Final = "trace"  # --print-gpu-trace, --print-api-trace: one row per activity
METRIC_TRACE: Final = "metric trace"  # with --metrics or --events: one column per metric
METRIC_SUMMARY: Final = "metric summary"  # one row per kernel name and metric
SUMMARY: Final = "summary"  # one row per kernel name: calls and total time

_AVERAGES = ["Min", "Max", "Avg"]
_SUMMARY_COLUMNS = {"Time(%)", "Time", "Calls", "Avg", "Min", "Max", "Name"}
_DEVICE = re.compile(r"(.+?) \((\d+)\)(?:, |$)")
_NUMBER = re.compile(r"[-+]?[\d.,]+(?:e[-+]?\d+)?")
_UNIT = re.compile(r"[A-Za-z%]{0,4}(?:/s)?")

_MEMCPY = r"^\[(?:CUDA memcpy|Unified Memory Memcpy) "

# Messages begin with ==PID==, or with ======== for an imported profile.
_MESSAGE = re.compile(r"==(?P<pid>\d+|====)== (?P<text>.*)")
_EMPTY = "No kernels were profiled."
_PROCESS = re.compile(r"NVPROF is profiling process (\d+), command: (.*)")
_SECTION = re.compile(r"(?!Warning|Error|Profiling application)(\w[^:]*):$")
_DEVICE_SECTION = re.compile(r'Device "(.+)"$')
_NVTX_SECTION = re.compile(r" +(?:Thread|Domain|Range) ")


def table_kind(header: Sequence[str]) -> str | None:
    """Return the kind of a table from its column names, None if another tool printed it."""
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
    """Implementation of `TableLayout`."""

    def __init__(self, header: Fields, kind: str) -> None:
        self._width = len(header)
        leading = {TRACE: "Start", SUMMARY: "Time(%)", METRIC_TRACE: "Device"}
        self._leading = header.index(leading.get(kind, "Invocations"))
        self._value = _DEVICE if kind == METRIC_TRACE else _NUMBER
        self._free_text = _with_free_text(header)

    def is_units(self, fields: Fields) -> bool:
        return all(_UNIT.fullmatch(unit) for unit in fields)

    def is_row(self, fields: Fields) -> bool:
        return len(fields) == self._width and bool(self._value.fullmatch(fields[self._leading]))

    def repair(self, record: str) -> Fields | None:
        # nvprof does not escape quotes in names.
        match = self._free_text.fullmatch(record)
        # '","' in the name means that the row has more fields than the header.
        if not match or '","' in match["name"]:
            return None
        fields = [*split(match["before"])[:-1], match["name"], *split(match["after"])[1:]]
        return fields if self.is_row(fields) else None


def _with_free_text(header: Fields) -> re.Pattern[str]:
    # Pattern of a row in which only the name can contain quotes and line breaks.
    name = header.index("Name") if "Name" in header else header.index("Kernel")
    cell = r'(?:"[^"]*"|[^",\n]*)'
    before = "".join([cell, ","] * name)
    after = rf"(?:,{cell}){{{len(header) - name - 1}}}"
    return re.compile(rf'(?P<before>{before})"(?P<name>.*)"(?P<after>{after})', re.DOTALL)


class NvprofLayout:
    """Layout of nvprof's tables; see `csv.text.Layout`."""

    def table(self, fields: Fields) -> _TableLayout | None:
        """Return the format of the rows below a header, None if the line is not a header."""
        kind = table_kind(fields)
        return _TableLayout(fields, kind) if kind else None

    def is_message(self, line: str) -> bool:
        """Return True if a line outside tables is a message of nvprof."""
        return _MESSAGE.match(line) is not None or line.startswith(_EMPTY)

    def ends_table(self, line: str) -> bool:
        message = _MESSAGE.match(line)
        titles = (_SECTION, _DEVICE_SECTION, _NVTX_SECTION)
        return message is not None and any(
            title.match(message["text"].rstrip()) for title in titles
        )


@dataclass(slots=True)
class Run:
    """Content of nvprof's messages: about the whole file, and about the next table."""

    process_id: int | None = None  # of the next table; None for an imported profile
    section: str | None = None  # title of the section, such as ``Metric result``
    device: str | None = None  # of a section of ``--print-summary-per-gpu``
    commands: dict[int, str] = field(default_factory=dict)  # executable by process id
    empty: bool = False  # nvprof reported that no kernels were profiled

    def read(self, messages: Sequence[str]) -> None:
        for line in messages:
            message = _MESSAGE.match(line)
            if message is None:
                self.empty = True
                continue
            self.process_id = int(message["pid"]) if message["pid"].isdigit() else None
            text = message["text"].rstrip()
            if process := _PROCESS.match(text):
                # Only the name of the executable: paths and arguments can be private.
                words = process[2].split()
                self.commands[int(process[1])] = PurePosixPath(words[0]).name if words else ""
            elif section := _SECTION.match(text):
                self.section, self.device = section[1], None
            elif device := _DEVICE_SECTION.match(text):
                self.device = device[1]

    def repeats(self, kind: str) -> bool:
        # Sections of NVTX ranges list the kernels of each range again. In versions without a
        # ``Type`` column, only the title of the section distinguishes API calls from kernels.
        if kind == SUMMARY:
            return self.section not in (None, "Profiling result")
        return self.section == "NVTX result"


@dataclass(frozen=True, slots=True)
class Part:
    """Batch of rows of one table."""

    kind: str  # kind of the table
    frame: pl.DataFrame  # rows as text and, for a trace, the column ``activity``
    units: dict[str, str]  # printed unit by column
    process_id: int | None  # None if unknown
    device: str | None  # device of the whole table; None if the rows name it
    first_kernel: int  # number of kernels before these rows

    @property
    def kernels(self) -> int:
        if self.kind == TRACE:
            return int((self.frame["activity"] == "kernel").sum())
        return self.frame.height if self.kind == METRIC_TRACE else 0


def parts(path: Path, damage: Damage, run: Run) -> Iterator[Part]:
    """Yield the rows of all tables of a file in batches.

    Args:
        run: receives the content of nvprof's messages.

    Raises:
        InputError: a table of times has no row of units.
    """
    kernels = 0
    for table in tables(path, NvprofLayout(), damage):
        run.read(table.messages)
        kind = table_kind(table.header)
        if kind is None or run.repeats(kind):
            continue
        units = dict(zip(table.header, table.units, strict=False))
        _require_time_units(path, table.header, units)
        points: dict[str, pl.Expr] | None = None
        for frame in frames(table):
            if points is None:
                points = decimal_point_conversions([frame[name] for name in _decimals(kind, frame)])
            frame = frame.with_columns(**points)  # noqa: PLW2901
            if kind == TRACE:
                frame = frame.with_columns(activity=_activity(table.header))  # noqa: PLW2901
            part = Part(kind, frame, units, run.process_id, run.device, kernels)
            kernels += part.kernels
            yield part


def _decimals(kind: str, frame: pl.DataFrame) -> list[str]:
    # Columns that can contain decimals. In a metric summary, values of several units are lists
    # with commas, so a decimal comma cannot be recognised.
    if kind == METRIC_SUMMARY:
        titles = frame["Metric Name" if "Metric Name" in frame.columns else "Event Name"]
        return [] if titles.str.contains(" instances)", literal=True).any() else _AVERAGES
    texts = {"Name", "Kernel", "Device", "Type", "Context", "Stream", "Correlation_ID"}
    return [name for name in frame.columns if name not in texts and " Dev" not in name]


def devices(printed: str) -> list[tuple[int, str]]:
    """Parse numbers and names of devices in a text such as ``TITAN V (0), TITAN V (1)``."""
    return [(int(number), name) for name, number in _DEVICE.findall(printed)]


def _require_time_units(path: Path, header: Sequence[str], units: dict[str, str]) -> None:
    for column in ("Start", "Duration", "Time"):
        if column in header and NVPROF_UNITS.get(units.get(column, ""), Unit(1, None)).name != "ns":
            raise InputError(
                f"{path}: the row of units below the header is missing, so times cannot be read; "
                "print the profile again with nvprof --csv"
            )


def _activity(header: Sequence[str]) -> pl.Expr:
    # Order matters: kernels are the rows with a grid that do not begin with a bracket.
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
