"""What a panel of a plot draws: axes and series of numbers, ready for matplotlib."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import polars as pl

from tbd_trace.present.names import shorten
from tbd_trace.present.values import is_identifier, scale, text

if TYPE_CHECKING:
    from tbd_trace.query import Plot

LABEL_WIDTH = 48
"""Characters that a name on a plot is shortened to."""
_UNIT_SUFFIXES = ("_ns", "_bytes", "_bytes_per_s", "_pct", "_flop", "_flops", "_hz")

Units = Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis.

    Attributes:
        label: its label, unit included.
        divisor: what the values were divided by to read well.
        is_quantity: numbers with distances, not names.
        whole: only whole numbers make sense as ticks.
        log: it is logarithmic.
        unit: the unit of its values, where each tick is to name one that reads well.
    """

    label: str
    divisor: float = 1
    is_quantity: bool = True
    whole: bool = False
    log: bool = False
    unit: str | None = None


@dataclass(frozen=True, slots=True)
class Series:
    """One line or one set of bars.

    Attributes:
        label: what the legend calls it.
        places: place per row.
        values: value per row, NaN for none.
        colour: number of its colour, and of its hatching where the colours are used up.
        ends: end of the stretch that begins at each place; empty where places are points.
        lit: whether each row is one of those to be told from the others; empty where none is.
        roofs: a peak of the values, and the most value per place, where known.
        names: name per row, empty where points have none.
    """

    label: str
    places: list[Any]
    values: list[float]
    colour: int
    ends: list[float] = field(default_factory=list)
    lit: list[bool] = field(default_factory=list)
    roofs: list[tuple[float, float]] = field(default_factory=list)
    names: list[str] = field(default_factory=list)


def is_quantity(column: pl.Series) -> bool:
    """Tell whether a column holds numbers with distances, not names or keys."""
    return column.dtype.is_numeric() and not is_identifier(column.name)


def words(column: str) -> str:
    """Return a column's name as words, without the unit at its end."""
    for suffix in _UNIT_SUFFIXES:
        column = column.removesuffix(suffix)
    return column.removesuffix("_id").replace("_", " ")


def value_axis(columns: Sequence[str], drawn: pl.DataFrame, units: Units, *, log: bool) -> Axis:
    """Return the axis that columns share: the scale on which their values read well, its label."""
    name = words(columns[0]) if len(columns) == 1 else ""
    found = {units.get(column) for column in columns}
    unit = found.pop() if len(found) == 1 else None
    if log:
        return Axis(name or "value", log=True, unit=scalable(unit))
    if unit is None:
        return Axis(name)
    sizes = [abs(float(value)) for c in columns for value in drawn[c].drop_nulls().to_list()]
    divisor, scaled = scale(max(sizes, default=0.0), unit)
    if scaled == name.removesuffix("s"):  # not: kernels (kernel)
        return Axis(name, divisor)
    return Axis(f"{name} ({scaled})" if name else scaled, divisor)


def scalable(unit: str | None) -> str | None:
    """Return a unit that has larger ones, such as ns; None where it has none."""
    return unit if unit and scale(1e30, unit)[0] != 1 else None


def place_axis(plot: Plot, drawn: pl.DataFrame, units: Units) -> Axis:
    """Return the axis along which the rows lie."""
    places = drawn[plot.places[0]]
    if not is_quantity(places) or places.null_count():
        return Axis(plot.x_title, is_quantity=False)
    if "x" in plot.log:
        return Axis(plot.x_title, log=True, unit=scalable(units.get(places.name)))
    ends = plot.x_end or places.name
    axis = value_axis([ends], drawn, {ends: units.get(places.name)}, log=False)
    label = axis.label.replace(words(ends), plot.x_title, 1)
    whole = places.dtype.is_integer() and axis.divisor == 1
    return Axis(label, axis.divisor, whole=whole)


def series_of(
    panel: pl.DataFrame,
    plot: Plot,
    columns: Sequence[str],
    axes: tuple[Axis, Axis],
    coloured: pl.DataFrame,
) -> list[Series]:
    """Return one series per value column and, where the plot has them, per series value.

    Args:
        panel: the rows of the panel.
        plot: what to draw.
        columns: the value columns that share a scale.
        axes: the axis along which the rows lie, and that of the values.
        coloured: rows among whose series the colours are dealt out.
    """
    key = plot.keys[0] if plot.keys else None
    parts = panel.partition_by(key, maintain_order=True) if key else [panel]
    order = coloured[key].unique(maintain_order=True).to_list() if key else []
    found = []
    for part in parts:
        group = shorten(text(part[key][0]), LABEL_WIDTH) if key else ""
        first = order.index(part[key][0]) * len(columns) if key else 0
        for colour, column in enumerate(columns, first):
            several = len(columns) > 1 or not group
            label = ", ".join(filter(None, [group, words(column) if several else ""]))
            found.append(_series(part, plot, column, axes, (label, colour)))
    valued = [one for one in found if not all(math.isnan(value) for value in one.values)]
    return valued or found[:1]


def _series(
    part: pl.DataFrame,
    plot: Plot,
    column: str,
    axes: tuple[Axis, Axis],
    called: tuple[str, int],
) -> Series:
    along, values = axes
    label, colour = called
    roofs = (
        part.select(plot.roof).drop_nulls().unique(maintain_order=True).rows() if plot.roof else []
    )
    return Series(
        label,
        _places(part[plot.places[0]], along),
        _values(part[column], values),
        colour,
        ends=_values(part[plot.x_end], along) if plot.x_end else [],
        lit=[bool(value) for value in part[plot.window].to_list()] if plot.window else [],
        roofs=[(float(peak), float(slope)) for peak, slope in roofs],
        names=_names(part.select(plot.label)) if plot.label else [],
    )


def _names(columns: pl.DataFrame) -> list[str]:
    """Return what each row is called, empty where no column says."""
    return [", ".join(text(name) for name in row if name is not None) for row in columns.rows()]


def _places(column: pl.Series, along: Axis) -> list[Any]:
    if along.is_quantity:
        return [place / along.divisor for place in column.to_list()]
    return [text(place) for place in column.to_list()]


def _values(column: pl.Series, axis: Axis) -> list[float]:
    """Return the values on the scale of their axis, NaN for NULL: nothing is drawn there."""
    return [math.nan if v is None else float(v) / axis.divisor for v in column.to_list()]
