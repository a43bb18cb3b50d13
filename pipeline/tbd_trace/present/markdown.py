"""Rows as a Markdown table, as GitHub renders it."""

from __future__ import annotations

import re

import polars as pl

from tbd_trace.present.values import columns

# Kernel names hold <, > and * in masses; an underscore only counts at the edge of a word.
_SPECIAL = re.compile(r"[\\|<>*`\[\]]|(?<!\w)_|_(?!\w)")


def render(frame: pl.DataFrame) -> str:
    """Return the frame as a Markdown table, numbers aligned to the right."""
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
