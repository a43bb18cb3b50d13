"""Format rows as a JSON array with one object per row, unscaled numbers and null for NULL."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

import polars as pl

from tbd_trace.present.values import plain


def parts(frames: Iterable[pl.DataFrame]) -> Iterator[bytes]:
    """Yield the rows of consecutive frames as one JSON array, one row per line."""
    before = "["
    for frame in frames:
        rows = (json.dumps(plain(row), ensure_ascii=False) for row in frame.iter_rows(named=True))
        if not frame.is_empty():
            yield (before + ",\n ".join(rows)).encode()
            before = ",\n "
    yield b"[]\n" if before == "[" else b"]\n"
