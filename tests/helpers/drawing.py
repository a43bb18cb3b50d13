"""Drawing made rows, and looking at the figures that come of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import polars as pl
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tbd_trace.analysis.report.page import Plot as Drawn
from tbd_trace.analysis.report.report_query import Answer
from tbd_trace.present import plot as plots
from tbd_trace.query import Plot

EMPTY = b'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1"></svg>'


def collected(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """Return a list that figures are added to when they are saved."""
    figures: list[Figure] = []
    save = Figure.savefig

    def keep(figure: Figure, *args: Any, **kwargs: Any) -> None:
        figures.append(figure)
        save(figure, *args, **kwargs)

    monkeypatch.setattr(Figure, "savefig", keep)
    return figures


def render(
    frame: pl.DataFrame,
    plot: Plot,
    units: Mapping[str, str | None] | None = None,
    names: Mapping[str, str] | None = None,
) -> bytes:
    """Return the SVG of a drawing titled Drawn."""
    return plots.render(
        frame, plot, title="Drawn", form="svg", units=units or {}, trace_names=names or {}
    )


def legend(axes: Axes) -> list[str]:
    """Return the texts of a legend, none where there is none."""
    found = axes.get_legend()
    return [text.get_text() for text in found.get_texts()] if found else []


def place_names(axes: Axes) -> list[str]:
    """Return the names along the axis of lying bars or rows."""
    return [label.get_text() for label in axes.get_yticklabels()]


def undrawn(answer: Answer, _: Mapping[str, str], caption: str) -> Callable[[], Drawn]:
    """Stand in for a report's plots, which take half of its time, by a plot without lines."""
    return lambda: Drawn(EMPTY, "", answer.label, answer.frame, caption)
