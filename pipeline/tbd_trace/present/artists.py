"""The marks of a plot: lines, points, bars. What they stand for is ``plot``'s business."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

from matplotlib.axes import Axes
from matplotlib.axis import Axis as Ticked
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from tbd_trace.present.bar_charts import (
    binned_bars,
    from_zero,
    histogram,
    lying_bars,
    standing_bars,
)
from tbd_trace.present.heatmap import heatmap
from tbd_trace.present.palette import SHADE, colours, marker
from tbd_trace.present.roofline import roofline
from tbd_trace.present.series import Axis, Series
from tbd_trace.present.values import scale

LYING = ("barh", "grouped_barh", "stacked_barh")
"""Kinds of bars that lie: each place has a line of its own."""
_MANY_POINTS = 60
_FAINT = 0.35
_FEW_DECADES = 1000  # fewer powers of ten make a poor scale


def draw(axes: Axes, kind: str, series: Sequence[Series], along: Axis, values: Axis) -> None:
    """Draw series of one kind, and label the axes.

    Kinds are line, scatter, histogram, bar, stacked_bar, barh, grouped_barh, stacked_barh, binned,
    heatmap and roofline.
    """
    match kind:
        case "histogram":
            histogram(axes, series)
            along, values = values, Axis("count")
        case "barh" | "grouped_barh" | "stacked_barh":
            lying_bars(axes, series, stacked=kind == "stacked_barh")
            along, values = values, Axis("")
        case "bar" | "stacked_bar":
            standing_bars(axes, series, along, stacked=kind == "stacked_bar")
        case "binned":
            binned_bars(axes, series, along)
        case "heatmap":
            heatmap(axes, series, values)
            values = Axis("")
        case "roofline":
            roofline(axes, series, values)
        case _:
            _points(axes, series, values, joined=kind == "line")
    if along.log:
        axes.set_xscale("log")
    if values.log:
        axes.set_yscale("log")
    axes.set_xlabel(along.label)
    axes.set_ylabel(values.label)
    _ticks(axes.xaxis, along)
    _ticks(axes.yaxis, values)
    if kind != "heatmap":
        axes.grid(axis="both" if kind == "roofline" else "x" if kind in LYING else "y")


def _ticks(axis: Ticked, drawn: Axis) -> None:
    if drawn.whole:
        axis.set_major_locator(MaxNLocator(integer=True))
    if drawn.log:
        low, high = axis.get_view_interval()
        if high < low * _FEW_DECADES:
            axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter(FuncFormatter(_named_tick(drawn.unit)))
        axis.set_minor_formatter(NullFormatter())


def _named_tick(unit: str | None) -> Callable[[float, int], str]:
    """Return what writes a tick: 10 µs, 100 µs, 1 ms."""

    def named(value: float, _: int) -> str:
        divisor, scaled = scale(value, unit) if unit else (1, "")
        return f"{value / divisor:,.4g} {scaled}".strip()

    return named


def _points(axes: Axes, series: Sequence[Series], values: Axis, *, joined: bool) -> None:
    for colour, one in zip(colours(series), series, strict=True):
        mark = marker(one) if not joined or len(one.places) <= _MANY_POINTS else ""
        style: dict[str, Any] = {
            "linestyle": "-" if joined else "none",
            "marker": mark,
            "markersize": 3.5,
        }
        if any(one.lit):
            axes.plot(one.places, one.values, color=colour, alpha=_FAINT, **style)
        shown = [
            value if told or not any(one.lit) else math.nan
            for value, told in zip(one.values, one.lit or [True] * len(one.values), strict=True)
        ]
        axes.plot(one.places, shown, color=colour, label=one.label, **style)
    _shade(axes, series)
    if not values.log:
        from_zero(axes, [value for one in series for value in one.values])


def _shade(axes: Axes, series: Sequence[Series]) -> None:
    """Shade the stretches of whole-numbered places that are told from the others."""
    lit = {
        place for one in series for place, told in zip(one.places, one.lit, strict=False) if told
    }
    numbered = enumerate(sorted(lit))
    for first, (_, same) in enumerate(groupby(numbered, key=lambda pair: pair[1] - pair[0])):
        places = [place for _, place in same]
        label = "" if first else "steady state"
        axes.axvspan(places[0] - 0.5, places[-1] + 0.5, color=SHADE, alpha=0.08, lw=0, label=label)
