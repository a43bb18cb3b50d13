"""Arguments and options shared by several commands."""

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
        help="Database, or path or URL of an archive; the environment variable TBD_TRACE_DB sets "
        "it, too.",
    ),
]
TracesArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="TRACE",
        help="Ids (or their first digits) or names of traces in the database, or archives (paths "
        "or URLs), profiler files and capture directories, which are ingested into a cache. By "
        "default the whole database.",
        show_default=False,
    ),
]
FormatOption = Annotated[
    Format | None,
    typer.Option(
        "--format",
        metavar="FORM",
        help="table, csv, json, parquet or markdown. By default the extension of -o FILE, "
        "else a table.",
        show_default=False,
        case_sensitive=False,
    ),
]
OutputOption = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="Write to FILE, not to standard output."),
]
ExcelSafeOption = Annotated[
    bool,
    typer.Option(
        "--excel-safe",
        help="Put a quote before texts in CSV that begin with =, +, - or @, which spreadsheets run "
        "as formulas.",
    ),
]
KeepOption = Annotated[
    list[str] | None,
    typer.Option(
        "--keep",
        metavar="KIND",
        help="Kind of private data to keep, or `all`; may be repeated. "
        "docs/how_to/redaction.md lists the kinds.",
        show_default=False,
    ),
]
WorkersOption = Annotated[
    int | None,
    typer.Option(
        "--workers",
        metavar="N",
        min=1,
        help="Share the traces among N processes of this machine. By default they are read one "
        "after another, with a thread per core.",
        show_default=False,
    ),
]
DaskOption = Annotated[
    str | None,
    typer.Option(
        "--dask",
        metavar="ADDRESS",
        help="Share the traces among the workers of a Dask cluster: the address of its scheduler, "
        "such as tcp://HOST:8786. They must reach the database at the same path or URL.",
        show_default=False,
    ),
]
IdsOption = Annotated[
    bool, typer.Option("--ids", help="Show trace ids instead of names in tables.")
]
LimitOption = Annotated[
    int | None,
    typer.Option(
        "--limit",
        metavar="N",
        min=0,
        help="Show the first N rows, 0 for all. By default 50 for a table on a terminal, else all.",
        show_default=False,
    ),
]
WideOption = Annotated[
    bool,
    typer.Option(
        "--wide",
        help="Do not shorten names in tables. By default tables fit the terminal, or 200 columns "
        "elsewhere: names of kernels keep what distinguishes them, other long names are cut in the "
        "middle. Other formats are never cut.",
    ),
]
