"""Which rows of an answer go to which panel of a plot, and what they are called there."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import polars as pl

from tbd_trace.errors import CannotAnswerError, UsageError
from tbd_trace.present.names import shorten
from tbd_trace.present.series import words
from tbd_trace.present.values import is_identifier, text

if TYPE_CHECKING:
    from tbd_trace.query import Plot

_MAX_TRACES = 8
_MAX_PANELS = 16
_MAX_LINES = 100  # of a panel
_NAME_WIDTH = 36  # of a trace, so that a device has room beside it
_PLACE, _KEY = "row place", "row series"  # no column of a query has a space in its name

Panels = list[tuple[str, pl.DataFrame]]


def arrange(frame: pl.DataFrame, plot: Plot, trace_names: Mapping[str, str]) -> tuple[Plot, Panels]:
    """Return what is drawn, with a single column for x and series each, and the rows per panel.

    Args:
        frame: the rows, in the order in which they are drawn.
        plot: what to draw, and what otherwise.
        trace_names: name per trace id.

    Raises:
        CannotAnswerError: there is nothing to draw.
        UsageError: there are more traces or panels than a plot has room for, or the plot draws what
            the rows do not have.
    """
    chosen: Plot | None = plot
    while chosen is not None:
        _check_columns(frame, chosen)
        drawn = _drawable(frame, chosen)
        if not drawn.is_empty():
            names = _trace_names(drawn, trace_names)
            drawn, single = _with_single_columns(drawn, chosen, told_apart(names))
            return single, _panels(drawn, chosen, names)
        chosen = chosen.otherwise
    raise CannotAnswerError("nothing to draw: the query returned no row with a value")


def _check_columns(frame: pl.DataFrame, plot: Plot) -> None:
    missing = sorted(plot.columns - set(frame.columns))
    if missing:
        raise UsageError(
            f"the plot draws {', '.join(missing)}, which the query does not return; "
            f"its columns are {', '.join(frame.columns)}"
        )
    for column in (name for group in plot.groups for name in group):
        if not (frame[column].dtype.is_numeric() or frame[column].dtype in {pl.Boolean, pl.Null}):
            raise UsageError(f"the plot draws {column}, which holds no numbers")


def _drawable(frame: pl.DataFrame, plot: Plot) -> pl.DataFrame:
    """Return the rows that have a value to draw, none where a plot that leads on has no x."""
    placed = pl.any_horizontal(pl.col(name).is_not_null() for name in plot.places)
    if plot.x_end is not None:  # a stretch needs a beginning
        frame = frame.filter(placed)
    elif plot.otherwise is not None and not frame.select(placed.any()).item():
        frame = frame.clear()
    values = [name for group in plot.groups for name in group]
    return frame.filter(pl.any_horizontal(pl.col(name).is_not_null() for name in values))


def _trace_names(frame: pl.DataFrame, names: Mapping[str, str]) -> dict[str, str]:
    """Return what the traces are called: with their id where two have the same name."""
    if "trace_id" not in frame.columns:
        return {}
    shown = {key: names.get(key, key) for key in frame["trace_id"].unique().drop_nulls().to_list()}
    times = Counter(shown.values())
    return {key: name if times[name] == 1 else f"{name} {key}" for key, name in shown.items()}


def told_apart(names: Mapping[str, str]) -> dict[str, str]:
    """Return names such that shortened ones differ: without what those that look alike share."""
    alike: dict[str, list[str]] = defaultdict(list)
    for key, name in names.items():
        alike[shorten(name, _NAME_WIDTH)].append(key)
    told = dict(names)
    for keys in alike.values():
        if len(keys) > 1:
            told |= _without_common({key: names[key] for key in keys})
    return told


def _without_common(names: Mapping[str, str]) -> dict[str, str]:
    values = list(names.values())
    front = len(_common(values))
    back = len(_common([name[front:][::-1] for name in values]))
    before, after = "…" if front else "", "…" if back else ""
    return {key: f"{before}{name[front : len(name) - back]}{after}" for key, name in names.items()}


def _common(names: Sequence[str]) -> str:
    """Return the beginning that names share, up to the last word that they share as a whole."""
    same = takewhile(lambda chars: len(set(chars)) == 1, zip(*names, strict=False))
    return re.sub(r"[A-Za-z0-9]+$", "", "".join(chars[0] for chars in same))


def _with_single_columns(
    frame: pl.DataFrame, plot: Plot, names: Mapping[str, str]
) -> tuple[pl.DataFrame, Plot]:
    frame, place = _single(frame, plot.places, _PLACE, names)
    x_title = plot.x_title or words(_telling(frame, plot.places)[0])
    series: str | None = None
    # One process or device among keys that nobody asked to see is no series.
    only_key = isinstance(plot.series, list) and not plot.panels and plot.kind != "heatmap"
    if plot.keys and not (only_key and not any(_differs(frame, name) for name in plot.keys)):
        frame, series = _single(frame, plot.keys, _KEY, names)
    return frame, dataclasses.replace(plot, x=place, series=series, x_title=x_title)


def _single(
    frame: pl.DataFrame, columns: Sequence[str], alias: str, names: Mapping[str, str]
) -> tuple[pl.DataFrame, str]:
    """Return a frame with a column that names its rows by several ones, and that column's name."""
    telling = _telling(frame, columns)
    if len(telling) == 1 and not is_key(telling[0]):
        return frame, telling[0]
    rows = zip(*(frame[name].to_list() for name in telling), strict=True)
    called = [_name(telling, row, names) for row in rows]
    return frame.with_columns(pl.Series(alias, called, dtype=pl.String)), alias


def _telling(frame: pl.DataFrame, columns: Sequence[str]) -> list[str]:
    """Return the columns in which rows differ; where they do in none the first with a value."""
    telling = [name for name in columns if _differs(frame, name)]
    known = [name for name in columns if frame[name].null_count() < frame.height]
    return telling or known[:1] or list(columns[:1])


def _differs(frame: pl.DataFrame, column: str) -> bool:
    """Tell whether rows differ in a column; processes and devices are told apart in a trace."""
    if is_identifier(column) and column != "trace_id" and "trace_id" in frame.columns:
        counts = frame.group_by("trace_id").agg(pl.col(column).n_unique())
        return bool((counts[column] > 1).any())
    return frame[column].n_unique() > 1


def is_key(column: str) -> bool:
    """Tell whether a column holds keys, whose numbers say little without the column's name."""
    return column == "trace_id" or is_identifier(column)


def _name(columns: Sequence[str], row: Sequence[Any], names: Mapping[str, str]) -> str:
    parts = []
    for column, value in zip(columns, row, strict=True):
        if value is None and len(columns) > 1:
            continue
        if column == "trace_id":
            parts.append(names.get(value, text(value)))
        elif is_identifier(column) and value is not None:
            parts.append(f"{words(column)} {value}")
        else:
            parts.append(text(value))
    return ", ".join(parts) or text(None)


def _panels(drawn: pl.DataFrame, plot: Plot, names: Mapping[str, str]) -> Panels:
    if plot.panels:
        return _named_panels(drawn, plot, names)
    if "trace_id" not in drawn.columns or "trace_id" in (*plot.places, *plot.keys):
        return [("", _first(drawn, plot))]
    parts = [part for _, part in drawn.group_by("trace_id", maintain_order=True)]
    if len(parts) > _MAX_TRACES:
        raise UsageError(f"a plot has room for {_MAX_TRACES} traces, not {len(parts)}; name fewer")
    return [
        (names.get(part["trace_id"][0], text(part["trace_id"][0])), _first(part, plot))
        for part in parts
    ]


def _named_panels(drawn: pl.DataFrame, plot: Plot, names: Mapping[str, str]) -> Panels:
    parts = [part for _, part in drawn.group_by(plot.panels, maintain_order=True)]
    if len(parts) > _MAX_PANELS:
        raise UsageError(
            f"a plot has room for {_MAX_PANELS} panels, not {len(parts)}; ask for less"
        )
    keys = [name for name in plot.panels if is_key(name)]
    telling = _telling(drawn, keys) if keys else []
    shown = [name for name in plot.panels if name not in keys or name in telling]
    return [
        (_name(shown, [part[name][0] for name in shown], names), _first(part, plot))
        for part in parts
    ]


def _first(frame: pl.DataFrame, plot: Plot) -> pl.DataFrame:
    # Each bar that lies has a line of its own: thousands take minutes, and nobody looks at them.
    most = _MAX_LINES if plot.limit is None and plot.kind.endswith("barh") else plot.limit
    return frame if most is None else frame.head(most)
