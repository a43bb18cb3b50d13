"""``tbd-trace check``: what the rules say about traces, sweeps and runs."""

# polars and duckdb are imported when a command runs: `--help` stays fast.
# ruff: noqa: PLC0415
from __future__ import annotations

import shutil
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tbd_trace import resources
from tbd_trace.cli.options import (
    DEFAULT_DATABASE,
    DatabaseOption,
    FormatOption,
    OutputOption,
    TracesArgument,
    WideOption,
)
from tbd_trace.cli.output import busy, emit, emit_text
from tbd_trace.cli.query import assigned
from tbd_trace.errors import CannotAnswerError, TbdTraceError
from tbd_trace.present import Format, format_of

if TYPE_CHECKING:
    import polars as pl


class Severity(StrEnum):
    """How bad a finding is."""

    NOTE = "note"
    WARNING = "warning"
    SEVERE = "severe"


def _complete_rule(incomplete: str) -> list[str]:
    return [name for name in resources.sql_files("checks") if name.startswith(incomplete)]


def check(
    traces: TracesArgument = None,
    *,
    rules: Annotated[
        list[str] | None,
        typer.Option(
            "--rule",
            metavar="RULE",
            help="Ask this rule only, by id (OBS04) or name; may be repeated.",
            autocompletion=_complete_rule,
            show_default=False,
        ),
    ] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Set a threshold, or a parameter of what rules build on; may be repeated.",
            show_default=False,
        ),
    ] = None,
    fail_on: Annotated[
        Severity | None,
        typer.Option(
            "--fail-on",
            metavar="SEVERITY",
            help="Exit with 1 where there is a finding as bad as this or worse: note, warning or "
            "severe.",
            show_default=False,
        ),
    ] = None,
    form: FormatOption = None,
    output: OutputOption = None,
    wide: WideOption = False,
    verbose: Annotated[
        bool,
        typer.Option("--verbose", "-v", help="Tell what to collect for what is not evaluable."),
    ] = False,
    list_: Annotated[bool, typer.Option("--list", help="List the rules.")] = False,
    db: DatabaseOption = DEFAULT_DATABASE,
) -> None:
    """Tell what stands out in traces, batch-size sweeps and runs, and what to change.

    Each rule passes, finds something or is not evaluable: then it says what the traces lack.
    docs/reference/checks.md describes the rules and their thresholds.
    """
    if list_:
        _list(rules, form, output, wide=wide)
        return
    from tbd_trace.analysis.checks import evaluate
    from tbd_trace.api import open_traces

    parameters = assigned(assignments or [])
    with busy("checking"):
        opened = open_traces(*(traces or []), db=db)
        frame = evaluate(opened, rules, parameters)
        names = dict(opened.database.traces().select("trace_id", "name").rows())
    asked = {trace_id: names[trace_id] for trace_id in frame["trace_id"].drop_nulls().to_list()}
    _show(frame, asked, form, output, verbose=verbose)
    _judge(frame, fail_on)


def _show(
    frame: pl.DataFrame,
    names: dict[str, str],
    form: Format | None,
    output: Path | None,
    *,
    verbose: bool,
) -> None:
    if (form or (Format.TABLE if output is None else format_of(output))) is not Format.TABLE:
        emit(frame, form, output)
        return
    from tbd_trace.analysis.checks.text import WIDTH, render

    terminal = output is None and sys.stdout.isatty()
    width = min(shutil.get_terminal_size().columns, WIDTH) if terminal else WIDTH
    emit_text(render(frame, names, width, verbose=verbose), output)


def _judge(frame: pl.DataFrame, fail_on: Severity | None) -> None:
    """Raise what gives the command its exit code.

    Raises:
        CannotAnswerError: no rule could say anything.
        TbdTraceError: there is a finding as bad as ``fail_on``, or worse.
    """
    from tbd_trace.analysis.checks import findings_from

    if set(frame["verdict"].to_list()) == {"not evaluable"}:
        raise CannotAnswerError(
            "check: no rule could be evaluated; --verbose tells what to collect for each"
        )
    if fail_on is not None and not (bad := findings_from(frame, fail_on.value)).is_empty():
        rules = ", ".join(bad["rule"].unique(maintain_order=True).to_list())
        number = f"{bad.height} finding{'' if bad.height == 1 else 's'}"
        raise TbdTraceError(f"check: {number} at or above {fail_on.value} ({rules})")


def _list(rules: list[str] | None, form: Format | None, output: Path | None, *, wide: bool) -> None:
    import polars as pl

    from tbd_trace.analysis.checks import select
    from tbd_trace.analysis.checks.rules import rule_of

    rows = [(rule_of(q).rule, q.name, rule_of(q).scope, q.question) for q in select(rules)]
    frame = pl.DataFrame(rows, schema=["rule", "name", "scope", "question"], orient="row")
    emit(frame, form, output, limit=0, wide=wide)
