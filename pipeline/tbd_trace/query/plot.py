"""The ``[plot]`` table of a query file's header: how its answer is drawn.

``[[plot]]`` may be written several times: the first whose columns hold values is drawn.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

KINDS = {
    *("line", "scatter", "histogram", "bar", "stacked_bar", "barh", "grouped_barh"),
    *("stacked_barh", "stacked_area", "binned", "heatmap", "roofline"),
}
"""The kinds of plots that can be drawn."""


@dataclass(frozen=True, slots=True)
class Plot:
    """A plot of the rows, as ``[plot]`` of a header declares it.

    Where ``x``, ``series`` or ``panels`` is a list, the columns whose values differ form the
    label: the devices for one trace with two GPUs, the traces for two traces with one GPU each.
    """

    # line, scatter, histogram, bar, stacked_bar, barh, grouped_barh, stacked_barh, stacked_area,
    # binned, heatmap or roofline
    kind: str
    x: str | list[str]  # column along the axis of categories or of the independent variable
    y: list[str] | list[list[str]]  # columns drawn against it; each inner list has a separate scale
    series: str | list[str] | None = None  # column whose values make separate lines or groups
    title: str = ""  # title of the figure; the query's title if empty
    # maximum number of rows; None draws all, of horizontal bars the first 100
    limit: int | None = None
    # columns whose values form panels with separate scales; without any, each trace has a panel and
    # all share their scales
    panels: list[str] = field(default_factory=list)
    # column with the ends of the intervals that begin at x (binned, heatmap)
    x_end: str | None = None
    start: str | None = None  # column with the begins of bars, in the unit of y (stacked_barh)
    x_title: str = ""  # title of the x axis; by default the name of x
    log: list[str] = field(default_factory=list)  # axes that are logarithmic: x, y
    # column that is true for rows of the steady state; other rows are drawn fainter
    window: str | None = None
    # columns with the lower and upper bound of y (line)
    band: list[str] = field(default_factory=list)
    points: str | None = None  # column with measured values of y, drawn as single points (line)
    # column with a peak of y, and column with the most y per x (roofline)
    roof: list[str] = field(default_factory=list)
    label: list[str] = field(default_factory=list)  # columns that name the points (roofline)
    # column drawn as a line with its own axis on the right (bar, stacked_bar); one value per x
    secondary: str | None = None
    otherwise: Plot | None = None  # the plot for results without values in x or in y

    @property
    def places(self) -> list[str]:
        return [self.x] if isinstance(self.x, str) else self.x

    @property
    def keys(self) -> list[str]:
        return [self.series] if isinstance(self.series, str) else self.series or []

    @property
    def groups(self) -> list[list[str]]:
        """Columns that share a scale, a list for each of the scales."""
        lists = [column for column in self.y if isinstance(column, list)]
        return lists or [[column for column in self.y if isinstance(column, str)]]

    @property
    def columns(self) -> set[str]:
        drawn = [*self.places, *self.keys, *self.panels, *self.roof, *self.label, *self.band]
        drawn += [column for group in self.groups for column in group]
        optional = (self.x_end, self.start, self.window, self.secondary, self.points)
        return {*drawn, *filter(None, optional)}


def parse_plot(tables: dict[str, Any] | list[dict[str, Any]]) -> Plot:
    """Parse ``[plot]`` of a header; of several tables each is the fallback of the one before.

    Raises:
        TypeError: a table is invalid.
    """
    first, *others = tables if isinstance(tables, list) else [tables]
    for key in ("y", "panels", "log", "label", "roof", "band"):
        if not isinstance(first.get(key, []), list):
            raise TypeError(f"{key} of its plot is not a list of names")
    plot = Plot(**first, otherwise=parse_plot(others) if others else None)
    if not plot.columns or not all(isinstance(name, str) for name in plot.columns):
        raise TypeError("its plot names no columns")
    if plot.kind not in KINDS:
        raise TypeError(f"a plot is a {', '.join(sorted(KINDS))}, not a {plot.kind}")
    if plot.secondary is not None and plot.kind not in {"bar", "stacked_bar"}:
        raise TypeError(f"a {plot.kind} plot has no secondary axis; bar and stacked_bar have")
    if (plot.band or plot.points) and plot.kind != "line":
        raise TypeError(f"a {plot.kind} plot has neither band nor points; line has")
    if plot.kind in {"binned", "heatmap"} and plot.x_end is None:
        raise TypeError(
            f"a {plot.kind} plot needs x_end, the column with the ends of the intervals"
        )
    return plot
