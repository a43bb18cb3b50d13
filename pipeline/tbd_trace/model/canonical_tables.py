"""The canonical tables, as the files of ``queries/canonical`` declare them.

Each file is a ``CREATE TABLE`` whose comments document the columns. Its header (TOML in the leading
block comment) declares what the rest of the program must know about the table, so that a new table
needs no change in Python.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from tbd_trace import resources
from tbd_trace.model.advice import Advice, parse_advice

CATALOGUE = "trace"
"""The table with one row per ingested file."""
KERNEL, KERNEL_TOTALS = "kernel", "kernel_aggregate"
"""The tables of single kernels, and of totals by kernel name."""
ALLOCATIONS = "memory_event"
"""The table of allocations and releases of memory."""
SEGMENTS = "memory_segment"
"""The table of the ranges of addresses that an allocator holds."""
API_CALL = "api_call"
"""The table of host calls, which launch the kernels."""
LAYER_DEFINITION = "layer_definition"
"""The table that is filled from layers.json, whatever the profiler."""
JOB_POINT = "job_point"
"""The table that is filled from job.json, whatever the profiler."""
JOB_RANK = "job_rank"
"""The table with the rank of a trace, from the profile or its file name."""

_HEADER = re.compile(r"\s*/\*(?P<toml>.*?)\*/(?P<sql>.*)", re.DOTALL)
_COLUMN = re.compile(
    r"^\s+(?P<name>\w+)\s+(?P<type>\w+(?:\[\])?)(?: NOT NULL)?,?\s*-- (?P<doc>.+)$"
)
_CONTINUED = re.compile(r"^\s+-- (?P<doc>.+)$")


@dataclass(frozen=True, slots=True)
class TableColumn:
    """One column: its name, DuckDB type and meaning."""

    name: str
    type: str
    doc: str


@dataclass(frozen=True, slots=True)
class CanonicalTable:
    """One canonical table."""

    name: str  # name of the table and of its file
    doc: str  # meaning of a row
    columns: tuple[TableColumn, ...]  # the columns in order
    # the columns with the start and the end of a row (one column for an instant); empty for a table
    # without times
    times: tuple[str, ...] = ()
    # True if its times are part of ``trace.start_ns`` and ``trace.end_ns``
    bounds_trace: bool = True
    clock: str = "host"  # ``gpu`` or ``host``: the clock of its times in the profiler's file
    aligns_clocks: bool = False  # True if the check of GPU against host clock reads it
    # True if it can have millions of rows, so that queries read it from its file
    is_long: bool = False
    is_parallel: bool = False  # True if readers can divide its rows among processes
    is_lookup: bool = False  # True if other tables reference it; it is written last
    drops_duplicates: bool = False  # True if rows that are equal in all columns are one event
    audited_by_times: bool = False  # True if its audit checks times only
    # text columns by name, each with the way it is redacted (see ``redact``); others are redacted
    # as ``text``
    privacy: Mapping[str, str] = field(default_factory=dict)
    advice: Advice | None = None  # how to collect the table where a trace lacks it
    # SQL expressions of the timeline export by name of the exported column; None if the table is
    # not exported this way
    timeline: Mapping[str, str] | None = None

    @property
    def start(self) -> str:
        return self.times[0]

    @property
    def end(self) -> str:
        """The column with the end of a row, of an instant that of its time."""
        return self.times[-1]

    @property
    def empty_select(self) -> str:
        columns = ", ".join(f"NULL::{column.type} AS {column.name}" for column in self.columns)
        return f"SELECT {columns} WHERE false"

    def only(self, names: Collection[str] | None) -> CanonicalTable:
        """Return the table with some of its columns, ``trace_id`` always; None means all."""
        if names is None:
            return self
        kept = tuple(column for column in self.columns if column.name in {"trace_id", *names})
        return replace(self, columns=kept)


@cache
def canonical_tables() -> dict[str, CanonicalTable]:
    """Return the canonical tables by name.

    Raises:
        ValueError: a header is invalid; the message names the file.
    """
    return {name: _parse(path) for name, path in resources.sql_files("canonical").items()}


@cache
def event_tables() -> dict[str, CanonicalTable]:
    """Return the canonical tables that a source can fill: all but the catalogue."""
    return {name: table for name, table in canonical_tables().items() if name != CATALOGUE}


@cache
def timed_tables() -> dict[str, CanonicalTable]:
    """Return the canonical tables with times."""
    return {name: table for name, table in canonical_tables().items() if table.times}


@cache
def gpu_tables() -> list[str]:
    """Return the names of the tables whose times are of the GPU's clock."""
    return [name for name, table in canonical_tables().items() if table.clock == "gpu"]


@cache
def clock_tables() -> frozenset[str]:
    """Return the names of the tables that the check of GPU against host clock reads."""
    return frozenset(name for name, table in canonical_tables().items() if table.aligns_clocks)


@cache
def long_tables() -> frozenset[str]:
    """Return the names of the tables that can have millions of rows."""
    return frozenset(name for name, table in canonical_tables().items() if table.is_long)


def timeline_events() -> str:
    """Return a SELECT of the events that the tables' headers declare for the timeline export."""
    selects = [
        f"SELECT {', '.join(_exported(table))} FROM {table.name}"
        for table in canonical_tables().values()
        if table.timeline is not None
    ]
    return " UNION ALL BY NAME ".join(selects)


def _exported(table: CanonicalTable) -> list[str]:
    own = {column.name for column in table.columns}
    usual = {"process_id": "process_id", "thread_id": "thread_id", "device_id": "device_id"}
    times = {"start_ns": table.start, "end_ns": table.end if len(table.times) > 1 else "NULL"}
    ids = {name: column for name, column in usual.items() if column in own}
    return [
        f"{expression} AS {name}"
        for name, expression in (ids | times | dict(table.timeline or {})).items()
    ]


def _parse(path: Path) -> CanonicalTable:
    match = _HEADER.match(path.read_text(encoding="utf-8"))
    try:
        if match is None:
            raise TypeError("it has none")
        header = tomllib.loads(match["toml"])
        return _table(path.stem, header, tuple(_columns(match["sql"])))
    except (tomllib.TOMLDecodeError, TypeError, KeyError) as error:
        raise ValueError(f"{path}: invalid header ({error})") from error


def _table(name: str, header: dict[str, Any], columns: tuple[TableColumn, ...]) -> CanonicalTable:
    advice = header.pop("advice", None)
    table = CanonicalTable(
        name=name,
        doc=" ".join(header.pop("title").split()),
        columns=columns,
        times=tuple(header.pop("times", ())),
        bounds_trace=header.pop("bounds_trace", True),
        clock=header.pop("clock", "host"),
        aligns_clocks=header.pop("aligns_clocks", False),
        is_long=header.pop("size", "short") == "long",
        is_parallel=header.pop("parallel", False),
        is_lookup=header.pop("lookup", False),
        drops_duplicates=header.pop("duplicates", "keep") == "drop",
        audited_by_times=header.pop("audit", "values") == "times",
        privacy=header.pop("privacy", {}),
        advice=parse_advice(advice) if advice else None,
        timeline=header.pop("timeline", None),
    )
    named = {*table.times, *table.privacy}
    if unknown := [*header, *sorted(named - {column.name for column in columns})]:
        raise TypeError(f"unknown keys or columns: {', '.join(unknown)}")
    return table


def _columns(sql: str) -> list[TableColumn]:
    columns: list[TableColumn] = []
    for line in sql.splitlines():
        if match := _COLUMN.match(line):
            columns.append(TableColumn(match["name"], match["type"], match["doc"].strip()))
        elif columns and (match := _CONTINUED.match(line)):
            last = columns[-1]
            columns[-1] = replace(last, doc=f"{last.doc} {match['doc'].strip()}")
    return columns
