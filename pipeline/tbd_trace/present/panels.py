"""Assign the rows of a result to the panels of a plot, and name them."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from tbd_trace.errors import CannotAnswerError, UsageError
from tbd_trace.present.run_names import distinct_names
from tbd_trace.present.series import Units, words
from tbd_trace.present.values import is_identifier, text

if TYPE_CHECKING:
    from tbd_trace.query import Plot

_MAX_TRACES = 8
_MAX_PANELS = 16
_MAX_LINES = 100  # horizontal bars of a panel
_NAME_WIDTH = 36  # characters of a trace's name, which leave room for a device
_PLACE, _KEY = "row place", "row series"  # cannot clash: columns of queries have no spaces

Panels = list[tuple[str, pl.DataFrame]]


def arrange(
    frame: pl.DataFrame, plot: Plot, trace_names: Mapping[str, str], units: Units
) -> tuple[Plot, Panels]:
    """Return the plot with single columns for x and series, and the rows by panel.

    Groups of value columns without any value are left out.

    Args:
        frame: the rows, in the order of drawing.
        plot: plot of the query's header, with its alternatives.

    Raises:
        CannotAnswerError: no row has a value to draw.
        UsageError: there are too many traces or panels, or a column is missing or not numeric.
    """
    chosen: Plot | None = plot
    while chosen is not None:
        _check_columns(frame, chosen)
        drawn = _drawable(frame, chosen)
        if not drawn.is_empty():
            names = _trace_names(drawn, trace_names)
            drawn, single = _with_single_columns(drawn, chosen, distinct_names(names), units)
            return _with_values(single, drawn), _panels(drawn, chosen, names)
        chosen = chosen.otherwise
    raise CannotAnswerError("nothing to draw: the query returned no row with a value")


def _check_columns(frame: pl.DataFrame, plot: Plot) -> None:
    missing = sorted(plot.columns - set(frame.columns))
    if missing:
        raise UsageError(
            f"the plot draws {', '.join(missing)}, which the query does not return; "
            f"its columns are {', '.join(frame.columns)}"
        )
    values = [name for group in plot.groups for name in group]
    for column in filter(None, (*values, *plot.band, plot.points, plot.secondary)):
        if not (frame[column].dtype.is_numeric() or frame[column].dtype in {pl.Boolean, pl.Null}):
            raise UsageError(f"the plot draws {column}, which is not numeric")


def _drawable(frame: pl.DataFrame, plot: Plot) -> pl.DataFrame:
    # A plot with an alternative is skipped if no row has an x value.
    placed = pl.any_horizontal(pl.col(name).is_not_null() for name in plot.places)
    if plot.x_end is not None:  # an interval needs a start and an end
        frame = frame.filter(placed & pl.col(plot.x_end).is_not_null())
    elif plot.otherwise is not None and not frame.select(placed.any()).item():
        frame = frame.clear()
    values = [name for group in plot.groups for name in group]
    return frame.filter(pl.any_horizontal(pl.col(name).is_not_null() for name in values))


def _with_values(plot: Plot, drawn: pl.DataFrame) -> Plot:
    # A scale without values, such as that of GPU utilization on a CPU, would be an empty panel.
    groups = [
        names
        for names in plot.groups
        if any(drawn[name].null_count() < len(drawn) for name in names)
    ]
    return plot if groups == plot.groups else dataclasses.replace(plot, y=[*groups])


def _trace_names(frame: pl.DataFrame, names: Mapping[str, str]) -> dict[str, str]:
    # Equal names are distinguished by trace ids.
    if "trace_id" not in frame.columns:
        return {}
    shown = {key: names.get(key, key) for key in frame["trace_id"].unique().drop_nulls().to_list()}
    times = Counter(shown.values())
    return {key: name if times[name] == 1 else f"{name} {key}" for key, name in shown.items()}


def _with_single_columns(
    frame: pl.DataFrame, plot: Plot, names: Mapping[str, str], units: Units
) -> tuple[pl.DataFrame, Plot]:
    frame, place = _single(frame, plot.places, _PLACE, names)
    x_title = plot.x_title or words(_distinguishing(frame, plot.places)[0])
    series: str | None = None
    # A single process or device is not a series unless the plot names it as its only key.
    only_key = isinstance(plot.series, list) and not plot.panels and plot.kind != "heatmap"
    if plot.keys and not (only_key and not any(_differs(frame, name) for name in plot.keys)):
        frame, series = _single(frame, plot.keys, _KEY, names, units)
    return frame, dataclasses.replace(plot, x=place, series=series, x_title=x_title)


def _single(
    frame: pl.DataFrame,
    columns: Sequence[str],
    alias: str,
    names: Mapping[str, str],
    units: Units | None = None,
) -> tuple[pl.DataFrame, str]:
    # Several columns, or keys, are combined into one column of names. With units, so are numbers.
    distinguishing = _distinguishing(frame, columns)
    first = distinguishing[0]
    is_named = is_key(first) or (units is not None and frame[first].dtype.is_numeric())
    if len(distinguishing) == 1 and not is_named:
        return frame, first
    rows = zip(*(frame[name].to_list() for name in distinguishing), strict=True)
    row_names = [_name(distinguishing, row, names, units) for row in rows]
    return frame.with_columns(pl.Series(alias, row_names, dtype=pl.String)), alias


def _distinguishing(frame: pl.DataFrame, columns: Sequence[str]) -> list[str]:
    # If all rows agree in all columns, the first column with a value names them.
    distinguishing = [name for name in columns if _differs(frame, name)]
    known = [name for name in columns if frame[name].null_count() < frame.height]
    return distinguishing or known[:1] or list(columns[:1])


def _differs(frame: pl.DataFrame, column: str) -> bool:
    # Ids of processes and devices are unique within a trace only.
    if is_identifier(column) and column != "trace_id" and "trace_id" in frame.columns:
        counts = frame.group_by("trace_id").agg(pl.col(column).n_unique())
        return bool((counts[column] > 1).any())
    return frame[column].n_unique() > 1


def is_key(column: str) -> bool:
    """Return True if a column holds keys, which are shown with the column's name."""
    return column in {"trace_id", "rank"} or is_identifier(column)


def _name(
    columns: Sequence[str],
    row: Sequence[Any],
    names: Mapping[str, str],
    units: Units | None = None,
) -> str:
    parts = []
    for column, value in zip(columns, row, strict=True):
        if value is None and len(columns) > 1:
            continue
        if column == "trace_id":
            parts.append(names.get(value, text(value)))
        elif is_key(column) and value is not None:
            parts.append(f"{words(column)} {value}")
        elif units is not None and isinstance(value, int | float):
            parts.append(_quantity(column, value, units.get(column)))
        else:
            parts.append(text(value))
    return ", ".join(parts) or text(None)


def _quantity(column: str, value: float, unit: str | None) -> str:
    # 10 Gbit/s, 2 workers, group size 4.
    if unit is not None or column.endswith("s"):
        return f"{value:,g} {unit or words(column)}"
    return f"{words(column)} {value:,g}"


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
    distinguishing = _distinguishing(drawn, keys) if keys else []
    shown = [name for name in plot.panels if name not in keys or name in distinguishing]
    return [
        (_name(shown, [part[name][0] for name in shown], names), _first(part, plot))
        for part in parts
    ]


def _first(frame: pl.DataFrame, plot: Plot) -> pl.DataFrame:
    # Each horizontal bar takes a line: thousands take minutes to draw and cannot be read.
    most = _MAX_LINES if plot.limit is None and plot.kind.endswith("barh") else plot.limit
    return frame if most is None else frame.head(most)
