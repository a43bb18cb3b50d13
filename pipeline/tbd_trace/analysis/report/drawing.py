"""Draw the plots of a report as inline SVG with alternative texts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import matplotlib as mpl
import polars as pl

from tbd_trace.analysis.report.page import Note, Plot
from tbd_trace.analysis.report.report_query import Answer
from tbd_trace.errors import CannotAnswerError, UsageError
from tbd_trace.present import plot as plots
from tbd_trace.present.panels import arrange
from tbd_trace.present.values import scale
from tbd_trace.query import Plot as Drawn

# Text as SVG text: smaller than outlines, searchable, and in the colour and font of the page.
_RC: dict[Any, Any] = {"svg.fonttype": "none", "savefig.transparent": True}
# Rows of kinds of which the renderer does not limit the number: bars, and instants of areas, of
# which each series is a single shape.
_MOST = {"bar": 400, "stacked_bar": 400, "stacked_area": 20_000}
_MOST_POINTS = 4000
_KINDS = {
    "line": "Lines",
    "scatter": "Points",
    "histogram": "Histogram",
    "binned": "Histogram",
    "stacked_area": "Stacked areas",
    "heatmap": "Strip of colours",
    "roofline": "Roofline plot",
}


def plot_block(answer: Answer, trace_names: Mapping[str, str], caption: str = "") -> Plot | Note:
    """Draw the plot of an answer, or return a note with the reason why it is not drawn.

    Args:
        answer: result of a query with a ``[plot]`` header.
        caption: title of the plot, by default that of the query.
    """
    drawn = answer.query.plot
    assert drawn is not None
    caption = caption or drawn.title or answer.query.title
    try:
        chosen, _ = arrange(answer.frame, drawn, trace_names, answer.units)
        _check_size(answer, chosen.kind)
        with mpl.rc_context(_RC):
            svg = plots.render(
                answer.frame,
                replace(drawn, title=""),
                title="",
                form="svg",
                units=answer.units,
                trace_names=trace_names,
            )
    except (CannotAnswerError, UsageError) as error:
        return Note(f"{caption} is not drawn: {error}")
    alt = f"{caption}. {in_words(answer.frame, chosen, answer.units)}"
    return Plot(svg, alt, answer.label, answer.frame, caption)


def _check_size(answer: Answer, kind: str) -> None:
    # More marks cannot be distinguished, and make the page slow.
    most, rows = _MOST.get(kind, _MOST_POINTS), answer.frame.height
    if rows > most:
        raise UsageError(f"{rows:,} rows are too many; `{answer.command}` has them")


def in_words(frame: pl.DataFrame, drawn: Drawn, units: Mapping[str, str | None]) -> str:
    """Describe a plot for screen readers.

    Args:
        drawn: the plot, with a single column or a title for its x axis.
    """
    columns = [column for group in drawn.groups for column in group]
    along = drawn.x_title or " and ".join(_words(name) for name in drawn.places)
    ranges = filter(None, (_range(frame[column], units.get(column)) for column in columns))
    return (
        f"{_KINDS.get(drawn.kind, 'Bars')} by {along}: {'; '.join(ranges)}. "
        "The numbers are in its CSV."
    )


def _range(values: pl.Series, unit: str | None) -> str:
    known = values.drop_nulls()
    if known.is_empty() or not known.dtype.is_numeric():
        return ""
    least, most = (float(edge) for edge in (known.min(), known.max()))  # type: ignore[arg-type]
    divisor, read_in = scale(max(abs(least), abs(most)), unit or "")
    between = f"from {least / divisor:.4g} to {most / divisor:.4g} {read_in}".strip()
    return f"{_words(values.name)} {between}"


def _words(column: str) -> str:
    return column.replace("_", " ")
