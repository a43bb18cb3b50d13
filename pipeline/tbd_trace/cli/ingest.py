"""``tbd-trace ingest``: read profiler files into a database."""

# polars and duckdb are imported when a command runs, so that `--help` starts fast.
# ruff: noqa: PLC0415
from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tbd_trace.cli.labels import Given
from tbd_trace.cli.options import DEFAULT_DATABASE, DatabaseOption
from tbd_trace.cli.output import busy, failure, note
from tbd_trace.cli.spread import processes_for
from tbd_trace.errors import InputError, UsageError
from tbd_trace.present import printable

if TYPE_CHECKING:
    from tbd_trace.store import Database, IngestReport
    from tbd_trace.store.capture import CaptureFile


class RankFrom(StrEnum):
    """Where the ranks of a job are taken from."""

    profile = "profile"
    name = "name"


def ingest(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="PATH",
            help="Profiler files, capture directories and directories of both.",
            readable=False,  # the reader's message about an unreadable file is better than click's
            show_default=False,
        ),
    ],
    *,
    db: DatabaseOption = DEFAULT_DATABASE,
    job: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Name of a distributed job: the paths are its ranks, or folders of them.",
            show_default=False,
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers",
            metavar="N",
            min=1,
            help="Share the files among N processes. By default one per core, at most 4; files of "
            "100 MB and more are read one after another, each by several processes.",
            show_default=False,
        ),
    ] = None,
    rank_from: Annotated[
        RankFrom,
        typer.Option(help="With --job: ranks from the profiles, else file names; or from names."),
    ] = RankFrom.profile,
    name: Annotated[
        str | None,
        typer.Option(
            "--name", metavar="TEXT", help="Name of the only profile.", show_default=False
        ),
    ] = None,
    label: Annotated[
        list[str] | None,
        typer.Option(
            "--label",
            metavar="NAME=VALUE",
            help="What the profiles are about, such as model=resnet50 or batch_size=64; may be "
            "repeated. Changes the labels of profiles that are already there.",
            show_default=False,
        ),
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option(
            "--labels",
            metavar="FILE",
            help="CSV file with column `file` and a column per label. By default the labels.csv "
            "of a directory.",
            show_default=False,
        ),
    ] = None,
    python_frames: Annotated[
        bool,
        typer.Option(
            "--python-frames",
            help="Of traces of torch.profiler, store the frames of Python, too (another trace).",
        ),
    ] = False,
) -> None:
    """Read profiler files into a database.

    Prints one line per file: trace id, format, kernels, ingested or already there, and name. A
    file that cannot be read does not stop the others.
    """
    from tbd_trace.archive import is_url
    from tbd_trace.store import Database

    if is_url(db):
        raise UsageError(
            f"--db {db}: a URL can only be read from; ingest into a local file, then write that to "
            "an s3:// URL with `tbd-trace archive create -o URL`"
        )
    if job is None and rank_from is RankFrom.name:
        raise UsageError("--rank-from name: needs --job NAME")
    database = Database(Path(db))
    if job is not None:
        by_name = rank_from is RankFrom.name
        if name or label or labels:
            raise UsageError("--name, --label and --labels are for profiles without --job")
        failed = _ingest_job(
            database, job, paths, by_name=by_name, frames=python_frames, workers=workers
        )
    else:
        given = Given(name, label or [], labels)
        failed = _ingest_paths(database, paths, given, frames=python_frames, workers=workers)
    if failed:
        raise typer.Exit(InputError.exit_code)


def _ingest_paths(
    database: Database, paths: Sequence[Path], given: Given, *, frames: bool, workers: int | None
) -> bool:
    from tbd_trace.store.capture import with_python_frames

    files, failed = given.files_of(paths)
    if frames:
        files = [with_python_frames(file) for file in files]
    lines = _IngestLines()
    for report in _reports(database, files, workers, derive=True):
        if report is None:
            failed = True
        else:
            lines.show(report)
            _note_same(report)
    lines.show_repeated_notes()
    _note_ranks(database, files)
    return failed


def _note_same(report: IngestReport) -> None:
    # A copy of a profile under another name.
    if report.status == "already there" and Path(report.name).name != report.path.name:
        note(f"{report.path}: the same profile as {report.name}; --name changes its name")


def _ingest_job(
    database: Database,
    job: str,
    paths: Sequence[Path],
    *,
    by_name: bool,
    frames: bool,
    workers: int | None,
) -> bool:
    from tbd_trace.store.capture import with_python_frames
    from tbd_trace.store.ranks import job_files

    if not job.strip():
        raise UsageError("--job: the name is empty; name the job")
    failed, added, lines = False, [], _IngestLines()
    files = job_files(job, paths, by_name=by_name)
    if frames:
        files = [with_python_frames(file) for file in files]
    for report in _reports(database, files, workers, derive=False):
        if report is None:
            failed = True
            continue
        lines.show(report)
        if report.status == "ingested":
            added.append(report.trace_id)
    lines.show_repeated_notes()
    try:
        _note_ranks(database, files)
    except UsageError:
        # Two traces of one rank are no job; what this call added is taken back.
        if added:
            database.remove(added)
        raise
    return failed


def _note_ranks(database: Database, files: Sequence[CaptureFile]) -> None:
    from tbd_trace.store.ranks import job_notes

    for job in sorted({file.job for file in files if file.job is not None}):
        for text in job_notes(database, job):
            note(text)


def _reports(
    database: Database, files: Sequence[CaptureFile], workers: int | None, *, derive: bool
) -> Iterator[IngestReport | None]:
    # None for a file that cannot be read, with the reason on standard error. Each file is committed
    # by itself, so that such a file does not stop the others.
    from tbd_trace.runtime.executors import Lost, Processes
    from tbd_trace.store.ingest_worker import import_reader

    if workers is None:
        workers = processes_for([file.path for file in files])
    if workers is None:
        for file in files:
            with busy(f"reading {file.path}") as progress:
                outcome = _ingest_file(database, file, derive, progress)
            yield _read(outcome)
        return
    if files:
        with suppress(InputError):  # the process that reads the file reports it
            import_reader(files[0].path)  # once for all processes, which are copies of this one
    workers_database = database.without_views()  # this process writes them, once for all
    calls = [partial(_ingest_file, workers_database, file, derive) for file in files]
    with (
        Processes(workers) as executor,
        busy(f"reading {len(files)} files"),
        closing(executor.run(calls)) as results,
    ):
        for file, outcome in zip(files, results, strict=True):
            ended = InputError(
                f"{file.path}: the process that read it ended, twice; see whether memory ran out, "
                "and take fewer --workers"
            )
            report = _read(ended if isinstance(outcome, Lost) else outcome)
            if report is not None:
                database.write_views(needed=report.status == "ingested")
            yield report


def _read(outcome: IngestReport | InputError) -> IngestReport | None:
    if isinstance(outcome, InputError):
        failure(outcome)
        return None
    return outcome


def _ingest_file(
    database: Database,
    file: CaptureFile,
    derive: bool,
    progress: Callable[[str], None] | None = None,
) -> IngestReport | InputError:
    from tbd_trace.query import derive_at_ingest

    try:
        [report] = database.ingest_files([file], progress)
    except InputError as error:
        return error
    if derive:
        derive_at_ingest(database, [report.trace_id])
    return report


class _IngestLines:
    """Prints ingested files, and a note of several files once: ranks of a job repeat theirs."""

    def __init__(self) -> None:
        self._files_by_note: Counter[str] = Counter()

    def show(self, report: IngestReport) -> None:
        kernels = f"{report.kernels:,} kernels"
        name = printable(report.name)
        typer.echo(
            f"{report.trace_id}  {report.format:<12}  {kernels:>17}  {report.status:<13}  {name}"
        )
        for text in report.notes:
            self._files_by_note[text] += 1
            if self._files_by_note[text] == 1:
                note(f"{report.name}: {text}")

    def show_repeated_notes(self) -> None:
        for text, files in self._files_by_note.items():
            if files > 1:
                note(f"{files - 1} more file{'s' if files > 2 else ''}: {text}")
