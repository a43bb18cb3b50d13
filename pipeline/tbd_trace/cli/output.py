"""Write rows to standard output or a file, and notes and errors to standard error."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from tbd_trace.errors import SqlError, UsageError
from tbd_trace.present import Format, Style, format_of, joined, parts, printable, write

if TYPE_CHECKING:
    import polars as pl

    from tbd_trace.api import Traces

_ROWS_ON_TERMINAL = 50
_COLUMNS_ELSEWHERE = 200  # width of a table that goes to a pipe or a file
_LONGEST_MESSAGE = 2_000  # characters
_CHUNK_BYTES = 65_536  # the capacity of a pipe on Linux


def note(text: str) -> None:
    """Print a note about the result to standard error."""
    typer.echo(f"note: {_bounded(printable(text))}", err=True)


def failure(text: object) -> None:
    """Print an error message to standard error."""
    # Only SQL errors keep line breaks: a caret points at the place in the statement.
    lines = str(text).splitlines() if isinstance(text, SqlError) else [str(text)]
    typer.echo("error: " + _bounded("\n".join(map(printable, lines))), err=True)


def _bounded(text: str) -> str:
    # Names in a trace may be of any length; the beginning and the advice at the end matter.
    if len(text) <= _LONGEST_MESSAGE:
        return text
    half = _LONGEST_MESSAGE // 2
    return f"{text[:half]} … {text[-half:]}"


def emit(
    frame: pl.DataFrame,
    form: Format | None = None,
    path: Path | None = None,
    *,
    limit: int | None = None,
    units: Mapping[str, str | None] | None = None,
    records: bool = False,
    more: bool = False,
    wide: bool = False,
    excel_safe: bool = False,
) -> None:
    """Write rows to standard output or to a file.

    Args:
        form: format; None chooses it by the extension of ``path``, else a table.
        path: output file; None writes to standard output.
        limit: number of rows to write; see :func:`row_limit`.
        more: True if ``frame`` was limited and rows are missing.
        excel_safe: quote texts in CSV that a spreadsheet would take for formulas.

    Raises:
        UsageError: the extension is unknown, Parquet would go to a terminal, or ``excel_safe`` is
            set for another format than CSV.
    """
    form = chosen_form(form, path)
    if excel_safe:
        frame = _excel_safe(frame, form)
    terminal = path is None and sys.stdout.isatty()
    limit = row_limit(form, path, limit)
    shown = frame if limit is None else frame.head(limit)
    content = parts(shown, form, units=units, style=style_of(terminal, records, wide))
    # Cells of a table are escaped, and its colours are escape sequences.
    _deliver(content if form is Format.TABLE else _for_terminal(content, path), path)
    if frame.is_empty():
        note("no rows")
    elif more:
        note(f"first {shown.height:,} rows shown; --limit 0 shows all")
    elif shown.height < frame.height:
        note(f"{shown.height:,} of {frame.height:,} rows shown; --limit 0 shows all")


def with_names(
    frame: pl.DataFrame, traces: Traces, form: Format | None, path: Path | None
) -> pl.DataFrame:
    """Return the frame with names instead of trace ids if it is written for people."""
    column, name = "trace_id", "trace"
    readable = chosen_form(form, path) in (Format.TABLE, Format.MARKDOWN)
    if not readable or column not in frame.columns or name in frame.columns:
        return frame
    import polars as pl  # noqa: PLC0415 - as above

    named = pl.col(column).cast(pl.String).replace(traces.names())
    return frame.with_columns(named).rename({column: name})


def emit_joined(
    frames: Iterable[pl.DataFrame],
    form: Format,
    path: Path | None = None,
    *,
    excel_safe: bool = False,
) -> None:
    """Write consecutive frames of one result as they arrive.

    Args:
        frames: the rows, for :func:`tbd_trace.present.joined`.
        form: one of ``present.JOINABLE``.
        path: output file; None writes to standard output.
        excel_safe: as of :func:`emit`.
    """
    rows = 0

    def counted() -> Iterator[pl.DataFrame]:
        nonlocal rows
        for frame in frames:
            rows += frame.height
            yield _excel_safe(frame, form) if excel_safe else frame

    _deliver(_for_terminal(joined(counted(), form), path), path)
    if rows == 0:
        note("no rows")


def _excel_safe(frame: pl.DataFrame, form: Format) -> pl.DataFrame:
    from tbd_trace.present.csv import spreadsheet_safe  # noqa: PLC0415 - imports polars

    if form is not Format.CSV:
        raise UsageError("--excel-safe is for CSV; add --format csv, or -o FILE.csv")
    return spreadsheet_safe(frame)


def _for_terminal(content: Iterable[bytes], path: Path | None) -> Iterator[bytes]:
    # Programs that read the output get it unchanged.
    if path is not None or not sys.stdout.isatty():
        yield from content
        return
    for part in content:
        lines = part.decode("utf-8", "replace").split("\n")
        yield "\n".join(map(printable, lines)).encode()


def chosen_form(form: Format | None, path: Path | None) -> Format:
    """Return ``form``, or else the format of the file's extension, or else a table.

    Raises:
        UsageError: the extension is unknown, or Parquet would go to a terminal.
    """
    form = form or (Format.TABLE if path is None else format_of(path))
    if path is None and sys.stdout.isatty() and form is Format.PARQUET:
        raise UsageError("Parquet is not for a terminal; add -o FILE")
    return form


def row_limit(form: Format | None, path: Path | None, limit: int | None) -> int | None:
    """Return the number of rows to write, None for all.

    ``limit`` is the value of ``--limit``, where 0 means all. By default a table on a terminal has
    50 rows, and everything else all rows.
    """
    if limit is None and path is None and sys.stdout.isatty() and form in (None, Format.TABLE):
        return _ROWS_ON_TERMINAL
    return limit or None


def emit_text(text: str, path: Path | None = None) -> None:
    """Write a text to standard output or to a file."""
    _deliver([text.encode()], path)


def _deliver(content: Iterable[bytes], path: Path | None) -> None:
    if path is None:
        for part in content:
            _to_stdout(part)
    else:
        write(path, content)
        note(f"wrote {path}")


def _to_stdout(content: bytes) -> None:
    sys.stdout.flush()
    left = memoryview(content)
    while left:  # with PYTHONUNBUFFERED, a write may be partial
        left = left[sys.stdout.buffer.write(left[:_CHUNK_BYTES]) :]
    sys.stdout.buffer.flush()


def style_of(terminal: bool, records: bool = False, wide: bool = False) -> Style:
    """Return the layout of tables on standard output."""
    if wide:
        return Style(records=records, plain=True)
    if not terminal:
        return Style(width=_COLUMNS_ELSEWHERE, records=records, plain=True)
    # https://no-color.org
    colour = "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
    return Style(width=shutil.get_terminal_size().columns, colour=colour, records=records)


@contextmanager
def busy(text: str) -> Iterator[Callable[[str], None]]:
    """Show a spinner with a text on a terminal; yield a function that changes the text."""
    if not sys.stderr.isatty():
        yield lambda _text: None
        return
    from rich.console import Console  # noqa: PLC0415 - only a terminal needs it
    from rich.text import Text  # noqa: PLC0415

    with Console(stderr=True).status(Text(text)) as status:
        yield lambda more: status.update(Text(printable(more)))
