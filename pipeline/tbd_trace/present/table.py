"""Rows as a table to read: fitted on a terminal, plain and whole everywhere else."""

# rich is imported where a table is fitted: a pipe needs none.
# ruff: noqa: PLC0415
from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence

import polars as pl

from tbd_trace.present import Style
from tbd_trace.present.values import (
    NULL,
    Column,
    are_plain,
    columns,
    decimals_of,
    shorten,
    widest,
    width_of,
    with_unit,
)

_GAP = 2
_ROWS_AT_ONCE = 262_144
_FEW_ROWS = 2
_HEADER_WIDTH = 7
# Columns whose long names are cut in the middle on a terminal; other text is wrapped, never cut.
_LONG_NAMES = ("name", "kernel", "layer", "path")
_LEAST_NAME_WIDTH = 16
_LEAST_TEXT_WIDTH = 12


def parts(frame: pl.DataFrame, units: Mapping[str, str | None], style: Style) -> Iterator[str]:
    """Yield the frame as a table, part after part; each ends with a newline.

    A single row is shown as one line per field. Many rows too wide for a terminal are shown without
    the columns in which they agree, which go above them; a few, or if that does not help, are shown
    as one line per field, side by side as far as there is room.

    Args:
        frame: the rows.
        units: unit per column; shown beside the values of a single row.
        style: layout.
    """
    if frame.height == 1 or (style.records and not frame.is_empty()):
        yield _records(columns(frame), frame, units, style)
    elif style.width is None or frame.is_empty():
        yield from _plain(frame)
    else:
        yield _fitted(columns(frame), frame, units, style, style.width)


def _fitted(
    shown: Sequence[Column],
    frame: pl.DataFrame,
    units: Mapping[str, str | None],
    style: Style,
    width: int,
) -> str:
    """Return the rows on a terminal of a width."""
    if _total(_natural_width(column) for column in shown) <= width:
        return _on_terminal(shown, [_natural_width(column) for column in shown], style)
    varying = [column for column in shown if len(set(column.cells)) > 1]
    widths = _fit(varying, width)
    if widths is None or frame.height <= _FEW_ROWS:
        return _records(shown, frame, units, style)
    common = [column for column in shown if len(set(column.cells)) == 1]
    return _above(common, frame, units, width) + _on_terminal(varying, widths, style)


def _plain(frame: pl.DataFrame) -> Iterator[str]:
    """Yield all rows, a part at a time: as text, millions of them take gigabytes."""
    decimals = decimals_of(frame)
    # Each slice is put into words twice, for the widths and for its lines, but for the only one.
    slices = list(frame.iter_slices(_ROWS_AT_ONCE))
    only = [columns(rows, decimals) for rows in slices] if len(slices) == 1 else None
    widths = [width_of(name) for name in frame.columns]
    for shown in only or (columns(rows, decimals) for rows in slices):
        for number, column in enumerate(shown):
            widths[number] = max(widths[number], widest(column.cells))
    names = columns(frame.clear())
    yield _lines(names, [[column.name] for column in names], widths)
    for shown in only or (columns(rows, decimals) for rows in slices):
        yield _lines(shown, [column.cells for column in shown], widths)


def _lines(shown: Sequence[Column], cells: Sequence[Sequence[str]], widths: Sequence[int]) -> str:
    """Return cells of columns as lines: text to the left of the widths, numbers to the right."""
    return _side_by_side(
        [
            _padded(texts, width, right=column.numeric)
            for column, texts, width in zip(shown, cells, widths, strict=True)
        ]
    )


def _padded(cells: Sequence[str], width: int, *, right: bool = False) -> list[str]:
    """Return the cells filled up to a width."""
    if are_plain(cells):
        return [cell.rjust(width) if right else cell.ljust(width) for cell in cells]
    spaces = [" " * (width - width_of(cell)) for cell in cells]
    if right:
        return [space + cell for space, cell in zip(spaces, cells, strict=True)]
    return [cell + space for space, cell in zip(spaces, cells, strict=True)]


def _side_by_side(blocks: Sequence[Sequence[str]]) -> str:
    """Return padded blocks of equally many lines beside each other."""
    lines = zip(*blocks, strict=True)
    return "".join((" " * _GAP).join(line).rstrip() + "\n" for line in lines)


def _records(
    shown: Sequence[Column], frame: pl.DataFrame, units: Mapping[str, str | None], style: Style
) -> str:
    """Return one line per field, rows side by side as far as there is room, else in blocks."""
    names = [column.name for column in shown]
    filled = [_with_units(column, frame[column.name], units.get(column.name)) for column in shown]
    room = None if style.width is None else max(20, style.width - widest(names) - _GAP)
    beside = 1
    if room is not None:
        whole = [cell for c in filled if not c.name.endswith(_LONG_NAMES) for cell in c.cells]
        width = max(widest(whole), _LEAST_TEXT_WIDTH)
        beside = max(1, min(frame.height, (room + _GAP) // (width + _GAP)))
        filled = [_shortened(column, (room + _GAP) // beside - _GAP) for column in filled]
    blocks = []
    for start in range(0, frame.height, beside):
        taken = range(start, min(start + beside, frame.height))
        rows = [[column.cells[row] for column in filled] for row in taken]
        blocks.append(_side_by_side([_padded(cells, widest(cells)) for cells in [names, *rows]]))
    return "\n".join(blocks)


def _with_units(column: Column, values: pl.Series, unit: str | None) -> Column:
    pairs = zip(column.cells, values.to_list(), strict=True)
    return Column(
        column.name, [with_unit(cell, value, unit) for cell, value in pairs], numeric=False
    )


def _shortened(column: Column, width: int) -> Column:
    if not column.name.endswith(_LONG_NAMES):
        return column
    return Column(column.name, [shorten(cell, width) for cell in column.cells], numeric=False)


def _above(
    common: Sequence[Column], frame: pl.DataFrame, units: Mapping[str, str | None], width: int
) -> str:
    """Return the values in which all rows agree, as lines of text."""
    from rich.console import Console
    from rich.text import Text

    values = frame.row(0, named=True)
    said = [
        f"{column.name}: {with_unit(column.cells[0], values[column.name], units.get(column.name))}"
        for column in common
        if column.cells[0] != NULL
    ]
    unknown = [column.name for column in common if column.cells[0] == NULL]
    if unknown:
        said.append(f"{NULL} in every row: {', '.join(unknown)}")
    if not said:
        return ""
    lines = Text("; ".join(said)).wrap(Console(width=width), width)
    return "".join(f"{line.plain.rstrip()}\n" for line in lines) + "\n"


def _fit(shown: Sequence[Column], width: int) -> list[int] | None:
    """Return the widths in which the columns fit, None where numbers would be cut."""
    natural = [_natural_width(column) for column in shown]
    widths = [min(n, _least_width(c)) for c, n in zip(shown, natural, strict=True)]
    spare = width - _total(widths)
    if spare < 0:
        return None
    lacking = [number for number in range(len(shown)) if natural[number] > widths[number]]
    lacking.sort(key=lambda number: natural[number] - widths[number])
    for place, number in enumerate(lacking):
        # Those that lack little get all of it, the others share what is left.
        more = min(natural[number] - widths[number], spare // (len(lacking) - place))
        widths[number] += more
        spare -= more
    return widths


def _total(widths: Iterable[int]) -> int:
    """Return the width of a table with columns of these widths."""
    taken = list(widths)
    return sum(taken) + _GAP * (len(taken) - 1)


def _least_width(column: Column) -> int:
    """Return the width below which a column is no use: numbers are never cut."""
    if column.numeric:
        return _natural_width(column)
    if column.name.endswith(_LONG_NAMES):
        return _LEAST_NAME_WIDTH
    return max(_LEAST_TEXT_WIDTH, widest(_header(column).split("\n")))


def _natural_width(column: Column) -> int:
    return max(widest(_header(column).split("\n")), widest(column.cells))


def _header(column: Column) -> str:
    """Return the column name, broken at underscores where its values are narrower."""
    limit = max(widest(column.cells), _HEADER_WIDTH)
    lines = [""]
    for part in column.name.replace("_", "_\0").split("\0"):
        if lines[-1] and len(lines[-1]) + len(part) > limit:
            lines.append("")
        lines[-1] += part
    return "\n".join(lines)


def _on_terminal(shown: Sequence[Column], widths: Sequence[int], style: Style) -> str:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0), pad_edge=False)
    headers = [_header(column) for column in shown]
    lines = max(header.count("\n") for header in headers)
    for column, header, width in zip(shown, headers, widths, strict=True):
        table.add_column(
            Text("\n" * (lines - header.count("\n")) + header),
            justify="right" if column.numeric else "left",
            width=width,
            overflow="fold",
        )
    for row in zip(*(column.cells for column in shown), strict=True):
        # Not markup: a kernel name may hold [ and ].
        table.add_row(*map(Text, map(_cell, row, shown, widths)))
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


def _cell(text: str, column: Column, width: int) -> str:
    return shorten(text, width) if column.name.endswith(_LONG_NAMES) else text
