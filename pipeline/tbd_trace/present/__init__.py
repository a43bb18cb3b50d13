"""Format frames as tables, CSV, JSON, Markdown, Parquet and plots, one module per format."""

# Formats are imported when used: CSV does not need rich, and `--help` does not need polars.
# ruff: noqa: PLC0415
from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from tbd_trace.errors import TbdTraceError, UsageError
from tbd_trace.present.terminal import Style, printable
from tbd_trace.runtime.atomic_write import atomic_write

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "JOINABLE",
    "Format",
    "Style",
    "format_of",
    "joined",
    "parts",
    "printable",
    "render",
    "write",
]


class Format(StrEnum):
    """Output format of rows."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"
    MARKDOWN = "markdown"


JOINABLE = frozenset({Format.CSV, Format.JSON, Format.PARQUET})
"""Formats that can be written before all rows are known."""

_EXTENSIONS = {
    ".txt": Format.TABLE,
    ".csv": Format.CSV,
    ".json": Format.JSON,
    ".parquet": Format.PARQUET,
    ".md": Format.MARKDOWN,
}


def format_of(path: Path) -> Format:
    """Return the format of a file's extension.

    Raises:
        UsageError: the extension is unknown.
    """
    try:
        return _EXTENSIONS[path.suffix.lower()]
    except KeyError:
        known = ", ".join(_EXTENSIONS)
        raise UsageError(f"{path}: unknown extension (known: {known}); add --format") from None


def render(
    frame: pl.DataFrame,
    form: Format,
    *,
    units: Mapping[str, str | None] | None = None,
    style: Style | None = None,
) -> bytes:
    """Format the rows of a frame.

    Args:
        form: output format; text is UTF-8 and ends with a newline.
        units: unit by column, shown in tables with one line per field.
        style: layout of a table, by default plain text.
    """
    return b"".join(parts(frame, form, units=units, style=style))


def parts(
    frame: pl.DataFrame,
    form: Format,
    *,
    units: Mapping[str, str | None] | None = None,
    style: Style | None = None,
) -> Iterator[bytes]:
    """Yield the result of :func:`render` in parts that fit in memory; Markdown is one part."""
    match form:
        case Format.TABLE:
            from tbd_trace.present import table

            yield from map(str.encode, table.parts(frame, units or {}, style or Style()))
        case Format.MARKDOWN:
            from tbd_trace.present import markdown

            yield markdown.render(frame).encode()
        case _:
            yield from joined([frame], form)


def joined(frames: Iterable[pl.DataFrame], form: Format) -> Iterator[bytes]:
    """Format consecutive frames of one result as they arrive.

    Args:
        frames: at least one frame, all with the same columns.
    """
    iterator = iter(frames)
    # The first frame starts worker processes, which run while the format imports polars.
    all_frames = chain([next(iterator)], iterator)
    match form:
        case Format.CSV:
            from tbd_trace.present import csv

            yield from csv.parts(all_frames)
        case Format.JSON:
            from tbd_trace.present import json

            yield from json.parts(all_frames)
        case Format.PARQUET:
            from tbd_trace.present import parquet

            yield from parquet.parts(all_frames)
        case _:
            raise ValueError(f"{form}: its column widths depend on all rows")


def write(path: Path, content: bytes | Iterable[bytes]) -> None:
    """Write a file atomically.

    Raises:
        TbdTraceError: the file cannot be written.
    """
    try:
        if path.exists() and not path.is_file():  # /dev/stdout or a named pipe cannot be replaced
            _write(path, content)
            return
        with atomic_write(path) as beside:
            _write(beside, content)
    except OSError as error:
        raise TbdTraceError(f"{path}: cannot be written ({error.strerror})") from error


def _write(path: Path, content: bytes | Iterable[bytes]) -> None:
    with path.open("wb") as file:
        file.writelines([content] if isinstance(content, bytes) else content)
