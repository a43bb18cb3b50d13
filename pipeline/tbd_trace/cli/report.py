"""``tbd-trace report``: write an HTML page with the results of the queries."""

# polars, duckdb and matplotlib are imported when a command runs, so that `--help` starts fast.
# ruff: noqa: PLC0415
from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from tbd_trace.cli.options import (
    DEFAULT_DATABASE,
    DaskOption,
    DatabaseOption,
    TracesArgument,
    WorkersOption,
)
from tbd_trace.cli.output import busy, note
from tbd_trace.cli.redacted import redacted
from tbd_trace.cli.spread import executor_of, require_all
from tbd_trace.errors import UsageError

_DEFAULT_OUTPUT = Path("report.html")


def report(
    traces: TracesArgument = None,
    *,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write the page to FILE (.html) and replace an existing one. By default "
            "report.html, which is not replaced.",
            show_default=False,
        ),
    ] = None,
    title: Annotated[
        str,
        typer.Option(
            "--title",
            metavar="TEXT",
            help="Heading of the page. By default it names the traces.",
            show_default=False,
        ),
    ] = "",
    share: Annotated[
        bool,
        typer.Option(
            "--share",
            help="Redact private data, as `tbd-trace archive create` does, so that the page can "
            "be shared.",
        ),
    ] = False,
    workers: WorkersOption = None,
    dask: DaskOption = None,
    db: DatabaseOption = DEFAULT_DATABASE,
) -> None:
    """Write a page about traces: recording, headline numbers, plots and tables.

    The page is one HTML file that works offline and contains the rows behind each figure as CSV.
    """
    if share and dask:
        raise UsageError(
            "--share: redacts into a directory that the workers of --dask cannot reach; run "
            "`tbd-trace archive create` first, and report on the archive"
        )
    path = _checked(output)
    missing: list[str] = []
    from tbd_trace.analysis.report.plotter import Plotter
    from tbd_trace.analysis.report.sections import report as render
    from tbd_trace.api import open_traces
    from tbd_trace.present import write

    with busy("writing the report"), Plotter() as plotter, ExitStack() as stack:
        opened = open_traces(*traces or [], db=db)
        if share:
            opened = stack.enter_context(redacted(opened))
        with executor_of(workers, dask) as executor:
            content = render(opened, title, plotter.draw, executor=executor, missing=missing)
    write(path, content)
    private = "" if opened.database.redacted else "; --share redacts private data"
    note(f"wrote {path} ({len(content) / 1e6:.1f} MB){private}")
    require_all(missing)


def _checked(output: Path | None) -> Path:
    # Checked before the queries run, which may take minutes.
    from tbd_trace.analysis.report.writing import check_target

    path = output or _DEFAULT_OUTPUT
    try:
        if output is None and path.exists():
            raise UsageError(f"{path}: exists; use -o {path} to replace it, or -o FILE")
        check_target(path)
    except OSError as error:  # name too long, or no permission for the directory
        raise UsageError(f"{path}: cannot be written ({error.strerror})") from error
    return path
