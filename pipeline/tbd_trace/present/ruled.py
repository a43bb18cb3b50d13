"""Format rows as a table with a rule below its header, for terminals."""

from __future__ import annotations

import io
from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tbd_trace.present.layout import Measure, aligned
from tbd_trace.present.names import shortened
from tbd_trace.present.terminal import Style
from tbd_trace.present.values import Column

_HEADER_WIDTH = 7  # headers are not broken into shorter lines, even over narrow numbers


def header(measure: Measure) -> str:
    """Break a column's name at underscores to the width of its values."""
    limit = max(measure.front + measure.fraction, _HEADER_WIDTH)
    lines = [""]
    for part in measure.name.replace("_", "_\0").split("\0"):
        if lines[-1] and len(lines[-1]) + len(part) > limit:
            lines.append("")
        lines[-1] += part
    return "\n".join(lines)


def ruled(shown: Sequence[Column], measures: Sequence[Measure], style: Style) -> str:
    """Format columns as a table; texts wider than their column continue in the next line."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0), pad_edge=False)
    headers = [header(measure) for measure in measures]
    most = max(text.count("\n") for text in headers)
    for measure, text in zip(measures, headers, strict=True):
        justify = "right" if measure.numeric else "left"
        table.add_column(
            Text("\n" * (most - text.count("\n")) + text, justify=justify),  # type: ignore[arg-type]
            width=measure.width,
            overflow="fold",
        )
    cells = [_cells(column, measure) for column, measure in zip(shown, measures, strict=True)]
    for row in zip(*cells, strict=True):
        table.add_row(*map(Text, row))  # not as markup: kernel names contain [ and ]
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


def _cells(column: Column, measure: Measure) -> Sequence[str]:
    if measure.numeric:
        # Padded here: rich would strip the trailing spaces that align decimal points.
        return [cell.rjust(measure.width) for cell in aligned(column.cells, measure.fraction)]
    if measure.is_cut:
        short = shortened(column.cells, measure.width)
        return [short[cell] for cell in column.cells]
    return column.cells
