"""Draw values over time as a heat map with one row per series."""

from __future__ import annotations

import math
from collections.abc import Sequence

from matplotlib.axes import Axes

from tbd_trace.present.names import shortened
from tbd_trace.present.palette import HEAT
from tbd_trace.present.series import LABEL_WIDTH, Axis, Series

_UNKNOWN = "#EEEEEE"


def heatmap(axes: Axes, all_series: Sequence[Series], values: Axis) -> None:
    """Draw a row of cells per series, and a colour bar.

    Cells extend from their places to their ends.
    """
    known = [value for series in all_series for value in series.values if math.isfinite(value)]
    # Percentages always span 0 to 100, so that plots are comparable.
    highest = 100.0 if values.label.endswith("%)") else max(known, default=1.0)
    axes.set_facecolor(_UNKNOWN)
    for number, series in enumerate(all_series):
        mesh = axes.pcolormesh(
            [*series.places, series.ends[-1]],
            [number - 0.4, number + 0.4],
            [series.values],
            cmap=HEAT,
            vmin=0,
            vmax=highest,
            edgecolors="face",  # no seams between cells
            linewidth=0.2,
        )
    labels = shortened([series.label for series in all_series], LABEL_WIDTH)
    axes.set_yticks(range(len(all_series)), [labels[series.label] for series in all_series])
    axes.set_ylim(len(all_series) - 0.5, -0.5)  # the first on top
    figure = axes.get_figure()
    assert figure is not None
    shades = figure.colorbar(mesh, ax=axes, label=values.label, aspect=8, pad=0.02).solids
    assert shades is not None
    shades.set(rasterized=False, edgecolor="face")  # vector shapes, not an embedded image
