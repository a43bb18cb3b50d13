"""Format rows as a Markdown table of GitHub's dialect."""

from __future__ import annotations

import re
from collections.abc import Iterable

import polars as pl

from tbd_trace.present.values import columns

# Kernel names contain <, > and *. An underscore is special only at the edge of a word.
_SPECIAL = re.compile(r"[\\|<>*`\[\]]|(?<!\w)_|_(?!\w)")


def render(frame: pl.DataFrame) -> str:
    """Format a frame as a Markdown table with right-aligned numbers."""
    shown = columns(frame)
    lines = [
        row(column.name for column in shown),
        row("---:" if column.numeric else "---" for column in shown),
    ]
    lines += map(row, zip(*(column.cells for column in shown), strict=True))
    return "\n".join(lines) + "\n"


def row(cells: Iterable[str]) -> str:
    """Format texts as a row of a table, with Markdown's special characters escaped."""
    escaped = [_SPECIAL.sub(r"\\\g<0>", cell) for cell in cells]
    return f"| {' | '.join(escaped)} |"
