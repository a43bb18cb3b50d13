"""``tbd-trace check``: evaluate rules on traces, batch-size sweeps and runs."""

# polars and duckdb are imported when a command runs, so that `--help` starts fast.
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
    DaskOption,
    DatabaseOption,
    FormatOption,
    OutputOption,
    TracesArgument,
    WideOption,
    WorkersOption,
)
from tbd_trace.cli.output import busy, emit, emit_text
from tbd_trace.cli.query import assigned
from tbd_trace.cli.spread import executor_of, require_all
from tbd_trace.errors import CannotAnswerError, TbdTraceError
from tbd_trace.present import Format, format_of

if TYPE_CHECKING:
    import polars as pl


class Severity(StrEnum):
    """Severity of a finding, in ascending order."""

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
            help="Evaluate only this rule, by id (OBS04) or name; may be repeated.",
            autocompletion=_complete_rule,
            show_default=False,
        ),
    ] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Set a threshold, or a parameter of the tables that rules use; may be repeated.",
            show_default=False,
        ),
    ] = None,
    fail_on: Annotated[
        Severity | None,
        typer.Option(
            "--fail-on",
            metavar="SEVERITY",
            help="Exit with 1 if a finding has at least this severity: note, warning or severe.",
            show_default=False,
        ),
    ] = None,
    form: FormatOption = None,
    output: OutputOption = None,
    wide: WideOption = False,
    every: Annotated[
        bool, typer.Option("--all", help="List the rules that need more data, too.")
    ] = False,
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose", "-v", help="List the rules that need more data, and how to collect it."
        ),
    ] = False,
    workers: WorkersOption = None,
    dask: DaskOption = None,
    list_: Annotated[bool, typer.Option("--list", help="List the rules.")] = False,
    db: DatabaseOption = DEFAULT_DATABASE,
) -> None:
    """Find problems in traces, batch-size sweeps and runs, with changes to try.

    Each rule passes, has findings, or is not evaluable because the traces lack data that it names.
    docs/reference/checks.md describes the rules and their thresholds.
    """
    if list_:
        _list(rules, form, output, wide=wide)
        return
    from tbd_trace.analysis.checks import evaluate
    from tbd_trace.api import open_traces

    parameters = assigned(assignments or [])
    missing: list[str] = []
    with busy("checking"):
        opened = open_traces(*(traces or []), db=db)
        with executor_of(workers, dask) as executor:
            frame = evaluate(opened, rules, parameters, executor=executor, missing=missing)
        names = opened.names()
    # Findings of sweeps and runs have no trace id.
    checked = {trace_id: names[trace_id] for trace_id in frame["trace_id"].drop_nulls().to_list()}
    _show(frame, checked, form, output, verbose=verbose, every=every or bool(rules))
    require_all(missing)
    _raise_for(frame, fail_on)


def _show(
    frame: pl.DataFrame,
    names: dict[str, str],
    form: Format | None,
    output: Path | None,
    *,
    verbose: bool,
    every: bool,
) -> None:
    if (form or (Format.TABLE if output is None else format_of(output))) is not Format.TABLE:
        emit(frame, form, output)
        return
    from tbd_trace.analysis.checks.text import WIDTH, render

    terminal = output is None and sys.stdout.isatty()
    # Longer lines are hard to read, however wide the terminal.
    width = min(shutil.get_terminal_size().columns, WIDTH) if terminal else WIDTH
    emit_text(render(frame, names, width, verbose=verbose, every=every), output)


def _raise_for(frame: pl.DataFrame, fail_on: Severity | None) -> None:
    # Exit code 3 if no rule was evaluable, 1 if a finding is at least as severe as `fail_on`.
    from tbd_trace.analysis.checks import findings_from

    if set(frame["verdict"].to_list()) == {"not evaluable"}:
        raise CannotAnswerError(
            "check: no rule could be evaluated; --verbose shows the data to collect for each"
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
