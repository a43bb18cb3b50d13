"""Measure the columns of a table and fit them into a width."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import polars as pl

from tbd_trace.present.names import shortened
from tbd_trace.present.values import Column, are_plain, text, widest, width_of

GAP = 2
"""Terminal cells between columns."""

# Endings of columns whose values may be cut in the middle.
_LONG_NAMES = ("name", "kernel", "layer", "path")
_LAST = 2  # rank of columns that are also left out for longer names
_GOOD_NAME_WIDTH = 36
_LEAST_NAME_WIDTH = 16  # terminal cells; shorter kernel names cannot be recognised
# Words in names of columns about the spread and the method of a number.
_SECONDARY = frozenset(
    """min max stddev median p5 p95 low high cv uncertainty confidence method clock grid block
    measured reason notes id pid tid""".split()  # noqa: SIM905 - a list would take 20 lines
)
# Columns that are the answer of a query, or say where it comes from.
_ANSWERS = frozenset({"bound", "cause", "verdict", "evidence"})
LEAST_TEXT_WIDTH = 12
"""Minimum width of other texts in terminal cells."""


@dataclass(frozen=True, slots=True)
class Measure:
    """Widths of a column in terminal cells."""

    name: str
    numeric: bool  # numbers are aligned and never cut
    header: int
    front: int  # width of the widest value without decimals
    fraction: int  # width of the most decimals, with the point
    width: int  # natural width of the column, or after `fit` its final width
    same: bool  # True if all values are equal
    is_cut: bool = False  # True if values must be shortened

    def under(self, header: str) -> Measure:
        """Return the measure with another header, which may have several lines."""
        lines = widest(header.split("\n"))
        return replace(self, header=lines, width=max(lines, self.front + self.fraction))


def is_name(column: str) -> bool:
    """Return True if a column has names that may be long."""
    return column.endswith(_LONG_NAMES)


def measured(slices: Iterable[Sequence[Column]]) -> list[Measure]:
    """Measure columns from consecutive slices of their rows."""
    measures: list[Measure] = []
    firsts: list[str | None] = []
    for shown in slices:
        if not measures:
            measures = [_unmeasured(column) for column in shown]
            firsts = [column.cells[0] if column.cells else None for column in shown]
        for number, column in enumerate(shown):
            measures[number] = _widened(measures[number], column, firsts[number])
    return measures


def _unmeasured(column: Column) -> Measure:
    header = width_of(column.name)
    return Measure(column.name, column.numeric, header, 0, 0, header, same=bool(column.cells))


def _widened(measure: Measure, column: Column, first: str | None) -> Measure:
    fraction, front = measure.fraction, measure.front
    if column.numeric and any("." in cell for cell in column.cells):
        fractions = list(map(_fraction, column.cells))
        fraction = max([fraction, *fractions])
        fronts = (len(c) - f for c, f in zip(column.cells, fractions, strict=True))
        front = max(front, *fronts, 0)
    else:
        front = max(front, widest(column.cells))
    same = measure.same and all(cell == first for cell in column.cells)
    width = max(measure.header, front + fraction)
    return replace(measure, front=front, fraction=fraction, width=width, same=same)


def _fraction(number: str) -> int:
    # Numbers with an exponent are not aligned at their points.
    point = number.rfind(".")
    return len(number) - point if point >= 0 and "e" not in number else 0


def aligned(cells: Sequence[str], fraction: int) -> Sequence[str]:
    """Pad numbers on the right so that their decimal points are aligned."""
    if not fraction:
        return cells
    return [
        cell + " " * (fraction - _fraction(cell))
        if cell[-1].isdigit() and "e" not in cell
        else cell
        for cell in cells
    ]


def fit(measures: Sequence[Measure], width: int, *, cut_text: bool = False) -> list[Measure] | None:
    """Return the columns with widths that fit, None if numbers would have to be cut.

    Args:
        measures: the columns.
        width: width of the table in terminal cells.
        cut_text: shorten texts like names; otherwise they are wrapped.
    """
    widths = [min(measure.width, _least_width(measure)) for measure in measures]
    spare = width - total(widths)
    if spare < 0:
        return None
    narrowed = [n for n, measure in enumerate(measures) if measure.width > widths[n]]
    narrowed.sort(key=lambda n: measures[n].width - widths[n])
    for place, n in enumerate(narrowed):
        # Columns slightly too wide keep their natural width, the others share the rest.
        more = min(measures[n].width - widths[n], spare // (len(narrowed) - place))
        widths[n] += more
        spare -= more
    return [
        replace(
            measure,
            width=given,
            is_cut=given < measure.width and (cut_text or is_name(measure.name)),
        )
        for measure, given in zip(measures, widths, strict=True)
    ]


def fit_most(
    measures: Sequence[Measure], width: int, *, cut_text: bool = False
) -> tuple[list[Measure], list[str]]:
    """Return the most important columns that fit with their widths, and the names of the others.

    The first column always stays; without room for a second one, no column is returned.
    """
    kept = list(measures)
    left_out: list[str] = []
    while len(kept) > 1:
        least = max(range(1, len(kept)), key=lambda n: (_rank(kept[n].name), n))
        fitted = fit(kept, width, cut_text=cut_text)
        if fitted and not (_rank(kept[least].name) == _LAST and _is_squeezed(fitted)):
            return fitted, left_out
        left_out.append(kept.pop(least).name)
    only = fit(kept, width, cut_text=cut_text) if len(measures) == 1 else None
    return only or [], []


def _is_squeezed(fitted: Sequence[Measure]) -> bool:
    return any(m.is_cut and is_name(m.name) and m.width < _GOOD_NAME_WIDTH for m in fitted)


def _rank(column: str) -> int:
    # Columns of the highest rank are left out first.
    words = column.split("_")
    if is_name(column) or words[-1] == "pct" or column in _ANSWERS:
        return 0
    return _LAST if _SECONDARY & set(words) else 1


def _least_width(measure: Measure) -> int:
    # Numbers and headers are never cut.
    if measure.numeric:
        return measure.width
    return max(_LEAST_NAME_WIDTH if is_name(measure.name) else LEAST_TEXT_WIDTH, measure.header)


def total(widths: Iterable[int]) -> int:
    """Return the width of a table with columns of the given widths."""
    columns = list(widths)
    return sum(columns) + GAP * (len(columns) - 1)


def cut(values: pl.Series, measure: Measure) -> dict[str, str]:
    """Return the distinctly shortened texts of a column by their full texts."""
    try:
        different = values.unique(maintain_order=True).to_list()
    except pl.exceptions.PolarsError:  # unique() does not support every nested type
        different = values.to_list()
    return shortened(map(text, different), measure.width)


def padded(cells: Sequence[str], width: int, *, right: bool = False) -> list[str]:
    """Pad cells with spaces to a width."""
    # str.ljust counts characters; wide characters take two cells.
    if are_plain(cells):
        return [cell.rjust(width) if right else cell.ljust(width) for cell in cells]
    spaces = [" " * (width - width_of(cell)) for cell in cells]
    if right:
        return [space + cell for space, cell in zip(spaces, cells, strict=True)]
    return [cell + space for space, cell in zip(spaces, cells, strict=True)]


def side_by_side(blocks: Sequence[Sequence[str]]) -> str:
    """Join padded blocks with the same number of lines side by side."""
    lines = zip(*blocks, strict=True)
    return "".join((" " * GAP).join(line).rstrip() + "\n" for line in lines)
