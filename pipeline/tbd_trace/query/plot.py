"""The ``[plot]`` table of a query file's header: how its answer is drawn.

``[[plot]]`` may be written several times: the first whose columns hold values is drawn.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

KINDS = {
    *("line", "scatter", "histogram", "bar", "stacked_bar", "barh", "grouped_barh"),
    *("stacked_barh", "binned", "heatmap", "roofline"),
}
"""The kinds of plots that can be drawn."""


@dataclass(frozen=True, slots=True)
class Plot:
    """How to draw the answer where people look rather than read.

    Where ``x``, ``series`` and ``panels`` are lists of columns, those in which rows differ name
    them together: of a trace with two GPUs the devices, of two traces with a GPU each the traces.

    Attributes:
        kind: line, scatter, histogram, bar, stacked_bar, barh, grouped_barh, stacked_barh, binned,
            heatmap or roofline.
        x: column along the axis of categories or of the independent variable.
        y: columns drawn against it; lists of columns are drawn beside each other, each with a scale
            of its own.
        series: column whose values make separate lines or groups.
        title: title of the figure; the query's title if empty.
        limit: draw at most this many rows, the first ones; None for all, of bars that lie the first
            100.
        panels: columns whose values make panels of their own, with scales of their own; without
            any, each trace has a panel, all on the same scales.
        x_end: column with the ends of the stretches that begin at x (binned, heatmap).
        x_title: what the axis of x is called; x in words if empty.
        log: axes that are logarithmic: x, y.
        window: column that is true in the rows of the steady state; the others are drawn fainter.
        roof: column with a peak of y, and column with the most y per x (roofline).
        label: columns that name the points (roofline).
        otherwise: what is drawn where no row has a value in x, or none has one in y.
    """

    kind: str
    x: str | list[str]
    y: list[str] | list[list[str]]
    series: str | list[str] | None = None
    title: str = ""
    limit: int | None = None
    panels: list[str] = field(default_factory=list)
    x_end: str | None = None
    x_title: str = ""
    log: list[str] = field(default_factory=list)
    window: str | None = None
    roof: list[str] = field(default_factory=list)
    label: list[str] = field(default_factory=list)
    otherwise: Plot | None = None

    @property
    def places(self) -> list[str]:
        """Columns that name a row along the axis of x."""
        return [self.x] if isinstance(self.x, str) else self.x

    @property
    def keys(self) -> list[str]:
        """Columns that tell the series apart."""
        return [self.series] if isinstance(self.series, str) else self.series or []

    @property
    def groups(self) -> list[list[str]]:
        """Columns that share a scale, a list for each of the scales."""
        lists = [column for column in self.y if isinstance(column, list)]
        return lists or [[column for column in self.y if isinstance(column, str)]]

    @property
    def columns(self) -> set[str]:
        """Every column that it draws."""
        drawn = [*self.places, *self.keys, *self.panels, *self.roof, *self.label]
        drawn += [column for group in self.groups for column in group]
        return {*drawn, *filter(None, (self.x_end, self.window))}


def parse_plot(tables: dict[str, Any] | list[dict[str, Any]]) -> Plot:
    """Return the plot of a header: of several ways to draw each leads to the next.

    Raises:
        TypeError: a table is not what it should be.
    """
    first, *others = tables if isinstance(tables, list) else [tables]
    plot = Plot(**first, otherwise=parse_plot(others) if others else None)
    if not plot.columns or not all(isinstance(name, str) for name in plot.columns):
        raise TypeError("its plot names no columns")
    if plot.kind not in KINDS:
        raise TypeError(f"a plot is a {', '.join(sorted(KINDS))}, not a {plot.kind}")
    if plot.kind in {"binned", "heatmap"} and plot.x_end is None:
        raise TypeError(f"a {plot.kind} plot needs x_end, the column where what begins at x ends")
    return plot
