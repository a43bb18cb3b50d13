"""Draw a column as a line on a second axis, over the bars of a panel."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import polars as pl
from matplotlib.axes import Axes

from tbd_trace.present.artists import label_ticks
from tbd_trace.present.bar_charts import from_zero
from tbd_trace.present.series import Axis, words
from tbd_trace.present.values import text

if TYPE_CHECKING:
    from tbd_trace.query import Plot

_COLOUR = "#000000"  # no colour of the bars
_HALO = "#FFFFFF"  # separates the line from dark bars


def draw_secondary(
    axes: Axes, panel: pl.DataFrame, plot: Plot, along: Axis, values: Axis
) -> Axes | None:
    """Draw the line and return its axes, None if the panel has no value."""
    column = str(plot.secondary)
    # The value is a property of the place and repeated in each of its rows.
    place = plot.places[0]
    rows = panel.select(place, column).unique(maintain_order=True)
    known = rows.filter(pl.col(column).is_not_null())
    if known.is_empty():
        return None
    at = {
        text(name): number for number, name in enumerate(panel[place].unique(maintain_order=True))
    }
    places = [
        float(name) / along.divisor if along.is_quantity else float(at[text(name)])
        for name in known[place].to_list()
    ]
    heights = [float(value) / values.divisor for value in known[column].to_list()]
    second = axes.twinx()
    for width, colour in ((3.6, _HALO), (1.6, _COLOUR)):
        second.plot(
            places,
            heights,
            color=colour,
            lw=width,
            marker="o",
            markersize=3 + width,
            label=words(column) if colour == _COLOUR else "",
        )
    second.spines["right"].set_visible(True)
    second.set_ylabel(values.label)
    label_ticks(second.yaxis, values)
    from_zero(second, [height for height in heights if math.isfinite(height)])
    return second
