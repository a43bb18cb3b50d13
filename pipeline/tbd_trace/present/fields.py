"""Format rows with one line per field, and the values common to all rows of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest

import polars as pl

from tbd_trace.present.layout import GAP, LEAST_TEXT_WIDTH, is_name, padded, side_by_side
from tbd_trace.present.names import label_of, shortened
from tbd_trace.present.terminal import Style
from tbd_trace.present.values import NULL, Column, widest, width_of, with_unit

_LEAST_ROOM = 20  # cells of a value, even on a narrower terminal


def records(
    shown: Sequence[Column], frame: pl.DataFrame, units: Mapping[str, str | None], style: Style
) -> str:
    """Format rows with one line per field, side by side on a wide terminal, else in blocks."""
    names = [column.name for column in shown]
    filled = [_with_units(column, frame[column.name], units.get(column.name)) for column in shown]
    rows_per_line, room = 1, None
    if style.width is not None:
        room = max(_LEAST_ROOM, style.width - widest(names) - GAP)
        if not style.plain:
            rows_per_line = min(frame.height, _rows_per_line(filled, room))
        room = (room + GAP) // rows_per_line - GAP
        filled = [_shortened(column, room) for column in filled]
    blocks = []
    for start in range(0, frame.height, rows_per_line):
        rows = range(start, min(start + rows_per_line, frame.height))
        blocks.append("".join(_block(filled, rows, widest(names), room)))
    return "\n".join(blocks)


def _rows_per_line(filled: Sequence[Column], room: int) -> int:
    whole = [cell for column in filled if not is_name(column.name) for cell in column.cells]
    width = max(widest(whole), LEAST_TEXT_WIDTH)
    return max(1, (room + GAP) // (width + GAP))


def _block(filled: Sequence[Column], rows: range, name_width: int, room: int | None) -> list[str]:
    # A value that is longer than the room continues in the next line.
    names, sides = [], [[] for _ in rows]  # type: tuple[list[str], list[list[str]]]
    for column in filled:
        wrapped = [_wrapped(column.cells[row], room) for row in rows]
        for number, line in enumerate(zip_longest(*wrapped, fillvalue="")):
            names.append(column.name if number == 0 else "")
            for side, cell in zip(sides, line, strict=True):
                side.append(cell)
    columns = [padded(names, name_width), *(padded(side, widest(side)) for side in sides)]
    return [side_by_side(columns)]


def _with_units(column: Column, values: pl.Series, unit: str | None) -> Column:
    pairs = zip(column.cells, values.to_list(), strict=True)
    return Column(
        column.name, [with_unit(cell, value, unit) for cell, value in pairs], numeric=False
    )


def _shortened(column: Column, width: int) -> Column:
    if not is_name(column.name):
        return column
    short = shortened(column.cells, width)
    return Column(column.name, [short[cell] for cell in column.cells], numeric=False)


def _short(column: Column, width: int) -> str:
    # Only names are shortened: other texts, such as notes, are read as a whole.
    cell = column.cells[0]
    return label_of(cell, max(_LEAST_ROOM, width)) if is_name(column.name) else cell


def _wrapped(text: str, width: int | None) -> list[str]:
    if width is None or width_of(text) <= width:
        return [text]
    from rich.console import Console  # noqa: PLC0415 - most fields are short
    from rich.text import Text  # noqa: PLC0415

    return [line.plain.rstrip() for line in Text(text).wrap(Console(width=width), width)]


def common_values(
    common: Sequence[Column], frame: pl.DataFrame, units: Mapping[str, str | None], width: int
) -> str:
    """Format the columns with the same value in all rows as lines of text."""
    values = frame.row(0, named=True)
    lines = [
        f"{column.name}: "
        + with_unit(_short(column, width), values[column.name], units.get(column.name))
        for column in common
        if column.cells[0] != NULL
    ]
    unknown = [column.name for column in common if column.cells[0] == NULL]
    if unknown:
        lines.append(f"{NULL} in every row: {', '.join(unknown)}")
    if not lines:
        return ""
    return "".join(f"{line}\n" for line in _wrapped("; ".join(lines), width)) + "\n"
