"""Draw the series of a panel as lines, points, bars, heat maps or rooflines."""

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
    horizontal_bars,
    stacked_areas,
    vertical_bars,
)
from tbd_trace.present.heatmap import heatmap
from tbd_trace.present.palette import SHADE, colours, marker
from tbd_trace.present.roofline import roofline
from tbd_trace.present.series import Axis, Series
from tbd_trace.present.values import scale

HORIZONTAL = ("barh", "grouped_barh", "stacked_barh")
"""Kinds of horizontal bars."""
_MANY_POINTS = 60  # lines with more points have no markers, which would merge
_BAND = 0.18  # opacity of the band between bounds
_POINT: dict[str, Any] = {
    **{"linestyle": "none", "marker": "o", "markersize": 7},
    **{"markerfacecolor": "none", "markeredgewidth": 1.6},
}
_FAINT = 0.35  # opacity of the iterations outside the measured window
# Axes shorter than this factor get ticks at 2 and 5 too: two powers of ten make a poor scale.
_FEW_DECADES = 1000


def draw(axes: Axes, kind: str, all_series: Sequence[Series], along: Axis, values: Axis) -> None:
    """Draw series, and label the axes.

    ``kind`` is line, scatter, histogram, bar, stacked_bar, barh, grouped_barh, stacked_barh,
    stacked_area, binned, heatmap or roofline.
    """
    match kind:
        case "histogram":
            histogram(axes, all_series)
            along, values = values, Axis("count")
        case "barh" | "grouped_barh" | "stacked_barh":
            horizontal_bars(axes, all_series, stacked=kind == "stacked_barh")
            along, values = values, Axis("")
        case "bar" | "stacked_bar":
            vertical_bars(axes, all_series, along, stacked=kind == "stacked_bar")
        case "stacked_area":
            stacked_areas(axes, all_series)
        case "binned":
            binned_bars(axes, all_series, along)
        case "heatmap":
            heatmap(axes, all_series, values)
            values = Axis("")
        case "roofline":
            roofline(axes, all_series, values)
        case _:
            _points(axes, all_series, values, joined=kind == "line")
    if along.log:
        axes.set_xscale("log")
    if values.log:
        axes.set_yscale("log")
    axes.set_xlabel(along.label)
    axes.set_ylabel(values.label)
    label_ticks(axes.xaxis, along)
    label_ticks(axes.yaxis, values)
    if kind != "heatmap":
        axes.grid(axis="both" if kind == "roofline" else "x" if kind in HORIZONTAL else "y")


def label_ticks(axis: Ticked, drawn: Axis) -> None:
    """Place and name the ticks of an axis."""
    if drawn.whole:
        axis.set_major_locator(MaxNLocator(integer=True))
    if drawn.log:
        low, high = axis.get_view_interval()
        if high < low * _FEW_DECADES:
            axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter(FuncFormatter(_named_tick(drawn.unit)))
        axis.set_minor_formatter(NullFormatter())


def _named_tick(unit: str | None) -> Callable[[float, int], str]:
    # Each tick has its own unit: 10 µs, 100 µs, 1 ms.
    def named(value: float, _: int) -> str:
        divisor, scaled = scale(value, unit) if unit else (1, "")
        return f"{value / divisor:,.4g} {scaled}".strip()

    return named


def _points(axes: Axes, all_series: Sequence[Series], values: Axis, *, joined: bool) -> None:
    for colour, series in zip(colours(all_series), all_series, strict=True):
        mark = marker(series) if not joined or len(series.places) <= _MANY_POINTS else ""
        style: dict[str, Any] = {
            "linestyle": "-" if joined else "none",
            "marker": mark,
            "markersize": 3.5,
        }
        # Highlighted rows are drawn in full over a faint line of all rows.
        if any(series.highlighted):
            axes.plot(series.places, series.values, color=colour, alpha=_FAINT, **style)
        shown = [
            value if marked or not any(series.highlighted) else math.nan
            for value, marked in zip(
                series.values, series.highlighted or [True] * len(series.values), strict=True
            )
        ]
        axes.plot(series.places, shown, color=colour, label=series.label, **style)
        if series.bounds:
            low, high = zip(*series.bounds, strict=True)
            axes.fill_between(series.places, low, high, color=colour, alpha=_BAND, linewidth=0)
        if not all(map(math.isnan, series.points)):
            axes.plot(
                series.places,
                series.points,
                color=colour,
                label=f"{series.label}, measured",
                **_POINT,
            )
    _shade(axes, all_series)
    if not values.log:
        from_zero(
            axes, [value for series in all_series for value in (*series.values, *series.points)]
        )


def _shade(axes: Axes, all_series: Sequence[Series]) -> None:
    highlighted = {
        place
        for series in all_series
        for place, marked in zip(series.places, series.highlighted, strict=False)
        if marked
    }
    # Consecutive numbers have the same difference to their rank: each group is one interval.
    # Consecutive numbers have the same difference to their rank: each group is one interval.
    numbered = enumerate(sorted(highlighted))
    for first, (_, same) in enumerate(groupby(numbered, key=lambda pair: pair[1] - pair[0])):
        places = [place for _, place in same]
        label = "" if first else "steady state"
        axes.axvspan(places[0] - 0.5, places[-1] + 0.5, color=SHADE, alpha=0.08, lw=0, label=label)
