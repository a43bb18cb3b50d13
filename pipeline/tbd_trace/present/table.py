"""Format rows as a table that fits a width, or as a plain table of full width."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence

import polars as pl

from tbd_trace.present.fields import common_values, records
from tbd_trace.present.layout import (
    Measure,
    aligned,
    cut,
    fit,
    fit_most,
    measured,
    padded,
    side_by_side,
    total,
)
from tbd_trace.present.scaling import in_fitting_units
from tbd_trace.present.terminal import Style
from tbd_trace.present.values import Column, columns, whole_columns

_LEAST_WIDTH = 80  # narrower terminals get one line per field instead of fewer columns
_ROWS_AT_ONCE = 262_144  # rows formatted at a time


def parts(frame: pl.DataFrame, units: Mapping[str, str | None], style: Style) -> Iterator[str]:
    """Yield the frame as a table in parts that end with a newline.

    Times, sizes and rates are in fitting units, which the headers name. A single row has one line
    per field. If rows are too wide even with shortened names, columns with a common value are moved
    above the table, and then the least important columns are left out, which a line below says. On
    a terminal of less than 80 columns, rows may have one line per field.

    Args:
        units: unit by column.
    """
    if frame.height > 1 and not style.records:
        frame, units = in_fitting_units(frame, units)
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
    fitted, left_out = (
        fit_most(varying, width) if width >= _LEAST_WIDTH else (fit(varying, width), [])
    )
    if not fitted:
        return records(shown, frame, units, style)
    names = {measure.name for measure in fitted}
    common = [c for c in shown if c.name not in names and c.name not in left_out]
    rest = [column for column in shown if column.name in names]
    above = common_values(common, frame, units, width)
    return above + ruled(rest, fitted, style) + _below(left_out, width)


def _below(left_out: Sequence[str], width: int) -> str:
    if not left_out:
        return ""
    note = f"Left out in {width} columns: {', '.join(left_out)}; --wide shows all."
    return "".join(f"{line}\n" for line in textwrap.wrap(note, width))


def _plain(frame: pl.DataFrame, units: Mapping[str, str | None], style: Style) -> Iterator[str]:
    # In slices, because millions of rows take gigabytes as text.
    whole = whole_columns(frame)
    # Several slices are formatted twice, to measure and to write them; a single one is kept.
    slices = list(frame.iter_slices(_ROWS_AT_ONCE)) or [frame]
    only = [columns(rows, whole) for rows in slices] if len(slices) == 1 else None
    every = measured(only or (columns(rows, whole) for rows in slices))
    measures, left_out = _fitted(every, style.width)
    if not measures and frame.columns:
        for number, rows in enumerate(slices):
            yield ("\n" if number else "") + records(columns(rows, whole), rows, units, style)
        return
    shown = {measure.name for measure in measures}
    shown |= set(left_out)
    common = [column for column in columns(frame[:1], whole) if column.name not in shown]
    if common and style.width is not None:
        yield common_values(common, frame, units, style.width)
    yield _lines(measures, [[measure.name] for measure in measures])
    cuts = {m.name: cut(frame[m.name], m) for m in measures if m.is_cut}
    for part in only or (columns(rows, whole) for rows in slices):
        by_name = {column.name: column for column in part}
        yield _lines(measures, [_cells(by_name[m.name], m, cuts) for m in measures])
    if left_out and style.width is not None:
        yield _below(left_out, style.width)


def _fitted(every: Sequence[Measure], width: int | None) -> tuple[Sequence[Measure], Sequence[str]]:
    # If not all columns fit, those with a common value are moved above the table.
    if width is None:
        return every, []
    if fitted := fit(every, width, cut_text=True):
        return fitted, []
    varying = [measure for measure in every if not measure.same]
    return fit_most(varying, width, cut_text=True)


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
