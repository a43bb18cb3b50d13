"""``tbd-trace ingest``: read profiler files into a database."""

# polars and duckdb are imported when a command runs, so that `--help` starts fast.
# ruff: noqa: PLC0415
from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tbd_trace.cli.options import DEFAULT_DATABASE, DatabaseOption
from tbd_trace.cli.output import busy, failure, note
from tbd_trace.errors import InputError, UsageError
from tbd_trace.present import printable

if TYPE_CHECKING:
    from tbd_trace.store import IngestReport


def ingest(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="PATH",
            help="Profiler files and capture directories.",
            readable=False,  # the reader's message about an unreadable file is better than click's
            show_default=False,
        ),
    ],
    db: DatabaseOption = DEFAULT_DATABASE,
) -> None:
    """Read profiler files into a database.

    Prints one line per file: trace id, format, kernels, ingested or already there, and name. A
    file that cannot be read does not stop the others.
    """
    from tbd_trace.archive import is_url
    from tbd_trace.query import derive_at_ingest
    from tbd_trace.store import Database

    if is_url(db):
        raise UsageError(f"--db {db}: a URL can only be read from; name a local file")
    database = Database(Path(db))
    failed = False
    # Each file is committed by itself, so that one that cannot be read does not stop the others.
    for path in paths:
        try:
            with busy(f"reading {path}") as progress:
                reports = database.ingest([path], progress)
                derive_at_ingest(database, [report.trace_id for report in reports])
        except InputError as error:
            failure(error)
            failed = True
            continue
        for report in reports:
            _show(report)
    if failed:
        raise typer.Exit(InputError.exit_code)


def _show(report: IngestReport) -> None:
    kernels = f"{report.kernels:,} kernels"
    name = printable(report.name)
    typer.echo(
        f"{report.trace_id}  {report.format:<12}  {kernels:>17}  {report.status:<13}  {name}"
    )
    for text in report.notes:
        note(f"{report.name}: {text}")
