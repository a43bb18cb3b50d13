"""``tbd-trace collect`` as one rank of torchrun, srun, mpirun and other launchers."""

# The collectors are imported when the command runs, so that `--help` starts fast.
# ruff: noqa: PLC0415
from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tbd_trace.cli.collect_results import show_rows
from tbd_trace.cli.output import failure, note
from tbd_trace.errors import UsageError

if TYPE_CHECKING:
    from tbd_collectors.collection_request import Command, Profiling, Workload
    from tbd_collectors.job import JobResult
    from tbd_collectors.launcher import LauncherRank

FinishOption = Annotated[
    Path | None,
    typer.Option(
        "--finish",
        metavar="DIR",
        help="Complete a job of a launcher some of whose ranks wrote no capture.",
        show_default=False,
    ),
]


def rank_of_launcher(
    target: Workload | Command, output: Path | None, *, keep_running: bool
) -> LauncherRank | None:
    """Return the rank of this process, None if no launcher has started it or for a model.

    Raises:
        UsageError: options do not fit a rank.
    """
    from tbd_collectors.collection_request import Command
    from tbd_collectors.launcher import rank_of

    if not isinstance(target, Command):
        return None
    launched = rank_of(os.environ, (output or Path(target.title())).absolute())
    if launched is not None and keep_running:
        raise UsageError("--keep-running is for one process; leave it out for ranks of a launcher")
    return launched


def collect_rank(
    target: Workload | Command,
    profiling: Profiling,
    launched: LauncherRank,
    form: Any,
    *,
    force: bool,
    wide: bool,
) -> None:
    """Collect the part of this rank; the last rank completes the job and prints its row."""
    from tbd_collectors.collect import collect
    from tbd_collectors.launched_job import finish, part, prepare

    prepare(launched, force=force)
    capture = part(launched)
    try:
        result = collect(
            target,
            profiling,
            capture,
            say=lambda text: typer.echo(f"{capture}: {text}", err=True),
            shown=(1, 2),
            launch=launched,
        )
    except KeyboardInterrupt:  # the launcher sends SIGTERM to the others when one rank fails
        finish(launched.directory)
        raise
    for text in result.notes:
        note(f"{capture}: {text}")
    if result.status != "ok":
        failure(f"{capture}: {result.reason}; its output is in {capture}/*.log")
    job = finish(launched.directory)
    if job is not None:
        show_job(launched.directory, job, form, wide=wide)
    if result.exit_code:
        raise typer.Exit(result.exit_code)


def finish_job(directory: Path, form: Any, *, wide: bool) -> None:
    """Complete a job without the parts of some ranks."""
    from tbd_collectors.launched_job import finish

    job = finish(directory, incomplete=True)
    assert job is not None
    show_job(directory, job, form, wide=wide)
    if job.exit_code:
        raise typer.Exit(job.exit_code)


def show_job(directory: Path, job: JobResult, form: Any, *, wide: bool) -> None:
    """Print the row of a job, and what to do next."""
    import polars as pl

    from tbd_collectors.job import rows

    show_rows(pl.DataFrame(rows(job), infer_schema_length=None), form, wide=wide)
    if job.status != "ok":
        failure(f"{directory}: {job.reason}")
    note(f"next: tbd-trace why {directory}")
