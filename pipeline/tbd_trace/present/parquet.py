"""Rows as a Parquet file, types kept."""

from __future__ import annotations

import io

import polars as pl


def render(frame: pl.DataFrame) -> bytes:
    """Return the frame as the bytes of a zstd-compressed Parquet file."""
    buffer = io.BytesIO()
    frame.write_parquet(buffer, compression="zstd")
    return buffer.getvalue()
