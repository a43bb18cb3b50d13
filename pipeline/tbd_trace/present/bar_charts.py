"""Draw vertical and horizontal bars and histograms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from tbd_trace.present.names import shortened
from tbd_trace.present.palette import colours, hatch
from tbd_trace.present.series import LABEL_WIDTH, Axis, Series

_SLANT: dict[str, Any] = {"rotation": 30, "ha": "right", "rotation_mode": "anchor"}
_VERTICAL_LABEL_WIDTH = 32
_LEAST_LABEL = 0.001  # smaller values at bars would have an exponent
_FEW_BARS = 4  # fewer bars leave space at the sides
_MAX_BINS = 40
_BAR_WIDTH = 0.8  # of the distance between places
_HEADROOM = 1.08  # upper limit of the axis, relative to the largest value


def from_zero(axes: Axes, values: Sequence[float]) -> None:
    """Start the value axis at 0 unless a value is negative."""
    # Heights are comparable only from 0.
    finite = [value for value in values if math.isfinite(value)]
    if finite and min(finite) >= 0:
        # Panels share the axis, so an earlier panel's limit is a minimum.
        drawn_before = axes.get_ylim()[1] if axes.get_ylim()[0] == 0 else 0.0
        axes.set_ylim(0, max(drawn_before, max(finite) * _HEADROOM) or 1.0)


def vertical_bars(axes: Axes, all_series: Sequence[Series], along: Axis, *, stacked: bool) -> None:
    """Draw vertical bars, stacked or grouped by series."""
    at = _positions(axes, all_series, along)
    width = _BAR_WIDTH if stacked else _BAR_WIDTH / len(all_series)
    base = dict.fromkeys(at, 0.0)
    for number, (colour, series) in enumerate(zip(colours(all_series), all_series, strict=True)):
        shift = 0.0 if stacked else (number - (len(all_series) - 1) / 2) * width
        axes.bar(
            [at[place] + shift for place in series.places],
            series.values,
            width,
            bottom=[base[place] for place in series.places] if stacked else 0.0,
            color=colour,
            hatch=hatch(series),
            label=series.label,
        )
        _add_to_base(base, series)
    tops = [value for series in all_series for value in series.values]
    from_zero(axes, [*base.values(), *tops] if stacked else tops)


def _positions(axes: Axes, all_series: Sequence[Series], along: Axis) -> dict[Any, float]:
    # Numbers are their own positions; names get consecutive positions with tick labels.
    places = list(dict.fromkeys(place for series in all_series for place in series.places))
    if along.is_quantity:
        return {place: float(place) for place in places}
    # 90 characters fit along the axis of a plot.
    slanted = sum(min(len(place), _VERTICAL_LABEL_WIDTH) for place in places) > 90
    labels = shortened(places, _VERTICAL_LABEL_WIDTH)
    axes.set_xticks(
        range(len(places)), [labels[place] for place in places], **_SLANT if slanted else {}
    )
    spare = max(0, _FEW_BARS - len(places)) / 2  # a single bar would fill the plot
    axes.set_xlim(-0.6 - spare, len(places) - 0.4 + spare)
    return {place: float(number) for number, place in enumerate(places)}


def horizontal_bars(axes: Axes, all_series: Sequence[Series], *, stacked: bool) -> None:
    """Draw horizontal bars, stacked or grouped by series."""
    places = list(
        dict.fromkeys(place for series in all_series for place in series.lanes or series.places)
    )
    at = {place: number for number, place in enumerate(places)}
    width = _BAR_WIDTH if stacked else _BAR_WIDTH / len(all_series)
    base = dict.fromkeys(places, 0.0)
    for number, (colour, series) in enumerate(zip(colours(all_series), all_series, strict=True)):
        shift = 0.0 if stacked else (number - (len(all_series) - 1) / 2) * width
        bars = axes.barh(
            [at[place] + shift for place in series.places],
            series.values,
            width,
            left=(series.starts or [base[place] for place in series.places]) if stacked else 0.0,
            color=colour,
            hatch=hatch(series),
            label=series.label,
        )
        if not stacked:
            axes.bar_label(
                bars, labels=[_bar_label(v) for v in series.values], padding=3, fontsize=8
            )
        _add_to_base(base, series)
    names = [place if isinstance(place, str) else f"{place:,.15g}" for place in places]
    labels = shortened(names, LABEL_WIDTH)
    axes.set_yticks(range(len(places)), [labels[name] for name in names])
    axes.set_ylim(len(places) - 0.5, -0.5)  # the first row on top
    axes.margins(x=0.1)


def _add_to_base(base: dict[Any, float], series: Series) -> None:
    for place, value in zip(series.places, series.values, strict=True):
        base[place] += 0.0 if math.isnan(value) else value


def _bar_label(value: float) -> str:
    if math.isnan(value):
        return ""
    if 0 < abs(value) < _LEAST_LABEL:
        return f"<{_LEAST_LABEL}" if value > 0 else f"-<{_LEAST_LABEL}"
    return f"{value:,.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def stacked_areas(axes: Axes, all_series: Sequence[Series]) -> None:
    """Draw each series on top of the previous ones, as steps: a value holds until the next."""
    base: dict[Any, float] = {}
    for colour, series in zip(colours(all_series), all_series, strict=True):
        low = [base.get(place, 0.0) for place in series.places]
        height = [0.0 if math.isnan(value) else value for value in series.values]
        high = [bottom + value for bottom, value in zip(low, height, strict=True)]
        axes.fill_between(
            series.places,
            low,
            high,
            step="post",
            facecolor=colour,
            edgecolor="white",  # of the hatch
            lw=0,
            hatch=hatch(series),
            label=series.label,
        )
        base |= dict(zip(series.places, high, strict=True))
    from_zero(axes, list(base.values()))


def histogram(axes: Axes, all_series: Sequence[Series]) -> None:
    """Draw a histogram of each series with bins of equal width."""
    # The number of bins is the square root of the number of values, a common default.
    values = [[value for value in series.values if math.isfinite(value)] for series in all_series]
    largest = max(len(numbers) for numbers in values)
    axes.hist(
        values,
        bins=min(_MAX_BINS, max(5, math.ceil(math.sqrt(largest)))),
        color=colours(all_series),
        label=[series.label for series in all_series],
    )
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))


def binned_bars(axes: Axes, all_series: Sequence[Series], along: Axis) -> None:
    """Draw a bar over each bin; several series share the displayed width of the bin."""
    for number, (colour, series) in enumerate(zip(colours(all_series), all_series, strict=True)):
        edges = [
            [_edge(start, end, (number + step) / len(all_series), log=along.log) for step in (0, 1)]
            for start, end in zip(series.places, series.ends, strict=True)
        ]
        axes.bar(
            [left for left, _ in edges],
            series.values,
            [right - left for left, right in edges],
            align="edge",
            color=colour,
            edgecolor="white",
            linewidth=0.4,
            hatch=hatch(series),
            label=series.label,
        )
    from_zero(axes, [value for series in all_series for value in series.values])


def _edge(start: float, end: float, part: float, *, log: bool) -> float:
    # Interpolates in the scale of the axis, so that the parts look equally wide.
    if not log:
        return start + (end - start) * part
    lowest = start if start > 0 else end / 2  # a logarithmic axis has no zero
    return float(lowest * (end / lowest) ** part)
