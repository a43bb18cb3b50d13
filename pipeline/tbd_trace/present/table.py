"""Format rows as a table that fits a width, or as a plain table of full width."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import polars as pl

from tbd_trace.present import Style
from tbd_trace.present.fields import common_values, records
from tbd_trace.present.layout import (
    Measure,
    aligned,
    cut,
    fit,
    measured,
    padded,
    side_by_side,
    total,
)
from tbd_trace.present.values import Column, columns, whole_columns

_ROWS_AT_ONCE = 262_144  # rows formatted at a time
_FEW_ROWS = 2  # are shown side by side if they are too wide


def parts(frame: pl.DataFrame, units: Mapping[str, str | None], style: Style) -> Iterator[str]:
    """Yield the frame as a table in parts that end with a newline.

    A single row has one line per field. If rows are too wide even with shortened names, columns
    with a common value are moved above the table; if that is not enough, rows have one line per
    field, on a terminal several rows side by side.

    Args:
        units: unit by column, shown in lines per field.
    """
    if frame.height == 1 or (style.records and not frame.is_empty()):
        yield records(columns(frame), frame, units, style)
    elif style.plain or style.width is None or frame.is_empty():
        yield from _plain(frame, units, style)
    else:
        yield _ruled(frame, units, style, style.width)


def _ruled(frame: pl.DataFrame, units: Mapping[str, str | None], style: Style, width: int) -> str:
    from tbd_trace.present.ruled import header, ruled  # noqa: PLC0415 - a pipe needs no rich

    shown = columns(frame)
    measures = [measure.under(header(measure)) for measure in measured([shown])]
    if total(measure.width for measure in measures) <= width:
        return ruled(shown, measures, style)
    varying = [measure for measure in measures if not measure.same]
    fitted = fit(varying, width)
    if fitted is None or frame.height <= _FEW_ROWS:
        return records(shown, frame, units, style)
    names = {measure.name for measure in fitted}
    common = [column for column in shown if column.name not in names]
    rest = [column for column in shown if column.name in names]
    return common_values(common, frame, units, width) + ruled(rest, fitted, style)


def _plain(frame: pl.DataFrame, units: Mapping[str, str | None], style: Style) -> Iterator[str]:
    # In slices, because millions of rows take gigabytes as text.
    whole = whole_columns(frame)
    # Several slices are formatted twice, to measure and to write them; a single one is kept.
    slices = list(frame.iter_slices(_ROWS_AT_ONCE)) or [frame]
    only = [columns(rows, whole) for rows in slices] if len(slices) == 1 else None
    every = measured(only or (columns(rows, whole) for rows in slices))
    measures = _fitted(every, style.width)
    if measures is None:
        assert style.width is not None
        for number, rows in enumerate(slices):
            yield ("\n" if number else "") + records(columns(rows, whole), rows, units, style)
        return
    shown = {measure.name for measure in measures}
    common = [column for column in columns(frame[:1], whole) if column.name not in shown]
    if common and style.width is not None:
        yield common_values(common, frame, units, style.width)
    yield _lines(measures, [[measure.name] for measure in measures])
    cuts = {m.name: cut(frame[m.name], m) for m in measures if m.is_cut}
    for part in only or (columns(rows, whole) for rows in slices):
        by_name = {column.name: column for column in part}
        yield _lines(measures, [_cells(by_name[m.name], m, cuts) for m in measures])


def _fitted(every: Sequence[Measure], width: int | None) -> Sequence[Measure] | None:
    # If not all columns fit, those with a common value are left out.
    if width is None:
        return every
    varying = [measure for measure in every if not measure.same]
    return fit(every, width, cut_text=True) or (fit(varying, width, cut_text=True) or None)


def _cells(
    column: Column, measure: Measure, cuts: Mapping[str, Mapping[str, str]]
) -> Sequence[str]:
    if measure.name in cuts:
        return [cuts[measure.name][cell] for cell in column.cells]
    return aligned(column.cells, measure.fraction)


def _lines(measures: Sequence[Measure], cells: Sequence[Sequence[str]]) -> str:
    return side_by_side(
        [
            padded(texts, measure.width, right=measure.numeric)
            for measure, texts in zip(measures, cells, strict=True)
        ]
    )
