"""``tbd-trace hang``: the rank that hangs a distributed job."""

# polars and duckdb are imported when a command runs, so that `--help` starts fast.
# ruff: noqa: PLC0415
from __future__ import annotations

import json
import shutil
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from tbd_trace.cli.options import OutputOption
from tbd_trace.cli.output import busy, emit_text, note


class HangFormat(StrEnum):
    """Formats of the answer."""

    TABLE = "table"
    JSON = "json"


def hang(
    directory: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="Directory with a Flight Recorder dump per rank."),
    ],
    *,
    world_size: Annotated[
        int | None,
        typer.Option(
            "--world-size",
            metavar="N",
            min=1,
            help="Number of ranks of the job. By default as in the dumps.",
            show_default=False,
        ),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(
            "--report",
            metavar="FILE",
            help="Also write an HTML page with the collectives of each rank.",
            show_default=False,
        ),
    ] = None,
    form: Annotated[
        HangFormat,
        typer.Option("--format", metavar="FORM", help="table or json.", case_sensitive=False),
    ] = HangFormat.TABLE,
    output: OutputOption = None,
) -> None:
    """Show which rank hangs a distributed job, at which collective and line.

    Reads the dumps of PyTorch's Flight Recorder, as pickle or JSON; the rank is the number in the
    file name. Names no rank if the dumps do not show it.
    """
    from tbd_trace.analysis.hang.answer import explain_hang

    if report is not None:
        from tbd_trace.analysis.report.writing import check_target

        check_target(report)
    with busy("reading"):
        answer, store, trace_ids = explain_hang(directory, world_size)
    for text in answer.notes:
        note(text)
    if form is HangFormat.JSON:
        emit_text(json.dumps(answer.to_dict(), indent=2, ensure_ascii=False) + "\n", output)
    else:
        from tbd_trace.analysis.hang.screen import hang_text

        width = shutil.get_terminal_size((80, 24)).columns
        emit_text(hang_text(answer, width), output)
    if report is not None:
        from tbd_trace.api import Traces

        Traces(store, trace_ids).report(report)
