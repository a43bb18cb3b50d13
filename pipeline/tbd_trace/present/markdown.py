"""Format rows as a Markdown table of GitHub's dialect."""

from __future__ import annotations

import re

import polars as pl

from tbd_trace.present.values import columns

# Kernel names contain <, > and *. An underscore is special only at the edge of a word.
_SPECIAL = re.compile(r"[\\|<>*`\[\]]|(?<!\w)_|_(?!\w)")


def render(frame: pl.DataFrame) -> str:
    """Format a frame as a Markdown table with right-aligned numbers."""
    shown = columns(frame)
    lines = [
        _row([_escape(column.name) for column in shown]),
        _row(["---:" if column.numeric else "---" for column in shown]),
    ]
    rows = zip(*(column.cells for column in shown), strict=True)
    lines += [_row([_escape(cell) for cell in row]) for row in rows]
    return "\n".join(lines) + "\n"


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _escape(cell: str) -> str:
    return _SPECIAL.sub(r"\\\g<0>", cell)
