"""``tbd-trace summary``: one page about traces."""

# polars and duckdb are imported when a command runs, so that `--help` starts fast.
# ruff: noqa: PLC0415
from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from tbd_trace.cli.options import DEFAULT_DATABASE, DatabaseOption, OutputOption, TracesArgument
from tbd_trace.cli.output import busy, emit_text


class SummaryFormat(StrEnum):
    """Formats of the page."""

    MARKDOWN = "markdown"


def summary(
    traces: TracesArgument = None,
    *,
    form: Annotated[
        SummaryFormat,
        typer.Option("--format", metavar="FORM", help="markdown.", case_sensitive=False),
    ] = SummaryFormat.MARKDOWN,
    output: OutputOption = None,
    db: DatabaseOption = DEFAULT_DATABASE,
) -> None:
    """Print one page about traces, for a ticket or a language model.

    It has the recording, the causes of slow training, findings, iterations, layers and kernels with
    their evidence, in at most 12,000 characters (about 4,000 tokens).
    """
    from tbd_trace.analysis import summary as page
    from tbd_trace.api import open_traces

    with busy("reading"):
        text = page.summary(open_traces(*(traces or []), db=db))
    emit_text(text, output)
