"""How wide the columns of a table are, and how they are made to fit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import polars as pl

from tbd_trace.present.names import shortened
from tbd_trace.present.values import Column, are_plain, text, widest, width_of

GAP = 2
"""Cells between columns."""

# Columns whose long names are cut in the middle wherever they do not fit.
_LONG_NAMES = ("name", "kernel", "layer", "path")
_LEAST_NAME_WIDTH = 16
LEAST_TEXT_WIDTH = 12


@dataclass(frozen=True, slots=True)
class Measure:
    """How wide a column is.

    Attributes:
        name: column name.
        numeric: whether it is read as numbers: they are aligned and never cut.
        header: width of what stands above the values.
        front: width of the widest value without its decimals.
        fraction: width of the most decimals, with their point.
        width: width of the column: first its natural width, then the one it is given.
        same: all values are the same.
        is_cut: values have to be shortened.
    """

    name: str
    numeric: bool
    header: int
    front: int
    fraction: int
    width: int
    same: bool
    is_cut: bool = False

    def under(self, header: str) -> Measure:
        """Return the measure of a column under a header of other, perhaps several, lines."""
        lines = widest(header.split("\n"))
        return replace(self, header=lines, width=max(lines, self.front + self.fraction))


def is_name(column: str) -> bool:
    """Tell whether a column holds names that may be long."""
    return column.endswith(_LONG_NAMES)


def measured(slices: Iterable[Sequence[Column]]) -> list[Measure]:
    """Return the measures of columns that come a slice of their rows at a time."""
    found: list[Measure] = []
    firsts: list[str | None] = []
    for shown in slices:
        if not found:
            found = [_unmeasured(column) for column in shown]
            firsts = [column.cells[0] if column.cells else None for column in shown]
        for number, column in enumerate(shown):
            found[number] = _widened(found[number], column, firsts[number])
    return found


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
    """Return the width of the decimals of a number, with their point; 0 in powers of ten."""
    point = number.rfind(".")
    return len(number) - point if point >= 0 and "e" not in number else 0


def aligned(cells: Sequence[str], fraction: int) -> Sequence[str]:
    """Return numbers followed by spaces such that their decimal points stand below each other."""
    if not fraction:
        return cells
    return [
        cell + " " * (fraction - _fraction(cell))
        if cell[-1].isdigit() and "e" not in cell
        else cell
        for cell in cells
    ]


def fit(measures: Sequence[Measure], width: int, *, cut_text: bool = False) -> list[Measure] | None:
    """Return the columns with widths that fit together, None where numbers would be cut.

    Args:
        measures: the columns.
        width: cells that there are.
        cut_text: texts are shortened as names are; else they are wrapped.
    """
    widths = [min(measure.width, _least_width(measure)) for measure in measures]
    spare = width - total(widths)
    if spare < 0:
        return None
    lacking = [n for n, measure in enumerate(measures) if measure.width > widths[n]]
    lacking.sort(key=lambda n: measures[n].width - widths[n])
    for place, n in enumerate(lacking):
        # Columns slightly too wide keep their natural width, the others share the rest.
        more = min(measures[n].width - widths[n], spare // (len(lacking) - place))
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


def _least_width(measure: Measure) -> int:
    """Return the smallest useful width of a column: numbers and headers are never cut."""
    if measure.numeric:
        return measure.width
    return max(_LEAST_NAME_WIDTH if is_name(measure.name) else LEAST_TEXT_WIDTH, measure.header)


def total(widths: Iterable[int]) -> int:
    """Return the width of a table with columns of these widths."""
    taken = list(widths)
    return sum(taken) + GAP * (len(taken) - 1)


def cut(values: pl.Series, measure: Measure) -> dict[str, str]:
    """Return the texts of a column's values, each shortened so that different ones differ."""
    try:
        different = values.unique(maintain_order=True).to_list()
    except pl.exceptions.PolarsError:  # not of every nested type
        different = values.to_list()
    return shortened(map(text, different), measure.width)


def padded(cells: Sequence[str], width: int, *, right: bool = False) -> list[str]:
    """Return the cells filled up to a width."""
    if are_plain(cells):
        return [cell.rjust(width) if right else cell.ljust(width) for cell in cells]
    spaces = [" " * (width - width_of(cell)) for cell in cells]
    if right:
        return [space + cell for space, cell in zip(spaces, cells, strict=True)]
    return [cell + space for space, cell in zip(spaces, cells, strict=True)]


def side_by_side(blocks: Sequence[Sequence[str]]) -> str:
    """Return padded blocks of equally many lines beside each other."""
    lines = zip(*blocks, strict=True)
    return "".join((" " * GAP).join(line).rstrip() + "\n" for line in lines)
