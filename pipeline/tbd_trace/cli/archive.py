"""``tbd-trace archive``: create, check and unpack archives of traces."""

# polars and duckdb are imported when a command runs, so that `--help` starts fast.
# ruff: noqa: PLC0415
from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tbd_trace.cli.options import (
    DEFAULT_DATABASE,
    DatabaseOption,
    FormatOption,
    KeepOption,
    LimitOption,
    OutputOption,
    TracesArgument,
    WideOption,
)
from tbd_trace.cli.output import busy, emit, failure, note
from tbd_trace.errors import StoreError, UsageError

if TYPE_CHECKING:
    from tbd_trace.archive.manifest import Manifest

archive = typer.Typer(
    help="Create, check and unpack archives of traces.\n\n"
    "An archive is a directory or zip file with the tables of traces. Every command that takes a "
    "TRACE or --db reads it in place, also from an http(s):// or s3:// URL. Private data are "
    "redacted when it is created; docs/how_to/redaction.md lists the kinds.",
    rich_markup_mode=None,
)
ArchiveArgument = Annotated[
    str, typer.Argument(metavar="ARCHIVE", help="Path or URL of an archive.", show_default=False)
]
TargetOption = Annotated[
    str,
    typer.Option(
        "--output",
        "-o",
        metavar="TARGET",
        help="Path or s3:// URL of the archive to write: a zip file if the name ends in .zip, else "
        "a directory.",
        show_default=False,
    ),
]
ForceOption = Annotated[bool, typer.Option("--force", help="Replace an existing archive.")]


@archive.command()
def create(
    traces: TracesArgument = None,
    *,
    output: TargetOption,
    keep: KeepOption = None,
    profiles: Annotated[
        bool,
        typer.Option(
            "--profiles",
            help="Add the profiler files. They are not redacted and often contain all environment "
            "variables.",
        ),
    ] = False,
    force: ForceOption = False,
    db: DatabaseOption = DEFAULT_DATABASE,
) -> None:
    """Create an archive of traces."""
    from tbd_trace.api import open_traces
    from tbd_trace.archive.operations import create as make
    from tbd_trace.redact.tables import parse_keep

    redaction = parse_keep(keep or [])
    with busy("reading") as progress:
        opened = open_traces(*(traces or []), db=db)
        manifest = make(
            opened.database,
            opened.trace_ids,
            output,
            redaction=redaction,
            profiles=profiles,
            force=force,
            progress=progress,
        )
    if profiles:
        note("the profiler files are not redacted; see `tbd-trace archive inspect --private`")
    _made(manifest, output)


@archive.command()
def merge(
    archives: Annotated[
        list[str],
        typer.Argument(metavar="ARCHIVE", help="Paths or URLs of archives.", show_default=False),
    ],
    *,
    output: TargetOption,
    force: ForceOption = False,
) -> None:
    """Merge archives into one."""
    from tbd_trace.api import open_archive
    from tbd_trace.archive.operations import merge as make

    with busy("reading") as progress:
        opened = [open_archive(location) for location in archives]
        manifest = make(opened, output, force=force, progress=progress)
    _made(manifest, output)


@archive.command()
def extract(
    location: ArchiveArgument,
    *,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="DIR", help="Directory to write.", show_default=False
        ),
    ],
    force: ForceOption = False,
) -> None:
    """Unpack an archive into a directory and verify every file.

    The directory is an archive, too.
    """
    from tbd_trace.api import open_archive
    from tbd_trace.archive.operations import extract as unpack

    with busy("unpacking"):
        manifest = unpack(open_archive(location), output, force=force)
    _made(manifest, output)


@archive.command()
def verify(
    archives: Annotated[
        list[str],
        typer.Argument(metavar="ARCHIVE", help="Paths or URLs of archives.", show_default=False),
    ],
) -> None:
    """Verify the checksums, columns and row counts of archives.

    Names each damaged file; the exit code is then 1.
    """
    from tbd_trace.api import open_archive
    from tbd_trace.archive.verify import problems

    failed = False
    for location in archives:
        try:
            with busy(f"checking {location}"):
                opened = open_archive(location)
                faults = list(problems(opened))
        # The next archive is checked even if this one cannot be opened.
        except StoreError as error:
            faults = [str(error)]
        for problem in faults:
            failure(problem)
        failed = failed or bool(faults)
        if not faults:
            files, traces = len(opened.manifest.files), len(opened.manifest.traces)
            typer.echo(f"{location}: sound, {_count(files, 'file')}, {_count(traces, 'trace')}")
    if failed:
        raise typer.Exit(StoreError.exit_code)


@archive.command("ls")
def list_(
    location: ArchiveArgument,
    *,
    form: FormatOption = None,
    output: OutputOption = None,
    limit: LimitOption = None,
    wide: WideOption = False,
) -> None:
    """List the traces of an archive with the numbers of redacted texts."""
    import polars as pl

    from tbd_trace.api import open_archive

    with busy("reading"):
        manifest = open_archive(location).manifest
    rows = [
        {
            "trace_id": trace.trace_id,
            "name": trace.name,
            "capture_id": trace.capture_id,
            "tool": trace.tool,
            "tool_version": trace.tool_version,
            "kind": trace.kind,
            "kernels": trace.kernels,
            "archived_bytes": sum(file.size_bytes for file in manifest.tables_of(trace.trace_id)),
            "replaced": ", ".join(f"{kind}: {n}" for kind, n in trace.replaced.items()) or None,
            "kept": ", ".join(trace.kept) or None,
        }
        for trace in manifest.traces
    ]
    # Without a type, polars would infer Null for a column without values.
    texts = ("name", "capture_id", "tool_version", "replaced", "kept")
    frame = pl.DataFrame(rows, schema_overrides=dict.fromkeys(texts, pl.String))
    emit(frame, form, output, limit=limit, units={"archived_bytes": "B"}, wide=wide)


@archive.command()
def inspect(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="PATH",
            help="Profiler files, capture directories and archives.",
            show_default=False,
        ),
    ],
    *,
    private: Annotated[
        bool,
        typer.Option(
            "--private", help="List private data that would leak if the files were shared."
        ),
    ] = False,
    form: FormatOption = None,
    output: OutputOption = None,
    limit: LimitOption = None,
    wide: WideOption = False,
) -> None:
    """List private data in profiler files, captures and archives.

    Examples are masked, so the list itself can be shared.
    """
    if not private:
        raise UsageError("no list selected; add --private")
    import polars as pl

    from tbd_trace.archive.leak_scan import leaks

    with busy("reading"):
        frames = [leaks(path).insert_column(0, pl.lit(str(path)).alias("path")) for path in paths]
    emit(pl.concat(frames), form, output, limit=limit, wide=wide)


def _made(manifest: Manifest, target: Path | str) -> None:
    size = sum(file.size_bytes for file in manifest.files)
    replaced: dict[str, int] = {}
    for trace in manifest.traces:
        for kind, number in trace.replaced.items():
            replaced[kind] = replaced.get(kind, 0) + number
    if replaced:
        note("replaced " + ", ".join(f"{kind}: {n:,}" for kind, n in sorted(replaced.items())))
    typer.echo(f"{target}: {_count(len(manifest.traces), 'trace')}, {size:,} bytes")


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
