"""Showing a frame as a table, CSV, JSON, Markdown, Parquet or a plot: one module per form."""

# The forms are imported when used: a CSV needs no rich, `--help` needs no polars.
# ruff: noqa: PLC0415
from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from tbd_trace.errors import TbdTraceError, UsageError
from tbd_trace.runtime.atomic_write import written_beside

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
    """A form in which rows are written."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"
    MARKDOWN = "markdown"


JOINABLE = frozenset({Format.CSV, Format.JSON, Format.PARQUET})
"""Forms that need not know all rows before they write the first."""

_EXTENSIONS = {
    ".txt": Format.TABLE,
    ".csv": Format.CSV,
    ".json": Format.JSON,
    ".parquet": Format.PARQUET,
    ".md": Format.MARKDOWN,
}


@dataclass(frozen=True, slots=True)
class Style:
    """How a table for people is laid out.

    Attributes:
        width: cells to fit in; None for plain text that nothing is cut from.
        colour: whether escape sequences for colour are welcome.
        records: one line per field, as a single row is always shown.
        plain: one line per row without rules, as for a pipe.
    """

    width: int | None = None
    colour: bool = False
    records: bool = False
    plain: bool = False


def printable(text: str) -> str:
    """Return a text with what would move a terminal's cursor or ring its bell made visible.

    Names and messages in a trace are other programs' text.
    """
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )


def format_of(path: Path) -> Format:
    """Return the format that a file's extension asks for.

    Raises:
        UsageError: the extension names no format.
    """
    try:
        return _EXTENSIONS[path.suffix.lower()]
    except KeyError:
        known = ", ".join(_EXTENSIONS)
        raise UsageError(
            f"{path}: its extension names no format (known: {known}); add --format"
        ) from None


def render(
    frame: pl.DataFrame,
    form: Format,
    *,
    units: Mapping[str, str | None] | None = None,
    style: Style | None = None,
) -> bytes:
    """Return the rows of a frame in one form.

    Args:
        frame: the rows.
        form: the form; text comes out as UTF-8 and ends with a newline.
        units: unit per column, shown where a table has room for it.
        style: layout of a table, plain text by default.
    """
    return b"".join(parts(frame, form, units=units, style=style))


def parts(
    frame: pl.DataFrame,
    form: Format,
    *,
    units: Mapping[str, str | None] | None = None,
    style: Style | None = None,
) -> Iterator[bytes]:
    """Yield what :func:`render` returns; of millions of rows no more than a part is in memory.

    So far as the form allows: Markdown comes as a whole.
    """
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
    """Yield the rows of frames that follow each other as one answer, as the frames come.

    Args:
        frames: the rows; at least one frame, and all have the same columns.
        form: one of ``JOINABLE``.
    """
    coming = iter(frames)
    # The first now: processes may be started for it, which work while the forms import polars.
    every = chain([next(coming)], coming)
    match form:
        case Format.CSV:
            from tbd_trace.present import csv

            yield from csv.parts(every)
        case Format.JSON:
            from tbd_trace.present import json

            yield from json.parts(every)
        case Format.PARQUET:
            from tbd_trace.present import parquet

            yield from parquet.parts(every)
        case _:
            raise ValueError(f"{form}: its columns are as wide as the widest of all rows")


def write(path: Path, content: bytes | Iterable[bytes]) -> None:
    """Write a file as a whole, from its content or the parts of it: nobody ever sees half of it.

    Raises:
        TbdTraceError: the file cannot be written.
    """
    try:
        if path.exists() and not path.is_file():  # /dev/stdout, a named pipe: nothing to rename
            _write(path, content)
            return
        with written_beside(path) as beside:
            _write(beside, content)
    except OSError as error:
        raise TbdTraceError(f"{path}: cannot be written ({error.strerror})") from error


def _write(path: Path, content: bytes | Iterable[bytes]) -> None:
    with path.open("wb") as file:
        file.writelines([content] if isinstance(content, bytes) else content)
