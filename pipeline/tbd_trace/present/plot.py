"""Rows as a plot, as the ``[plot]`` table of a query's header asks for."""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import polars as pl
from matplotlib.figure import Figure

from tbd_trace.errors import CannotAnswerError, UsageError
from tbd_trace.present.marks import LABEL_WIDTH, Axis, Series, draw, is_quantity, words
from tbd_trace.present.values import scale, shorten, text

if TYPE_CHECKING:
    from tbd_trace.query import Plot

EXTENSIONS = (".svg", ".png", ".pdf")
"""Extensions of the files that a plot can be written to."""

_RC: dict[Any, Any] = {
    "axes.axisbelow": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 10,
    "font.size": 9,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "text.parse_math": False,  # a $ in a kernel's name is a dollar
    "svg.hashsalt": "tbd-trace",  # the same rows give the same file
}
_WIDTH_INCHES = 9
_MAX_TRACES = 8
_MAX_PANELS = 16


def check_path(path: Path) -> None:
    """Refuse a file whose extension is none of a plot's.

    Raises:
        UsageError: the extension is neither .svg, .png nor .pdf.
    """
    if path.suffix.lower() not in EXTENSIONS:
        raise UsageError(f"{path}: a plot is written as {', '.join(EXTENSIONS)}; change its name")


def render(
    frame: pl.DataFrame,
    plot: Plot,
    *,
    title: str,
    form: str,
    units: Mapping[str, str | None],
    trace_names: Mapping[str, str],
) -> bytes:
    """Return the drawing of a frame.

    Several traces are drawn one below the other on the same scales, unless the plot itself tells
    them apart (``trace_id`` as its x or series) or has panels of its own. Lying bars of several
    series are stacked, those of several columns stand beside each other.

    Args:
        frame: the rows, in the order in which they are drawn.
        plot: what to draw.
        title: what the plot shows; the names of the traces are added.
        form: ``svg``, ``png`` or ``pdf``.
        units: unit per column.
        trace_names: name per trace id.

    Raises:
        CannotAnswerError: there is nothing to draw.
        UsageError: there are more traces than a plot has room for.
    """
    panels = _panels(frame, plot, trace_names)
    drawn = pl.concat([panel for _, panel in panels])
    values, along = _axis(plot.y, drawn, units), _along(plot, drawn, units)
    heights = [_height(panel, plot) for _, panel in panels]
    with mpl.rc_context(_RC):
        figure = Figure(figsize=(_WIDTH_INCHES, 0.6 + sum(heights)), layout="constrained")
        figure.suptitle(plot.title or title, x=0.01, ha="left", fontsize=12, fontweight="bold")
        grid = figure.subplots(
            len(panels),
            squeeze=False,
            sharex=not plot.panels and (plot.kind in {"barh", "histogram"} or along.is_quantity),
            sharey=not plot.panels and plot.kind != "barh",
            height_ratios=heights,
        )
        for axes, (name, panel) in zip(grid[:, 0], panels, strict=True):
            kind = "stacked_barh" if plot.kind == "barh" and plot.series else plot.kind
            series = _series(panel, plot, values, along, drawn if plot.panels else panel)
            draw(axes, kind, series, along, values, own_scales=bool(plot.panels))
            axes.set_title(name)
        return _saved(figure, form)


def _saved(figure: Figure, form: str) -> bytes:
    buffer = io.BytesIO()
    undated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
    with warnings.catch_warnings(action="ignore"):  # a name in a script that the font lacks
        figure.savefig(buffer, format=form, dpi=150, metadata=undated.get(form))
    return buffer.getvalue()


def _panels(
    frame: pl.DataFrame, plot: Plot, trace_names: Mapping[str, str]
) -> list[tuple[str, pl.DataFrame]]:
    """Return the rows to draw per trace, with the heading of each."""
    drawn = frame.filter(pl.any_horizontal(pl.col(name).is_not_null() for name in plot.y))
    if drawn.is_empty():
        raise CannotAnswerError("nothing to draw: the query returned no row with a value")
    if plot.panels:
        return _named_panels(drawn, plot)
    if "trace_id" not in drawn.columns:
        return [("", _first(drawn, plot))]
    named = drawn.with_columns(pl.col("trace_id").replace(dict(trace_names)))
    if "trace_id" in (plot.x, plot.series):
        return [("", _first(named, plot))]
    parts = [part for _, part in drawn.group_by("trace_id", maintain_order=True)]
    if len(parts) > _MAX_TRACES:
        raise UsageError(f"a plot has room for {_MAX_TRACES} traces, not {len(parts)}; name fewer")
    return [
        (trace_names.get(part["trace_id"][0], str(part["trace_id"][0])), _first(part, plot))
        for part in parts
    ]


def _named_panels(drawn: pl.DataFrame, plot: Plot) -> list[tuple[str, pl.DataFrame]]:
    parts = [part for _, part in drawn.group_by(plot.panels, maintain_order=True)]
    if len(parts) > _MAX_PANELS:
        raise UsageError(
            f"a plot has room for {_MAX_PANELS} panels, not {len(parts)}; ask for less"
        )
    return [
        (", ".join(text(part[column][0]) for column in plot.panels), _first(part, plot))
        for part in parts
    ]


def _first(frame: pl.DataFrame, plot: Plot) -> pl.DataFrame:
    return frame if plot.limit is None else frame.head(plot.limit)


def _height(panel: pl.DataFrame, plot: Plot) -> float:
    """Return the height of a panel in inches: bars that lie need room for each label."""
    if plot.kind != "barh":
        return 2.6 if plot.panels else 3.6
    return max(1.6, 0.9 + 0.28 * panel[plot.x].n_unique() * (0.5 + 0.5 * len(plot.y)))


def _axis(columns: list[str], drawn: pl.DataFrame, units: Mapping[str, str | None]) -> Axis:
    """Return the axis that columns share: the scale on which their values read well, its label."""
    name = words(columns[0]) if len(columns) == 1 else ""
    found = {units.get(column) for column in columns}
    unit = found.pop() if len(found) == 1 else None
    if unit is None:
        return Axis(name)
    sizes = [abs(float(value)) for c in columns for value in drawn[c].drop_nulls().to_list()]
    divisor, scaled = scale(max(sizes, default=0.0), unit)
    return Axis(f"{name} ({scaled})" if name else scaled, divisor)


def _along(plot: Plot, drawn: pl.DataFrame, units: Mapping[str, str | None]) -> Axis:
    places = drawn[plot.x]
    if not is_quantity(places) or places.null_count():
        return Axis(words(plot.x), is_quantity=False)
    axis = _axis([plot.x], drawn, units)
    return Axis(axis.label, axis.divisor, whole=places.dtype.is_integer() and axis.divisor == 1)


def _series(
    panel: pl.DataFrame, plot: Plot, values: Axis, along: Axis, coloured: pl.DataFrame
) -> list[Series]:
    """Return one series per value column and, where the plot has them, per series value.

    Args:
        panel: the rows of the panel.
        plot: what to draw.
        values: axis of the values.
        along: the other axis.
        coloured: rows among whose series the colours are dealt out.
    """
    parts = panel.partition_by(plot.series, maintain_order=True) if plot.series else [panel]
    order = coloured[plot.series].unique(maintain_order=True).to_list() if plot.series else []
    found = []
    for part in parts:
        group = shorten(text(part[plot.series][0]), LABEL_WIDTH) if plot.series else ""
        first = order.index(part[plot.series][0]) * len(plot.y) if plot.series else 0
        for colour, column in enumerate(plot.y, first):
            several = len(plot.y) > 1 or not group
            label = ", ".join(filter(None, [group, words(column) if several else ""]))
            places, drawn = _places(part[plot.x], along), _values(part[column], values)
            found.append(Series(label, places, drawn, colour))
    return found


def _places(column: pl.Series, along: Axis) -> list[Any]:
    if along.is_quantity:
        return [place / along.divisor for place in column.to_list()]
    return [text(place) for place in column.to_list()]


def _values(column: pl.Series, axis: Axis) -> list[float]:
    """Return the values on the scale of their axis, NaN for NULL: nothing is drawn there."""
    return [math.nan if v is None else float(v) / axis.divisor for v in column.to_list()]
