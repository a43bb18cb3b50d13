"""Draw rows as described by the ``[plot]`` table of a query's header."""

from __future__ import annotations

import io
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape

import matplotlib as mpl
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import TightLayoutEngine
from matplotlib.text import Text

from tbd_trace.errors import UsageError
from tbd_trace.present.artists import HORIZONTAL, draw
from tbd_trace.present.panels import Panels, arrange
from tbd_trace.present.secondary import draw_secondary
from tbd_trace.present.series import Axis, Units, place_axis, series_of, value_axis, words
from tbd_trace.present.terminal import printable

if TYPE_CHECKING:
    from tbd_trace.query import Plot

EXTENSIONS = (".svg", ".png", ".pdf")
"""Extensions of plot files."""

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
    "text.parse_math": False,  # a $ in a kernel's name does not start a formula
    "svg.hashsalt": "tbd-trace",  # fixed ids: equal rows give equal files
}
_WIDTH_INCHES = 9
_INCHES_PER_POINT = 1 / 72
_BESIDE_SECOND_AXIS = 1.12  # of the width of a panel; ticks and label of the axis are before it
_INCHES_PER_ENTRY = 0.19  # of a legend
_PAD = 0.5  # margin in font heights
_KINDS = {
    "barh": "horizontal bars",
    "grouped_barh": "horizontal bars",
    "stacked_barh": "stacked horizontal bars",
}
_KINDS |= {"bar": "bars", "stacked_bar": "stacked bars", "binned": "histogram"}
_KINDS["stacked_area"] = "stacked areas"


def check_path(path: Path) -> None:
    """Check the extension of a plot file.

    Raises:
        UsageError: the extension is neither .svg, .png nor .pdf.
    """
    if path.suffix.lower() not in EXTENSIONS:
        raise UsageError(f"{path}: a plot is written as {', '.join(EXTENSIONS)}; rename it")


def render(
    frame: pl.DataFrame,
    plot: Plot,
    *,
    title: str,
    form: str,
    units: Units,
    trace_names: Mapping[str, str],
) -> bytes:
    """Draw a frame and return the file.

    Several traces are drawn in panels with common scales, unless ``trace_id`` is among the x or
    series columns or the plot defines panels. ``barh`` stacks several series, ``grouped_barh``
    draws them side by side; several value columns are always side by side.

    Args:
        frame: the rows, in the order of drawing.
        title: title of the figure; panels are titled with trace names.
        form: ``svg``, ``png`` or ``pdf``.

    Raises:
        CannotAnswerError: no row has a value to draw.
        UsageError: there are too many traces.
    """
    plot, panels = arrange(frame, plot, trace_names, units)
    drawn = pl.concat([panel for _, panel in panels])
    along = place_axis(plot, drawn, units)
    scales = [
        value_axis(group, drawn, units, log="y" in plot.log, start=plot.start)
        for group in plot.groups
    ]
    beyond = (
        value_axis([plot.secondary or ""], drawn, units, log=False) if plot.secondary else along
    )
    heights = [_height(panel, plot, len(panels)) for _, panel in panels]
    title = plot.title or title
    with mpl.rc_context(_RC):
        figure = _empty_figure(sum(heights), printable(title))
        grid = figure.subplots(
            len(panels),
            len(scales),
            squeeze=False,
            **_shared(plot, along),
            height_ratios=heights,
        )
        titles: list[Text] = []
        for row, (name, panel) in zip(grid, panels, strict=True):
            titles.append(row[0].set_title(printable(name)))
            # With named panels, a series has the same colour in each of them.
            coloured = drawn if plot.panels else panel
            for axes, columns, values in zip(row, plot.groups, scales, strict=True):
                kind = "stacked_barh" if plot.kind == "barh" and plot.keys else plot.kind
                draw(
                    axes,
                    kind,
                    series_of(panel, plot, columns, (along, values), coloured),
                    along,
                    values,
                )
                second = None
                if plot.secondary and not panel[plot.secondary].is_null().all():
                    second = draw_secondary(axes, panel, plot, along, beyond)
                _legend(axes, plot, second, beside=len(scales) == 1)
        _hide_shared_labels(grid, plot, along)
        _lay_out(figure, titles)
        return _saved(figure, form, title, _described(plot, panels, scales, along))


def _empty_figure(inches: float, title: str) -> Figure:
    height = inches + 0.6  # title and labels of the x axis
    figure = Figure(figsize=(_WIDTH_INCHES, height))
    if title:
        top = 1 - _PAD * _RC["font.size"] * _INCHES_PER_POINT / height
        figure.suptitle(title, x=0.01, y=top, ha="left", fontsize=12, fontweight="bold")
    return figure


def _shared(plot: Plot, along: Axis) -> dict[str, Any]:
    # Arguments of Figure.subplots: the scale of values is common to all panels.
    horizontal = plot.kind in HORIZONTAL
    if plot.panels or plot.kind == "heatmap":
        return {"sharex": False, "sharey": "row" if horizontal else False}
    along_values = horizontal or plot.kind == "histogram"
    x = "col" if along_values or along.is_quantity else False
    return {"sharex": x, "sharey": "row" if horizontal else "col"}


def _hide_shared_labels(grid: Any, plot: Plot, along: Axis) -> None:
    # Labels of a shared axis are shown at the outermost panels only.
    shared = _shared(plot, along)
    for axes in grid.flat:
        place = axes.get_subplotspec()
        if shared["sharex"] and not place.is_last_row():
            axes.tick_params(labelbottom=False)
            axes.set_xlabel("")
        if shared["sharey"] == "row" and not place.is_first_col():
            axes.tick_params(labelleft=False)


def _legend(axes: Axes, plot: Plot, second: Axes | None, *, beside: bool) -> None:
    handles, labels = axes.get_legend_handles_labels()
    if second is not None:
        more = second.get_legend_handles_labels()
        handles, labels = [*handles, *more[0]], [*labels, *more[1]]
    if plot.kind == "heatmap" or not (plot.panels or len(labels) > 1):
        return
    if beside:
        x = 1.0 if second is None else _BESIDE_SECOND_AXIS
        axes.legend(handles, labels, loc="upper left", bbox_to_anchor=(x, 1.0))
    else:
        axes.legend(handles, labels, loc="best")


def _described(plot: Plot, panels: Panels, scales: list[Axis], along: Axis) -> str:
    # A sentence for screen readers.
    drawn = ", ".join(words(column) for group in plot.groups for column in group)
    kind = _KINDS.get(plot.kind, plot.kind)
    names = "; ".join(name for name, _ in panels if name)
    labels = ", ".join(dict.fromkeys(axis.label for axis in scales if axis.label))
    sentence = f"{kind.capitalize()} of {drawn} by {along.label}"
    sentence += f", in {labels}" if labels and labels != drawn else ""
    sentence += f", with a line of {words(plot.secondary)}" if plot.secondary else ""
    return printable(f"{sentence}. {names}." if names else f"{sentence}.")


def _lay_out(figure: Figure, titles: Sequence[Text]) -> None:
    # The layout is computed once here: a figure with a layout engine is drawn twice, and a given
    # rectangle, even that of the whole figure, is fitted twice.
    layout = TightLayoutEngine(pad=_PAD, rect=None)  # type: ignore[arg-type]
    with warnings.catch_warnings(action="ignore"):  # long labels leave no room for the axes
        layout.execute(figure)
        # A title that is too long for the figure is aligned to the right edge of its panel.
        for title in titles:
            if title.get_window_extent().x1 > figure.bbox.x1:
                title.set(x=1, horizontalalignment="right")


def _saved(figure: Figure, form: str, title: str, description: str) -> bytes:
    buffer = io.BytesIO()
    metadata: dict[str, Any] = {"Title": printable(title)}
    metadata |= {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(form, {})
    with warnings.catch_warnings(action="ignore"):  # the font lacks characters of some scripts
        figure.savefig(buffer, format=form, dpi=150, metadata=metadata)
    content = buffer.getvalue()
    return _with_description(content, description) if form == "svg" else content


def _with_description(svg: bytes, description: str) -> bytes:
    # Screen readers read <desc>, which matplotlib does not write.
    elements = f"</title>\n <desc>{escape(description)}</desc>".encode()
    return svg.replace(b"</title>", elements, 1).replace(b"<svg ", b'<svg role="img" ', 1)


def _height(panel: pl.DataFrame, plot: Plot, panels: int) -> float:
    # Inches. Each horizontal bar needs the height of its label.
    places = panel[plot.places[0]].n_unique()
    columns = max(len(group) for group in plot.groups)
    groups = panel[plot.keys[0]].n_unique() if plot.keys else 1
    match plot.kind:
        case "barh":
            return max(1.6, 0.9 + 0.28 * places * (0.5 + 0.5 * columns))
        case "stacked_barh":
            return max(1.6, 0.9 + 0.28 * places, 0.4 + _INCHES_PER_ENTRY * groups)
        case "grouped_barh":
            return max(1.6, 0.9 + 0.28 * places * (0.5 + 0.5 * groups))
        case "heatmap":
            return 1.0 + 0.3 * columns * groups
        case "roofline":
            return 4.2
        case _:
            return 2.6 if plot.panels else max(2.0, 3.9 - 0.3 * panels)
