"""Format rows as a Markdown table of GitHub's dialect."""

from __future__ import annotations

import polars as pl

from tbd_trace.markdown import row
from tbd_trace.present.values import columns


def render(frame: pl.DataFrame) -> str:
    """Format a frame as a Markdown table with right-aligned numbers."""
    shown = columns(frame)
    lines = [
        row(column.name for column in shown),
        row("---:" if column.numeric else "---" for column in shown),
    ]
    lines += map(row, zip(*(column.cells for column in shown), strict=True))
    return "\n".join(lines) + "\n"
