"""``tbd-trace sql``: run SQL over the canonical and derived tables."""

# polars and duckdb are imported when a command runs, so that `--help` starts fast.
# ruff: noqa: PLC0415
from __future__ import annotations

import sys
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tbd_trace.cli.options import (
    DEFAULT_DATABASE,
    DatabaseOption,
    ExcelSafeOption,
    FormatOption,
    LimitOption,
    OutputOption,
    WideOption,
)
from tbd_trace.cli.output import busy, chosen_form, emit, emit_joined
from tbd_trace.present import JOINABLE, Format

if TYPE_CHECKING:
    from tbd_trace.api import Traces


def sql(
    statement: Annotated[
        str | None,
        typer.Argument(
            metavar="STATEMENT",
            help="SQL to run; `-` reads it from standard input. Without it, standard input is "
            "read, or on a terminal a shell is opened.",
            show_default=False,
        ),
    ] = None,
    *,
    trace: Annotated[
        list[str] | None,
        typer.Option(
            "--trace",
            metavar="TRACE",
            help="Trace to read, as in `query`; may be repeated. By default the whole database.",
            show_default=False,
        ),
    ] = None,
    form: FormatOption = None,
    output: OutputOption = None,
    limit: LimitOption = None,
    wide: WideOption = False,
    excel_safe: ExcelSafeOption = False,
    db: DatabaseOption = DEFAULT_DATABASE,
) -> None:
    """Run SQL over the canonical and derived tables.

    docs/reference/tables describes the tables. Statements that write are refused.
    """
    import tbd_trace

    with busy("reading"):
        opened = tbd_trace.open(*(trace or []), db=db)
    if statement is None and sys.stdin.isatty():
        from tbd_trace.cli.shell import Shell

        with opened.connect() as connection:
            Shell(connection, form=form, limit=limit, wide=wide).run()
        return
    if statement in (None, "-"):
        statement = sys.stdin.read()
    if limit is None and (written := chosen_form(form, output)) in JOINABLE:
        _emit_batches(opened, statement or "", written, output, excel_safe=excel_safe)
        return
    with busy("asking"):
        frame = opened.sql(statement or "")
    emit(frame, form, output, limit=limit, wide=wide, excel_safe=excel_safe)


def _emit_batches(
    opened: Traces, statement: str, form: Format, output: Path | None, *, excel_safe: bool
) -> None:
    # In batches, because a result may have millions of rows.
    from tbd_trace.query import sql_batches

    batches = sql_batches(opened.database, statement, opened.trace_ids)
    with closing(batches) as frames:
        with busy("asking"):
            first = next(frames)
        emit_joined(chain([first], frames), form, output, excel_safe=excel_safe)
