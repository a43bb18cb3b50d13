"""Build the axes and series of a plot's panels."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import polars as pl

from tbd_trace.present.names import shortened
from tbd_trace.present.values import is_identifier, scale, text

if TYPE_CHECKING:
    from tbd_trace.query import Plot

LABEL_WIDTH = 48
"""Maximum characters of a name on a plot."""
_MOST_STEPS = 16
_UNIT_SUFFIXES = ("_ns", "_bytes", "_bytes_per_s", "_pct", "_flop", "_flops", "_hz")

Units = Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis."""

    label: str  # label with unit
    divisor: float = 1  # divisor that converts the values to the unit of the label
    is_quantity: bool = True  # True for numbers with distances, False for names
    whole: bool = False  # use whole numbers as ticks
    log: bool = False
    unit: str | None = None  # unit of the values, if each tick is to have its own scaled unit


@dataclass(frozen=True, slots=True)
class Series:
    """One line or one set of bars."""

    label: str  # entry in the legend
    places: list[Any]  # x per row
    values: list[float]  # y per row, NaN for NULL
    colour: int  # number of its colour, and of its hatch if there are more series than colours
    # End of the interval that starts at each place; empty if places are points.
    ends: list[float] = field(default_factory=list)
    starts: list[float] = field(default_factory=list)  # begin of each bar; empty if they stack
    lanes: list[Any] = field(default_factory=list)  # places of all series in order, with starts
    # True for rows to highlight; empty if there are none.
    highlighted: list[bool] = field(default_factory=list)
    # Peaks and slopes of the roofs of a roofline plot.
    roofs: list[tuple[float, float]] = field(default_factory=list)
    names: list[str] = field(default_factory=list)  # name per row, empty if points have none
    bounds: list[tuple[float, float]] = field(default_factory=list)  # of each value, or empty
    points: list[float] = field(default_factory=list)  # measured value per row, or empty


def is_quantity(column: pl.Series) -> bool:
    """Return True if a column holds numbers with distances, not names or keys."""
    return column.dtype.is_numeric() and not is_identifier(column.name)


def words(column: str) -> str:
    """Convert a column's name to words without its unit."""
    for suffix in _UNIT_SUFFIXES:
        column = column.removesuffix(suffix)
    return column.removesuffix("_id").replace("_", " ")


def value_axis(
    columns: Sequence[str],
    drawn: pl.DataFrame,
    units: Units,
    *,
    log: bool,
    start: str | None = None,
) -> Axis:
    """Return the common axis of value columns, scaled to their largest value.

    Args:
        start: column with the begins of bars, which the axis then shows.
    """
    name = words(start or columns[0]) if len(columns) == 1 else ""
    column_units = {units.get(column) for column in columns}
    unit = column_units.pop() if len(column_units) == 1 else None
    if log:
        multiples = scalable(unit)  # the ticks then show the unit
        label = f"{name or 'value'} ({unit})" if unit and not multiples else name or "value"
        return Axis(label, log=True, unit=multiples)
    if unit is None:
        return Axis(name)
    shown = [*columns, start] if start else columns
    sizes = [abs(float(value)) for c in shown for value in drawn[c].drop_nulls().to_list()]
    divisor, scaled = scale(max(sizes, default=0.0), unit)
    # Avoids "kernels (kernel)" and "samples per s (sample/s)".
    if scaled in {name.removesuffix("s"), name.replace("s per ", "/")}:
        return Axis(name, divisor)
    return Axis(f"{name} ({scaled})" if name else scaled, divisor)


def scalable(unit: str | None) -> str | None:
    """Return the unit if it has multiples, such as ns, else None."""
    return unit if unit and scale(1e30, unit)[0] != 1 else None


def place_axis(plot: Plot, drawn: pl.DataFrame, units: Units) -> Axis:
    """Return the axis of the places of rows."""
    places = drawn[plot.places[0]]
    if not is_quantity(places) or places.null_count() or _are_steps(plot, places):
        return Axis(plot.x_title, is_quantity=False)
    if "x" in plot.log:
        return Axis(plot.x_title, log=True, unit=scalable(units.get(places.name)))
    ends = plot.x_end or places.name
    axis = value_axis([ends], drawn, {ends: units.get(places.name)}, log=False)
    label = axis.label.replace(words(ends), plot.x_title, 1)
    whole = places.dtype.is_integer() and axis.divisor == 1
    return Axis(label, axis.divisor, whole=whole)


def _are_steps(plot: Plot, places: pl.Series) -> bool:
    # Bars of a few uneven numbers, such as batch sizes 4, 8, 16, would be thin and far apart.
    values = places.unique().sort()
    uneven = values.diff().drop_nulls().n_unique() > 1
    return plot.kind in {"bar", "stacked_bar"} and len(values) <= _MOST_STEPS and uneven


def series_of(
    panel: pl.DataFrame,
    plot: Plot,
    columns: Sequence[str],
    axes: tuple[Axis, Axis],
    coloured: pl.DataFrame,
) -> list[Series]:
    """Return one series per value column and value of the plot's series column.

    Args:
        columns: value columns with a common scale.
        axes: axis of the places and axis of the values.
        coloured: rows of all series that share the colours.
    """
    key = plot.keys[0] if plot.keys else None
    parts = panel.partition_by(key, maintain_order=True) if key else [panel]
    order = coloured[key].unique(maintain_order=True).to_list() if key else []
    labels = shortened(map(text, order), LABEL_WIDTH)
    all_series = []
    for part in parts:
        group = labels[text(part[key][0])] if key else ""
        first = order.index(part[key][0]) * len(columns) if key else 0
        for colour, column in enumerate(columns, first):
            several = len(columns) > 1 or not group
            label = ", ".join(filter(None, [group, words(column) if several else ""]))
            all_series.append(_series(part, plot, column, axes, (label, colour)))
    if plot.start:  # bars of a place belong to several series: the order is that of the rows
        lanes = list(dict.fromkeys(_places(panel[plot.places[0]], axes[0])))
        all_series = [replace(series, lanes=lanes) for series in all_series]
    valued = [
        series for series in all_series if not all(math.isnan(value) for value in series.values)
    ]
    return valued or all_series[:1]


def _series(
    part: pl.DataFrame,
    plot: Plot,
    column: str,
    axes: tuple[Axis, Axis],
    label_and_colour: tuple[str, int],
) -> Series:
    along, values = axes
    label, colour = label_and_colour
    roofs = (
        part.select(plot.roof).drop_nulls().unique(maintain_order=True).rows() if plot.roof else []
    )
    return Series(
        label,
        _places(part[plot.places[0]], along),
        _values(part[column], values),
        colour,
        ends=_values(part[plot.x_end], along) if plot.x_end else [],
        starts=_values(part[plot.start], values) if plot.start else [],
        highlighted=[bool(value) for value in part[plot.window].to_list()] if plot.window else [],
        roofs=[(float(peak), float(slope)) for peak, slope in roofs],
        names=_names(part.select(plot.label)) if plot.label else [],
        bounds=list(zip(*(_values(part[name], values) for name in plot.band), strict=True)),
        points=_values(part[plot.points], values) if plot.points else [],
    )


def _names(columns: pl.DataFrame) -> list[str]:
    return [", ".join(text(name) for name in row if name is not None) for row in columns.rows()]


def _places(column: pl.Series, along: Axis) -> list[Any]:
    if along.is_quantity:
        return [place / along.divisor for place in column.to_list()]
    return [text(place) for place in column.to_list()]


def _values(column: pl.Series, axis: Axis) -> list[float]:
    # matplotlib draws nothing for NaN.
    return [math.nan if v is None else float(v) / axis.divisor for v in column.to_list()]
