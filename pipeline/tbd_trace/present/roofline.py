"""Draw roofline plots (Williams, Waterman, Patterson: Roofline, CACM 52:4, 2009)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from matplotlib.axes import Axes

from tbd_trace.present.names import shortened
from tbd_trace.present.palette import colours, marker
from tbd_trace.present.series import Axis, Series
from tbd_trace.present.values import scale

_NUMBERED = 12  # named points; more entries would not fit the legend
_NAME_WIDTH = 36
_ROOF = "#444444"
_DASHES = ("-", "--", "-.", ":")
_WIDER = 3  # the roofs extend beyond the points by this factor


def roofline(axes: Axes, all_series: Sequence[Series], values: Axis) -> None:
    """Draw points and roofs on logarithmic axes, and number the first names.

    A roof is the minimum of the peak and of the memory bandwidth times the arithmetic intensity.
    """
    _roofs(axes, all_series, values)
    numbers: dict[str, int] = {}
    for colour, series in zip(colours(all_series), all_series, strict=True):
        points = list(_points(series))
        axes.plot(
            [place for place, _, _ in points],
            [value for _, value, _ in points],
            linestyle="none",
            marker=marker(series),
            markersize=5,
            alpha=0.8,
            color=colour,
            label=series.label,
        )
        for place, value, name in points:
            if name and (name in numbers or len(numbers) < _NUMBERED):
                mark = str(numbers.setdefault(name, len(numbers) + 1))
                axes.annotate(mark, (place, value), (4, 3), textcoords="offset points", fontsize=7)
    for name, label in shortened(numbers, _NAME_WIDTH).items():
        axes.plot([], [], linestyle="none", label=f"{numbers[name]}  {label}")


def _points(series: Series) -> Iterator[tuple[float, float, str]]:
    # Logarithmic axes show positive numbers only.
    names = series.names or [""] * len(series.places)
    for place, value, name in zip(series.places, series.values, names, strict=True):
        if place > 0 and math.isfinite(value) and value > 0:
            yield place, value, name


def _roofs(axes: Axes, all_series: Sequence[Series], values: Axis) -> None:
    roofs = {_called(*roof, values): roof for series in all_series for roof in series.roofs}
    places = [place for series in all_series for place, _, _ in _points(series)]
    # The ridge point, where the roof bends, is always shown.
    places += [peak / slope for peak, slope in roofs.values()]
    for number, (label, (peak, slope)) in enumerate(roofs.items()):
        ends = [min(places) / _WIDER, peak / slope, max(places) * _WIDER]
        axes.plot(
            ends,
            [min(peak, slope * place) for place in ends],
            color=_ROOF,
            linewidth=1.2,
            linestyle=_DASHES[number % len(_DASHES)],
            label=label,
        )


def _called(peak: float, slope: float, values: Axis) -> str:
    def amount(size: float, unit: str) -> str:
        divisor, scaled = scale(size, unit)
        return f"{size / divisor:.4g} {scaled}"

    return f"roof: {amount(peak, values.unit or '')}, {amount(slope, 'byte/s')}"
