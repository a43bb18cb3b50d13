"""Digests of the tables, exports and plots of each metric on generated traces.

    PYTHONPATH=tests/helpers python tests/generated/renderings.py

rewrites `renderings.csv`, which has a line with a digest for each metric and output format. With
the arguments `show METRIC FORMAT` the program prints the output instead.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text

from drawing import collected
from query_digests import Question, database_for, digest, questions, write
from tbd_trace.errors import TbdTraceError
from tbd_trace.present import Format, Style, render
from tbd_trace.present import plot as plots
from tbd_trace.query.header import Query
from tbd_trace.query.statements import fetch_rows

FILE = Path(__file__).resolve().parent / "renderings.csv"
_PRINTED = 30  # rows
_TRACES = 3  # in a plot
_DIGITS = 6  # of coordinates
_STYLES = {
    "wide": Style(width=200, colour=True),
    "narrow": Style(width=60),
    "records": Style(records=True, width=80),
    "plain": Style(plain=True),
}
_FORMS = (Format.CSV, Format.JSON, Format.MARKDOWN)


def drawn_questions() -> list[Question]:
    """Return the metrics, with their defaults."""
    return [each for each in questions() if each.folder == "metrics" and not each.parameters]


def renderings(question: Question) -> dict[str, str]:
    """Return the output of a metric by format."""
    with database_for(question) as database:
        query = database.ready(question.path.stem)
        frame = fetch_rows(database.connection, query.sql, None)
    units = {name: column.unit for name, column in query.columns.items()}
    few = frame.head(_PRINTED)
    found = {str(form): render(few, form).decode() for form in _FORMS}
    for name, style in _STYLES.items():
        found[name] = render(few, Format.TABLE, units=units, style=style).decode()
    if query.plot is not None and frame.height:
        found["plot"] = _drawing(query, frame, units)
    return found


def _drawing(query: Query, frame: pl.DataFrame, units: dict[str, str | None]) -> str:
    if "trace_id" in frame.columns:
        traces = frame["trace_id"].unique(maintain_order=True).to_list()[:_TRACES]
        frame = frame.filter(pl.col("trace_id").is_in(traces))
    with pytest.MonkeyPatch.context() as patch:
        figures = collected(patch)
        try:
            plots.render(
                frame, query.plot, title=query.title, form="svg", units=units, trace_names={}
            )
        except TbdTraceError as error:
            return str(error)
    return "\n".join(line for figure in figures for line in _described(figure))


def _described(figure: Figure) -> Iterator[str]:
    """Yield what a figure shows: texts, scales, and the data and style of each mark."""
    yield f"size {_numbers(figure.get_size_inches())} texts {_texts(figure.texts)}"
    for axes in figure.axes:
        yield f"axes {_numbers(axes.get_position().bounds)} {_texts([axes.title])}"
        for axis in (axes.xaxis, axes.yaxis):
            yield f"axis {axis.get_label_text()} {axis.get_scale()} {_texts(axis.get_ticklabels())}"
        yield f"limits {_numbers(axes.get_xlim())} {_numbers(axes.get_ylim())}"
        yield from _marks(axes)
        if legend := axes.get_legend():
            yield f"legend {_texts(legend.get_texts())}"


def _marks(axes: Axes) -> Iterator[str]:
    for line in axes.lines:
        style = (line.get_color(), line.get_linestyle(), line.get_marker(), line.get_alpha())
        yield f"line {style} {_numbers(line.get_xydata())}"
    for patch in axes.patches:
        yield f"patch {patch.get_facecolor()} {_numbers(patch.get_extents().bounds)}"
    for collection in axes.collections:
        parts: list[Callable[[], Any]] = [
            collection.get_offsets,
            collection.get_facecolor,
            collection.get_array,
        ]
        yield f"{type(collection).__name__} {[_numbers(part()) for part in parts]}"
    yield f"texts {_texts(axes.texts)}"


def _texts(texts: list[Text]) -> list[str]:
    return [text.get_text() for text in texts if text.get_visible()]


def _numbers(values: Any) -> Any:
    if values is None:
        return None
    if hasattr(values, "__len__"):
        return [_numbers(value) for value in values]
    return f"{float(values):.{_DIGITS}g}"


def lines() -> Iterator[tuple[str, str, str]]:
    """Yield metric, format and digest."""
    for question in drawn_questions():
        for form, text in renderings(question).items():
            yield str(question), form, digest(text)


def main() -> None:
    """Rewrite renderings.csv, or print one output."""
    if sys.argv[1:2] == ["show"]:
        name, form = sys.argv[2:]
        for question in drawn_questions():
            if str(question) == name:
                print(renderings(question)[form])
        return
    write(FILE, lines())


if __name__ == "__main__":
    main()
