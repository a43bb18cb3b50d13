"""``tbd-trace export``: write traces in formats of other tools."""

# polars and duckdb are imported when a command runs, so that `--help` starts fast.
# ruff: noqa: PLC0415
from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tbd_trace.cli.options import (
    DEFAULT_DATABASE,
    DatabaseOption,
    ExcelSafeOption,
    KeepOption,
    TracesArgument,
)
from tbd_trace.cli.output import busy, note
from tbd_trace.cli.redacted import redacted

export = typer.Typer(
    help="Write traces for other tools: a timeline for Perfetto, any table as Parquet or CSV.",
    rich_markup_mode=None,
)


@export.command()
def perfetto(
    traces: TracesArgument = None,
    *,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="FILE", help="File to write: .pftrace or .pftrace.gz."
        ),
    ],
    keep: KeepOption = None,
    db: DatabaseOption = DEFAULT_DATABASE,
) -> None:
    """Write a timeline for the Perfetto UI (https://ui.perfetto.dev).

    It shows processes with threads, NVTX ranges and API calls; GPUs with streams, whose operations
    have launch configuration, bytes, layer and iteration, and with the causes of `tbd-trace why`;
    an arrow from each call to its GPU operations; and sampled GPU metrics as counters. The UI reads
    the file in the browser and does not upload it. Private data are redacted;
    docs/how_to/redaction.md lists the kinds. Requires one timeline, and the Python package
    perfetto.
    """
    from tbd_trace.api import open_traces
    from tbd_trace.export.perfetto import export as write

    with busy("exporting"), redacted(open_traces(*(traces or []), db=db), keep or []) as opened:
        written = write(opened, output)
    slices = sum(written.slices.values())
    note(
        f"wrote {output}: {slices:,} slices, {written.instants:,} marks and {written.counters:,} "
        f"values of counters on {written.tracks:,} tracks; open it at https://ui.perfetto.dev"
    )


@export.command()
def table(
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help="Canonical or derived table (docs/reference/tables)."),
    ],
    traces: TracesArgument = None,
    *,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="FILE", help="File to write: .parquet or .csv."),
    ],
    excel_safe: ExcelSafeOption = False,
    keep: KeepOption = None,
    db: DatabaseOption = DEFAULT_DATABASE,
) -> None:
    """Write all rows of a table to a file.

    Private data are redacted; docs/how_to/redaction.md lists the kinds.
    """
    from tbd_trace.api import open_traces
    from tbd_trace.export.tables import export as write

    with busy("exporting"), redacted(open_traces(*(traces or []), db=db), keep or []) as opened:
        rows = write(opened, name, output, excel_safe=excel_safe)
    note(f"wrote {output}: {rows:,} rows")
