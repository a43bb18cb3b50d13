"""Rows as a Parquet file, types kept."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator

import polars as pl
import pyarrow.parquet as pq


def parts(frames: Iterable[pl.DataFrame]) -> Iterator[bytes]:
    """Yield the bytes of a zstd-compressed Parquet file of frames that follow each other."""
    buffer = io.BytesIO()
    writer = None
    for frame in frames:
        table = frame.to_arrow()
        if writer is None:
            writer = pq.ParquetWriter(buffer, table.schema, compression="zstd")
        writer.write_table(table)
        yield _taken(buffer)
    if writer is not None:
        writer.close()
    yield _taken(buffer)


def _taken(buffer: io.BytesIO) -> bytes:
    """Return what was written since, and forget it."""
    content = buffer.getvalue()
    buffer.seek(0)
    buffer.truncate()
    return content
