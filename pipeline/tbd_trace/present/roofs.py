"""The roofline plot: what was achieved under what the device allows.

Williams, Waterman, Patterson: Roofline (CACM 52:4, 2009).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from matplotlib.axes import Axes

from tbd_trace.present.palette import colours
from tbd_trace.present.series import Axis, Series
from tbd_trace.present.values import scale, shorten

_NAMED = 6
_NAME_WIDTH = 32
_MARKERS = ("o", "s", "^", "D", "v", "P")


def roofline(axes: Axes, series: Sequence[Series], values: Axis) -> None:
    """Draw points under their roofs, on logarithmic axes, and name the first ones.

    A roof is the smaller of the peak and of what memory can feed: slope times place.
    """
    axes.set_xscale("log")
    axes.set_yscale("log")
    places = [place for one in series for place in one.places if place and place > 0]
    for number, (colour, one) in enumerate(zip(colours(series), series, strict=True)):
        axes.plot(
            one.places,
            one.values,
            linestyle="none",
            marker=_MARKERS[number % len(_MARKERS)],
            markersize=5,
            color=colour,
            label=one.label,
        )
        for peak, slope in one.roofs:
            _roof(axes, (peak, slope), places, colour, _called(one.label, peak, slope, values))
        for place, value, name in list(zip(one.places, one.values, one.names, strict=False))[
            :_NAMED
        ]:
            if math.isfinite(value):
                axes.annotate(
                    shorten(name, _NAME_WIDTH), (place, value), (5, 3),
                    textcoords="offset points", fontsize=7, annotation_clip=True,
                )  # fmt: skip


def _roof(
    axes: Axes, roof: tuple[float, float], places: Sequence[float], colour: str, label: str
) -> None:
    peak, slope = roof
    ridge = peak / slope
    low, high = min(*places, ridge) / 3, max(*places, ridge) * 3
    ends = [low, ridge, high]
    heights = [min(peak, slope * place) for place in ends]
    axes.plot(ends, heights, color=colour, linewidth=1.2, label=label)


def _called(label: str, peak: float, slope: float, values: Axis) -> str:
    def amount(size: float, unit: str) -> str:
        divisor, scaled = scale(size, unit)
        return f"{size / divisor:.4g} {scaled}"

    return f"{label} roof: {amount(peak, values.unit or '')}, {amount(slope, 'byte/s')}"
