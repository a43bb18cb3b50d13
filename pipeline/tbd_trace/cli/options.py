"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tbd_trace.present import Format

DEFAULT_DATABASE = "tbd-trace.duckdb"

DatabaseOption = Annotated[
    str,
    typer.Option(
        "--db",
        metavar="FILE",
        envvar="TBD_TRACE_DB",
        show_envvar=False,
        help="Database to use, or path or URL of an archive; TBD_TRACE_DB in the environment sets "
        "it too.",
    ),
]
TracesArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="TRACE",
        help="Ids (or their first digits) or names of traces in the database, or else archives "
        "(paths or URLs), profiler files and capture directories, which are ingested into a cache. "
        "None: the whole database.",
        show_default=False,
    ),
]
FormatOption = Annotated[
    Format | None,
    typer.Option(
        "--format",
        metavar="FORM",
        help="table, csv, json, parquet or markdown. By default what FILE of -o ends in, "
        "else a table.",
        show_default=False,
        case_sensitive=False,
    ),
]
OutputOption = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="Write to FILE, not to standard output."),
]
LimitOption = Annotated[
    int | None,
    typer.Option(
        "--limit",
        metavar="N",
        min=0,
        help="Show the first N rows, 0 for all. By default a table on a terminal shows 50, "
        "everything else all.",
        show_default=False,
    ),
]
WideOption = Annotated[
    bool,
    typer.Option(
        "--wide",
        help="Show tables whole, however wide. Without it they fit the terminal, or 200 columns "
        "elsewhere: long names are cut in the middle. Only tables are cut.",
    ),
]
