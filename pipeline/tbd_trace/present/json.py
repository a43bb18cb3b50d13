"""Rows as JSON: an array with one object per row, raw numbers, null for NULL."""

from __future__ import annotations

import json

import polars as pl

from tbd_trace.present.values import plain


def render(frame: pl.DataFrame) -> str:
    """Return the frame as a JSON array, one row per line."""
    rows = (json.dumps(plain(row), ensure_ascii=False) for row in frame.iter_rows(named=True))
    return "[" + ",\n ".join(rows) + "]\n"
