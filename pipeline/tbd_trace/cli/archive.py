"""``tbd-trace archive``: traces to share, and what others shared."""

# polars and duckdb are imported when a command runs: `--help` stays fast.
# ruff: noqa: PLC0415
from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tbd_trace.cli.options import (
    DEFAULT_DATABASE,
    DatabaseOption,
    FormatOption,
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
    help="Make, check and unpack archives of traces.\n\n"
    "An archive is a directory, or a zip file of one, with the tables of traces. Every command "
    "that takes a TRACE or --db reads it in place, also behind an http(s):// or s3:// URL. What is "
    "private is taken out when it is made: docs/how_to/redaction.md says what that covers.",
    rich_markup_mode=None,
)
ArchiveArgument = Annotated[
    str, typer.Argument(metavar="ARCHIVE", help="Path or URL of an archive.", show_default=False)
]
TargetOption = Annotated[
    Path,
    typer.Option(
        "--output",
        "-o",
        metavar="TARGET",
        help="Where it goes: a zip file if the name ends in .zip, else a directory.",
        show_default=False,
    ),
]
ForceOption = Annotated[bool, typer.Option("--force", help="Replace an archive that is there.")]


@archive.command()
def create(
    traces: TracesArgument = None,
    *,
    output: TargetOption,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            "--keep",
            metavar="KIND",
            help="Leave private texts of a kind in, or `all`; may be repeated. "
            "docs/how_to/redaction.md lists the kinds.",
            show_default=False,
        ),
    ] = None,
    profiles: Annotated[
        bool,
        typer.Option(
            "--profiles",
            help="Put the profiler files in too. They stay as they are: nothing is taken out of "
            "them, and they often hold whole environments.",
        ),
    ] = False,
    force: ForceOption = False,
    db: DatabaseOption = DEFAULT_DATABASE,
) -> None:
    """Make an archive of traces."""
    from tbd_trace.api import open_traces
    from tbd_trace.archive.operations import create as make
    from tbd_trace.redact.tables import parse_keep

    redaction = parse_keep(keep or [])
    with busy("reading") as say:
        opened = open_traces(*(traces or []), db=db)
        manifest = make(
            opened.database,
            opened.trace_ids,
            output,
            redaction=redaction,
            profiles=profiles,
            force=force,
            progress=say,
        )
    if profiles:
        note("the profiler files are in it as they are; see `tbd-trace archive inspect --private`")
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
    """Make one archive of several."""
    from tbd_trace.api import open_archive
    from tbd_trace.archive.operations import merge as make

    with busy("reading") as say:
        opened = [open_archive(location) for location in archives]
        manifest = make(opened, output, force=force, progress=say)
    _made(manifest, output)


@archive.command()
def extract(
    location: ArchiveArgument,
    *,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="DIR", help="Directory to make.", show_default=False
        ),
    ],
    force: ForceOption = False,
) -> None:
    """Unpack an archive into a directory, checking every file.

    The directory is an archive too, without the zip file around it.
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
    """Check every byte of archives, and that their tables are what they should be.

    Exit code 1 where anything is not as it was written; the file is named.
    """
    from tbd_trace.api import open_archive
    from tbd_trace.archive.verify import problems

    failed = False
    for location in archives:
        try:
            with busy(f"checking {location}"):
                opened = open_archive(location)
                found = list(problems(opened))
        except StoreError as error:
            found = [str(error)]
        for problem in found:
            failure(problem)
        failed = failed or bool(found)
        if not found:
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
    """List the traces of an archive, and what was taken out of them."""
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
        typer.Option("--private", help="List what is private in them, and would leak if shared."),
    ] = False,
    form: FormatOption = None,
    output: OutputOption = None,
    limit: LimitOption = None,
    wide: WideOption = False,
) -> None:
    """List what is private in profiler files, captures and archives.

    Examples are masked: the list itself can be shown around.
    """
    if not private:
        raise UsageError("say what to list: --private")
    import polars as pl

    from tbd_trace.archive.leak_scan import leaks

    with busy("reading"):
        frames = [leaks(path).insert_column(0, pl.lit(str(path)).alias("path")) for path in paths]
    emit(pl.concat(frames), form, output, limit=limit, wide=wide)


def _made(manifest: Manifest, target: Path) -> None:
    size = sum(file.size_bytes for file in manifest.files)
    replaced: dict[str, int] = {}
    for trace in manifest.traces:
        for kind, number in trace.replaced.items():
            replaced[kind] = replaced.get(kind, 0) + number
    if replaced:
        note("replaced " + ", ".join(f"{kind}: {n:,}" for kind, n in sorted(replaced.items())))
    typer.echo(f"{target}: {_count(len(manifest.traces), 'trace')}, {size:,} bytes")


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
