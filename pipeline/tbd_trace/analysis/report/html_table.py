"""Rows as the cells of an HTML table: names as words, sizes in units that read well."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from tbd_trace.present.names import shorten
from tbd_trace.present.values import Column, columns, is_identifier, scale, text

_NAME_ENDINGS = ("name", "kernel", "layer", "path", "range")
_SHORT = 26
_LONGEST = 1000
# How the name of a column ends that has the unit.
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
    """One column.

    Attributes:
        name: the query's name for it.
        label: its heading.
        unit: unit of the cells, empty for none.
        cells: one text per row.
        kind: ``number``, ``name`` (of a kernel or layer, maybe long), ``short`` (text that is not
            broken) or ``text``.
    """

    name: str
    label: str
    unit: str
    cells: list[str]
    kind: str


@dataclass(frozen=True, slots=True)
class Form:
    """How rows are shown.

    Attributes:
        trace_names: what is shown for a trace id.
        columns: columns to show; none means all.
        limit: rows to show; None means all.
        records: whether each row is a list of its columns, as a single one always is.
    """

    trace_names: Mapping[str, str] = field(default_factory=dict)
    columns: Sequence[str] = ()
    limit: int | None = None
    records: bool = False


@dataclass(frozen=True, slots=True)
class Grid:
    """A table, or a list of the columns per row.

    Attributes:
        columns: its columns.
        common: columns in which all rows agree, where there are several.
        unknown: labels of the columns that hold nothing.
        shown: rows in it.
        total: rows that there are.
        is_records: whether each row is a list of its columns.
    """

    columns: list[GridColumn]
    common: list[GridColumn]
    unknown: list[str]
    shown: int
    total: int
    is_records: bool

    @property
    def rows(self) -> list[list[tuple[str, GridColumn]]]:
        """The cells row by row, each with its column."""
        return [
            [(column.cells[row], column) for column in self.columns] for row in range(self.shown)
        ]


def grid(frame: pl.DataFrame, units: Mapping[str, str | None], form: Form) -> Grid:
    """Return the cells of a table.

    Args:
        frame: the rows.
        units: unit per column.
        form: what of them is shown, and how.
    """
    wanted = frame.select([name for name in form.columns or frame.columns if name in frame.columns])
    shown = wanted if form.limit is None else wanted.head(form.limit)
    made = [_column(shown[name], units.get(name), form.trace_names) for name in shown.columns]
    unknown = [c for c in made if shown.height and wanted[c.name].null_count() == wanted.height]
    known = [column for column in made if column not in unknown]
    records = form.records or frame.height == 1
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
    divisor, read_in = _scaled(values, unit)
    cells = _cells(values if divisor == 1 else values / divisor)
    label = values.name.removesuffix(_ENDINGS.get(unit or "", "")).replace("_", " ")
    spoken = unit is None or unit in label
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


def _scaled(values: pl.Series, unit: str | None) -> tuple[float, str]:
    """Return what to divide a column by so that it reads well, and the unit that it then has."""
    if unit is None or not values.dtype.is_numeric() or is_identifier(values.name):
        return 1, unit or ""
    sizes = [abs(float(value)) for value in values.drop_nulls().to_list()]
    finite = [size for size in sizes if size < float("inf")]
    return scale(max(finite, default=0.0), unit)
