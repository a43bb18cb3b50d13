"""Rows as CSV: raw numbers, an empty field for NULL, lists and structs as JSON text."""

from __future__ import annotations

import io
import json
from typing import Any

import polars as pl

from tbd_trace.present.values import plain


def render(frame: pl.DataFrame) -> bytes:
    """Return the frame as CSV with a header row, in UTF-8."""
    file = io.BytesIO()
    frame.with_columns(
        pl.Series(name, [_as_json(value) for value in frame[name].to_list()], dtype=pl.String)
        for name, dtype in frame.schema.items()
        if dtype.is_nested()
    ).write_csv(file)
    return file.getvalue()


def _as_json(value: Any) -> str | None:
    return None if value is None else json.dumps(plain(value), ensure_ascii=False)
