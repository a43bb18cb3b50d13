"""Rows as a table to read: fitted on a terminal, plain and whole everywhere else."""

from __future__ import annotations

import io
from collections.abc import Mapping

import polars as pl
from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tbd_trace.present import Style
from tbd_trace.present.values import Column, columns, shorten, widest, with_unit

_GAP = 2
_TERMINAL_GAP = 3
_HEADER_WIDTH = 14
_TEXT_WIDTH = 24
# Columns whose long names are cut in the middle on a terminal; other text is wrapped, never cut.
_LONG_NAMES = ("name", "kernel", "layer", "path")


def render(frame: pl.DataFrame, units: Mapping[str, str | None], style: Style) -> str:
    """Return the frame as a table that ends with a newline.

    A single row is shown as one line per field, and so are rows too wide for the terminal.

    Args:
        frame: the rows.
        units: unit per column; shown beside the values of a single row.
        style: layout.
    """
    shown = columns(frame)
    if frame.height == 1 or (style.records and not frame.is_empty()):
        return _records(shown, frame, units, style)
    if style.width is None or frame.is_empty():
        return _plain(shown)
    widths = _fit(shown, style.width)
    if widths is None:
        return _records(shown, frame, units, style)
    return _on_terminal(shown, widths, style)


def _plain(shown: list[Column]) -> str:
    lines: list[list[str]] = []
    for column in shown:
        width = widest([column.name, *column.cells])
        lines.append([_pad(cell, width, column.numeric) for cell in [column.name, *column.cells]])
    rows = zip(*lines, strict=True)
    return "".join((" " * _GAP).join(row).rstrip() + "\n" for row in rows)


def _pad(cell: str, width: int, right: bool) -> str:
    space = " " * (width - cell_len(cell))
    return space + cell if right else cell + space


def _fields(
    shown: list[Column],
    row: int,
    values: Mapping[str, object],
    units: Mapping[str, str | None],
    style: Style,
) -> str:
    name_width = widest([column.name for column in shown])
    room = None if style.width is None else max(20, style.width - name_width - _GAP)
    lines = []
    for column in shown:
        cell = with_unit(column.cells[row], values[column.name], units.get(column.name))
        if room is not None and column.name.endswith(_LONG_NAMES):
            cell = shorten(cell, room)
        lines.append(f"{_pad(column.name, name_width, right=False)}  {cell}".rstrip() + "\n")
    return "".join(lines)


def _records(
    shown: list[Column], frame: pl.DataFrame, units: Mapping[str, str | None], style: Style
) -> str:
    rows = enumerate(frame.iter_rows(named=True))
    return "\n".join(_fields(shown, number, row, units, style) for number, row in rows)


def _fit(shown: list[Column], width: int) -> dict[str, int] | None:
    """Return the widths in which the columns fit, None where numbers would be cut."""
    widths = {column.name: _natural_width(column) for column in shown}
    room = width - _TERMINAL_GAP * (len(shown) - 1)
    room -= sum(widths[column.name] for column in shown if column.numeric)
    texts = [column.name for column in shown if not column.numeric]
    texts.sort(key=lambda name: widths[name])
    for place, name in enumerate(texts):
        # Narrow columns take what they need, wide ones share what is left.
        share = min(widths[name], room // (len(texts) - place))
        if share < min(widths[name], _TEXT_WIDTH):
            return None
        widths[name] = share
        room -= share
    return widths if room >= 0 else None


def _natural_width(column: Column) -> int:
    return max(widest(_header(column).split("\n")), widest(column.cells))


def _cell(text: str, column: Column, width: int) -> Text:
    if column.name.endswith(_LONG_NAMES):
        text = shorten(text, width)
    return Text(text)  # not markup: a kernel name may hold [ and ]


def _header(column: Column) -> str:
    """Return the column name, broken at underscores where its values are narrower."""
    limit = max(widest(column.cells), _HEADER_WIDTH)
    lines = [""]
    for part in column.name.replace("_", "_\0").split("\0"):
        if lines[-1] and len(lines[-1]) + len(part) > limit:
            lines.append("")
        lines[-1] += part
    return "\n".join(lines)


def _on_terminal(shown: list[Column], widths: Mapping[str, int], style: Style) -> str:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in shown:
        table.add_column(
            Text(_header(column)),
            justify="right" if column.numeric else "left",
            vertical="bottom",
            width=widths[column.name],
            overflow="fold",
        )
    for row in zip(*(column.cells for column in shown), strict=True):
        cells = zip(row, shown, strict=True)
        table.add_row(*(_cell(text, column, widths[column.name]) for text, column in cells))
    out = io.StringIO()
    console = Console(
        file=out,
        width=style.width,
        force_terminal=style.colour,
        no_color=not style.colour,
        highlight=False,
    )
    console.print(table)
    return "".join(line.rstrip() + "\n" for line in out.getvalue().splitlines())
