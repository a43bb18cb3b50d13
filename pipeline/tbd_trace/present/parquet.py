"""Format rows as a Parquet file with the types of the frame."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator

import polars as pl
import pyarrow.parquet as pq


def parts(frames: Iterable[pl.DataFrame]) -> Iterator[bytes]:
    """Yield the bytes of a zstd-compressed Parquet file of consecutive frames."""
    buffer = io.BytesIO()
    writer = None
    for frame in frames:
        table = frame.to_arrow()
        if writer is None:
            writer = pq.ParquetWriter(buffer, table.schema, compression="zstd")
        writer.write_table(table)
        yield _drain(buffer)
    if writer is not None:
        writer.close()
    yield _drain(buffer)


def _drain(buffer: io.BytesIO) -> bytes:
    # Emptied after each frame, so that the file is never in memory as a whole.
    content = buffer.getvalue()
    buffer.seek(0)
    buffer.truncate()
    return content
