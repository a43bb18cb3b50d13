"""The marks of a plot: lines, points, bars. What they stand for is ``plot``'s business."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from tbd_trace.present.values import is_identifier, shorten

# Okabe and Ito's palette: told apart with every kind of colour vision. Black is kept for text.
_PALETTE = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#F0E442", "#999999")
_HATCHES = ("", "///", "...")  # where there are more series than colours
_SLANT: dict[str, Any] = {"rotation": 30, "ha": "right", "rotation_mode": "anchor"}
LABEL_WIDTH = 48
"""Characters that a name on a plot is shortened to."""
_STANDING_LABEL_WIDTH = 32
_MANY_POINTS = 60
_FEW_BARS = 4
_MAX_BINS = 40
_BAR_WIDTH = 0.8
_HEADROOM = 1.08
_UNIT_SUFFIXES = ("_ns", "_bytes", "_bytes_per_s", "_pct", "_flop", "_flops", "_hz")


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis.

    Attributes:
        label: its label, unit included.
        divisor: what the values were divided by to read well.
        is_quantity: numbers with distances, not names.
        whole: only whole numbers make sense as ticks.
    """

    label: str
    divisor: float = 1
    is_quantity: bool = True
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Series:
    """One line or one set of bars.

    Attributes:
        label: what the legend calls it.
        places: place per row.
        values: value per row, NaN for none.
        colour: number of its colour, and of its hatching where the colours are used up.
    """

    label: str
    places: list[Any]
    values: list[float]
    colour: int


def is_quantity(column: pl.Series) -> bool:
    """Tell whether a column holds numbers with distances, not names or keys."""
    return column.dtype.is_numeric() and not is_identifier(column.name)


def words(column: str) -> str:
    """Return a column's name as words, without the unit at its end."""
    for suffix in _UNIT_SUFFIXES:
        column = column.removesuffix(suffix)
    return column.removesuffix("_id").replace("_", " ")


def draw(
    axes: Axes, kind: str, series: Sequence[Series], along: Axis, values: Axis, *, own_scales: bool
) -> None:
    """Draw series of one kind: line, scatter, histogram, or bars.

    The kinds of bars are bar, stacked_bar, barh and stacked_barh. A panel with scales of its own
    has labels and a legend of its own, too.
    """
    match kind:
        case "histogram":
            _histogram(axes, series)
            along, values = values, Axis("count")
        case "barh" | "stacked_barh":
            _lying_bars(axes, series, stacked=kind == "stacked_barh")
            along, values = values, Axis("")
        case "bar" | "stacked_bar":
            _standing_bars(axes, series, along, stacked=kind == "stacked_bar")
        case _:
            _points(axes, series, joined=kind == "line")
    axes.set_xlabel(along.label)
    axes.set_ylabel(values.label)
    if not own_scales:
        axes.label_outer()
    axes.grid(axis="x" if kind.endswith("barh") else "y")
    if along.whole:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if own_scales or len(series) > 1:
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))


def _colours(series: Sequence[Series]) -> list[str]:
    return [_PALETTE[one.colour % len(_PALETTE)] for one in series]


def _hatch(one: Series) -> str:
    return _HATCHES[one.colour // len(_PALETTE) % len(_HATCHES)]


def _points(axes: Axes, series: Sequence[Series], *, joined: bool) -> None:
    for colour, one in zip(_colours(series), series, strict=True):
        axes.plot(
            one.places,
            one.values,
            linestyle="-" if joined else "none",
            marker="o" if not joined or len(one.places) <= _MANY_POINTS else "",
            markersize=3.5,
            color=colour,
            label=one.label,
        )
    _from_zero(axes, [value for one in series for value in one.values])


def _from_zero(axes: Axes, values: Sequence[float]) -> None:
    """Start the value axis at 0, so that heights compare, unless a value is negative."""
    finite = [value for value in values if math.isfinite(value)]
    if finite and min(finite) >= 0:
        # Panels share the axis: keep the room that an earlier one asked for.
        drawn_before = axes.get_ylim()[1] if axes.get_ylim()[0] == 0 else 0.0
        axes.set_ylim(0, max(drawn_before, max(finite) * _HEADROOM) or 1.0)


def _standing_bars(axes: Axes, series: Sequence[Series], along: Axis, *, stacked: bool) -> None:
    at = _positions(axes, series, along)
    width = _BAR_WIDTH if stacked else _BAR_WIDTH / len(series)
    base = dict.fromkeys(at, 0.0)
    for number, (colour, one) in enumerate(zip(_colours(series), series, strict=True)):
        shift = 0.0 if stacked else (number - (len(series) - 1) / 2) * width
        axes.bar(
            [at[place] + shift for place in one.places],
            one.values,
            width,
            bottom=[base[place] for place in one.places] if stacked else 0.0,
            color=colour,
            hatch=_hatch(one),
            label=one.label,
        )
        _heap(base, one)
    tops = [value for one in series for value in one.values]
    _from_zero(axes, [*base.values(), *tops] if stacked else tops)


def _positions(axes: Axes, series: Sequence[Series], along: Axis) -> dict[Any, float]:
    """Return where the bars of each place stand, and label the axis there if places are names."""
    places = list(dict.fromkeys(place for one in series for place in one.places))
    if along.is_quantity:
        return {place: float(place) for place in places}
    slanted = sum(min(len(place), _STANDING_LABEL_WIDTH) for place in places) > 90
    labels = [shorten(place, _STANDING_LABEL_WIDTH) for place in places]
    axes.set_xticks(range(len(places)), labels, **_SLANT if slanted else {})
    spare = max(0, _FEW_BARS - len(places)) / 2  # a lone bar need not fill the plot
    axes.set_xlim(-0.6 - spare, len(places) - 0.4 + spare)
    return {place: float(number) for number, place in enumerate(places)}


def _lying_bars(axes: Axes, series: Sequence[Series], *, stacked: bool) -> None:
    places = list(dict.fromkeys(place for one in series for place in one.places))
    at = {place: number for number, place in enumerate(places)}
    width = _BAR_WIDTH if stacked else _BAR_WIDTH / len(series)
    base = dict.fromkeys(places, 0.0)
    for number, (colour, one) in enumerate(zip(_colours(series), series, strict=True)):
        shift = 0.0 if stacked else (number - (len(series) - 1) / 2) * width
        bars = axes.barh(
            [at[place] + shift for place in one.places],
            one.values,
            width,
            left=[base[place] for place in one.places] if stacked else 0.0,
            color=colour,
            hatch=_hatch(one),
            label=one.label,
        )
        if not stacked:
            axes.bar_label(bars, labels=[_figure(v) for v in one.values], padding=3, fontsize=8)
        _heap(base, one)
    axes.set_yticks(range(len(places)), [shorten(place, LABEL_WIDTH) for place in places])
    axes.set_ylim(len(places) - 0.5, -0.5)  # the first row on top
    axes.margins(x=0.1)


def _heap(base: dict[Any, float], one: Series) -> None:
    """Add a series to what the next one is stacked on."""
    for place, value in zip(one.places, one.values, strict=True):
        base[place] += 0.0 if math.isnan(value) else value


def _figure(value: float) -> str:
    if math.isnan(value):
        return ""
    return f"{value:,.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def _histogram(axes: Axes, series: Sequence[Series]) -> None:
    values = [[value for value in one.values if math.isfinite(value)] for one in series]
    largest = max(len(numbers) for numbers in values)
    axes.hist(
        values,
        bins=min(_MAX_BINS, max(5, math.ceil(math.sqrt(largest)))),
        color=_colours(series),
        label=[one.label for one in series],
    )
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
