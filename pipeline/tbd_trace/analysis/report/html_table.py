"""Format rows as the cells of an HTML table, with readable column names and units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from tbd_trace.present.names import shorten
from tbd_trace.present.scaling import fitting
from tbd_trace.present.values import Column, columns, text

_NAME_ENDINGS = ("name", "kernel", "layer", "path", "range")
_SHORT = 26  # characters of a text that is not wrapped
_LONGEST = 1000  # characters of a cell; mangled names of C++ templates can have more
# Suffixes of column names by unit; the label drops them, and the unit follows in parentheses.
_ENDINGS = {
    "ns": "_ns",
    "%": "_pct",
    "byte": "_bytes",
    "byte/s": "_bytes_per_s",
    "FLOP": "_flop",
    "FLOP/s": "_flops",
    "Hz": "_hz",
    "GB/s": "_gb_s",
}


@dataclass(frozen=True, slots=True)
class GridColumn:
    """One column."""

    name: str  # column name of the query
    label: str
    unit: str  # unit of the cells, may be empty
    cells: list[str]  # one text per row
    # `number`, `name` (of a kernel or layer, possibly long), `short` (text that is not
    # wrapped) or `text`.
    kind: str


@dataclass(frozen=True, slots=True)
class GridOptions:
    """Display options of a table."""

    trace_names: Mapping[str, str] = field(default_factory=dict)  # displayed name by trace id
    columns: Sequence[str] = ()  # columns to show, by default all
    limit: int | None = None  # number of rows to show, None for all
    # Show each row as a list of its columns, as is always done for a single row.
    records: bool = False


@dataclass(frozen=True, slots=True)
class Grid:
    """A table, or a list of the columns of each row."""

    columns: list[GridColumn]
    common: list[GridColumn]  # columns with the same value in all of several rows, shown once
    unknown: list[str]  # labels of the columns without values
    shown: int  # number of rows in the table
    total: int
    is_records: bool  # True if each row is a list of its columns

    @property
    def rows(self) -> list[list[tuple[str, GridColumn]]]:
        return [
            [(column.cells[row], column) for column in self.columns] for row in range(self.shown)
        ]


def grid(frame: pl.DataFrame, units: Mapping[str, str | None], options: GridOptions) -> Grid:
    """Format rows as a table; ``units`` has the unit by column."""
    wanted = frame.select(
        [name for name in options.columns or frame.columns if name in frame.columns]
    )
    shown = wanted if options.limit is None else wanted.head(options.limit)
    made = [_column(shown[name], units.get(name), options.trace_names) for name in shown.columns]
    unknown = [c for c in made if shown.height and wanted[c.name].null_count() == wanted.height]
    known = [column for column in made if column not in unknown]
    records = options.records or frame.height == 1
    common = [] if records else [c for c in known if wanted[c.name].n_unique() == 1]
    return Grid(
        columns=[column for column in known if column not in common],
        common=common,
        unknown=[column.label for column in unknown],
        shown=shown.height,
        total=frame.height,
        is_records=records,
    )


def _column(values: pl.Series, unit: str | None, trace_names: Mapping[str, str]) -> GridColumn:
    if values.name == "trace_id":
        names = [trace_names.get(str(value), text(value)) for value in values.to_list()]
        return GridColumn("trace_id", "trace", "", names, _kind(Column("trace", names, False)))
    divisor, read_in = fitting(values, unit)
    cells = _cells(values if divisor == 1 else values / divisor)
    ending = _ENDINGS.get(unit or "", "")
    # ns_per_step becomes "per step".
    label = values.name.removesuffix(ending).removeprefix(f"{ending[1:]}_").replace("_", " ")
    words = label.split()
    spoken = read_in in words or f"{read_in}s" in words  # scaled bytes are not bytes
    texts = [shorten(cell, _LONGEST) if len(cell) > _LONGEST else cell for cell in cells.cells]
    return GridColumn(values.name, label, "" if spoken else read_in, texts, _kind(cells))


def _cells(values: pl.Series) -> Column:
    return columns(values.to_frame())[0]


def _kind(column: Column) -> str:
    if column.numeric:
        return "number"
    if all(len(cell) <= _SHORT for cell in column.cells):
        return "short"
    return "name" if column.name.endswith(_NAME_ENDINGS) else "text"
