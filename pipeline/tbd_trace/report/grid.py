"""Rows as the cells of an HTML table: names as words, sizes in units that read well."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from tbd_trace.present.values import Column, columns, is_identifier, scale, text

_NAME_ENDINGS = ("name", "kernel", "layer", "path", "range")
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
        kind: ``number``, ``name`` (of a kernel or layer, maybe long) or ``text``.
    """

    name: str
    label: str
    unit: str
    cells: list[str]
    kind: str


@dataclass(frozen=True, slots=True)
class Grid:
    """A table.

    Attributes:
        columns: its columns; of a single row all that hold a value.
        common: columns in which all rows agree.
        unknown: labels of the columns that hold nothing.
        shown: rows in it.
        total: rows that there are.
    """

    columns: list[GridColumn]
    common: list[GridColumn]
    unknown: list[str]
    shown: int
    total: int

    @property
    def is_record(self) -> bool:
        """Whether it is a single row, which is shown as one line per column."""
        return self.total == 1

    @property
    def rows(self) -> list[list[tuple[str, GridColumn]]]:
        """The cells row by row, each with its column."""
        return [
            [(column.cells[row], column) for column in self.columns] for row in range(self.shown)
        ]


def grid(
    frame: pl.DataFrame,
    units: Mapping[str, str | None],
    trace_names: Mapping[str, str],
    chosen: Sequence[str] = (),
    limit: int | None = None,
) -> Grid:
    """Return the cells of a table.

    Args:
        frame: the rows.
        units: unit per column.
        trace_names: what is shown for a trace id.
        chosen: columns to show; none means all.
        limit: rows to show; None means all.
    """
    wanted = frame.select([name for name in chosen or frame.columns if name in frame.columns])
    shown = wanted if limit is None else wanted.head(limit)
    made = [_column(shown[name], units.get(name), trace_names) for name in shown.columns]
    unknown = [c for c in made if shown.height and wanted[c.name].null_count() == wanted.height]
    known = [column for column in made if column not in unknown]
    common = [c for c in known if frame.height > 1 and wanted[c.name].n_unique() == 1]
    return Grid(
        columns=[column for column in known if column not in common],
        common=common,
        unknown=[column.label for column in unknown],
        shown=shown.height,
        total=frame.height,
    )


def _column(values: pl.Series, unit: str | None, trace_names: Mapping[str, str]) -> GridColumn:
    if values.name == "trace_id":
        names = [trace_names.get(str(value), text(value)) for value in values.to_list()]
        return GridColumn("trace_id", "trace", "", names, "text")
    divisor, read_in = _scaled(values, unit)
    cells = _cells(values if divisor == 1 else values / divisor)
    label = values.name.removesuffix(_ENDINGS.get(unit or "", "")).replace("_", " ")
    spoken = unit is None or unit in label
    return GridColumn(values.name, label, "" if spoken else read_in, cells.cells, _kind(cells))


def _cells(values: pl.Series) -> Column:
    return columns(values.to_frame())[0]


def _kind(column: Column) -> str:
    if column.numeric:
        return "number"
    return "name" if column.name.endswith(_NAME_ENDINGS) else "text"


def _scaled(values: pl.Series, unit: str | None) -> tuple[float, str]:
    """Return what to divide a column by so that it reads well, and the unit that it then has."""
    if unit is None or not values.dtype.is_numeric() or is_identifier(values.name):
        return 1, unit or ""
    sizes = [abs(float(value)) for value in values.drop_nulls().to_list()]
    finite = [size for size in sizes if size < float("inf")]
    return scale(max(finite, default=0.0), unit)
