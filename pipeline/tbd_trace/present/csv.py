"""Format rows as CSV: unscaled numbers, empty fields for NULL, lists and structs as JSON."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator
from typing import IO, TYPE_CHECKING, Any, cast

import polars as pl

from tbd_trace.present.values import plain

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer

_ROWS_AT_ONCE = 65_536  # limits the memory of the text


def render(frame: pl.DataFrame) -> bytes:
    """Format a frame as UTF-8 CSV with a header row."""
    return b"".join(parts([frame]))


def parts(frames: Iterable[pl.DataFrame]) -> Iterator[bytes]:
    """Yield the header and the lines of consecutive frames, thousands of lines at a time."""
    for number, frame in enumerate(frames):
        if number == 0:
            yield from _lines(frame.clear(), include_header=True)
        for rows in frame.iter_slices(_ROWS_AT_ONCE):
            yield from _lines(rows, include_header=False)


def spreadsheet_safe(frame: pl.DataFrame) -> pl.DataFrame:
    """Put a quote before the texts that a spreadsheet would take for formulas.

    These begin with ``=``, ``+``, ``-``, ``@``, a tab or a carriage return (OWASP, CSV injection).
    """
    texts = {
        name: pl.col(name).cast(pl.String)
        for name, dtype in frame.schema.items()
        if dtype in (pl.String, pl.Categorical, pl.Enum)
    }
    return frame.with_columns(
        pl.when(text.str.contains(r"^[=+\-@\t\r]")).then("'" + text).otherwise(text).alias(name)
        for name, text in texts.items()
    )


def _lines(frame: pl.DataFrame, *, include_header: bool) -> list[bytes]:
    file = _Parts()
    as_file = cast("IO[bytes]", file)
    frame.with_columns(
        pl.Series(name, [_as_json(value) for value in frame[name].to_list()], dtype=pl.String)
        for name, dtype in frame.schema.items()
        if dtype.is_nested()
    ).write_csv(as_file, include_header=include_header)
    return file.parts


class _Parts(io.RawIOBase):
    # Collects the written parts: a single growing buffer would be copied again and again.

    def __init__(self) -> None:
        self.parts: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, part: Buffer) -> int:
        self.parts.append(bytes(part))
        return len(self.parts[-1])


def _as_json(value: Any) -> str | None:
    return None if value is None else json.dumps(plain(value), ensure_ascii=False)
