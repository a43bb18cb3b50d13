"""Rows as CSV: raw numbers, an empty field for NULL, lists and structs as JSON text."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator
from typing import Any

import polars as pl

from tbd_trace.present.values import plain

_ROWS_AT_ONCE = 65_536


def render(frame: pl.DataFrame) -> bytes:
    """Return the frame as CSV with a header row, in UTF-8."""
    return b"".join(parts([frame]))


def parts(frames: Iterable[pl.DataFrame]) -> Iterator[bytes]:
    """Yield the lines of frames that follow each other, thousands at a time; first the header."""
    for number, frame in enumerate(frames):
        if number == 0:
            yield _lines(frame.clear(), include_header=True)
        for rows in frame.iter_slices(_ROWS_AT_ONCE):
            yield _lines(rows, include_header=False)


def _lines(frame: pl.DataFrame, *, include_header: bool) -> bytes:
    file = io.BytesIO()
    frame.with_columns(
        pl.Series(name, [_as_json(value) for value in frame[name].to_list()], dtype=pl.String)
        for name, dtype in frame.schema.items()
        if dtype.is_nested()
    ).write_csv(file, include_header=include_header)
    return file.getvalue()


def _as_json(value: Any) -> str | None:
    return None if value is None else json.dumps(plain(value), ensure_ascii=False)
