"""The database of traces behind one path.

``tbd-trace.duckdb`` holds views; the rows lie beside it, in ``tbd-trace.traces/<trace id>/``, a
Parquet file per canonical table, or several. A trace is written in a private directory and appears
by one rename: an interrupted ingest leaves nothing, two processes never wait for each other, and
what a reader sees does not change under it.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from shlex import join

import duckdb

from tbd_trace.errors import StoreError, UsageError
from tbd_trace.model.canonical_tables import CATALOGUE, canonical_tables
from tbd_trace.runtime.duckdb_connection import prefetch
from tbd_trace.sqltext import parquet_relation
from tbd_trace.store.base import TraceStore
from tbd_trace.store.capture import CaptureFile, capture_files, is_capture
from tbd_trace.store.content import Content, compute_trace_id, hash_file
from tbd_trace.store.read_errors import reading
from tbd_trace.store.tables import table_files, whole_file
from tbd_trace.store.views import is_duckdb, views_marker, write_views
from tbd_trace.store.writer import write_trace

# Raised when the canonical tables change, so that files of another layout are not misread.
LAYOUT = "v2"
_STALE_SECONDS = 24 * 3600
# Files of which several processes may read the long tables: they start while this one imports.
_LARGE_FILE = 100 << 20  # bytes


@dataclass(frozen=True, slots=True)
class IngestReport:
    """What became of one profiler file."""

    path: Path  # the file
    trace_id: str  # its trace
    name: str  # its name in the database
    status: str  # ``ingested`` or ``already there``
    format: str  # the format that it was recognised as
    kernels: int  # number of kernel executions in it
    notes: list[str] = field(default_factory=list)  # what the reader met that a user should know


@dataclass(frozen=True, slots=True)
class IdentifiedFile:
    """A profiler file that has been hashed."""

    file: CaptureFile  # the file and its capture's metadata
    content: Content  # its hash and state
    trace_id: str  # its trace, in whichever database


class Database(TraceStore):
    """The traces ingested under one path.

    Args:
        path: the ``.duckdb`` file; it and its Parquet files are made by the first ingest.
        setting: what the user chooses the path with, for messages.
        tables: the canonical tables beside ``trace`` that its traces have; the others are empty,
            and so is what a trace says about itself as a whole. None means all.
        columns: the columns that those tables have, beside ``trace_id``; None means all.

    Raises:
        UsageError: the path names no file.
    """

    def __init__(
        self,
        path: Path,
        setting: str = "--db",
        tables: Collection[str] | None = None,
        columns: Collection[str] | None = None,
    ) -> None:
        self.path = Path(path)
        self._setting = setting
        self._tables = None if tables is None else frozenset(tables) | {CATALOGUE}
        self._columns = columns
        self._added: set[str] = set()
        if self.path.name in ("", ".."):
            raise UsageError(f"{setting} {str(path)!r}: name a file, such as tbd-trace.duckdb")
        if not _is_unicode(str(path)):
            raise UsageError(f"{setting} {str(path)!r}: its name is not valid UTF-8; use another")
        if "\\" in _absolute(self.path).as_posix():
            raise UsageError(
                f"{setting} {path}: DuckDB reads nothing below a backslash; use another"
            )
        stem = self.path.name.removesuffix(".duckdb")
        self.traces_directory = self.path.with_name(f"{stem}.traces") / LAYOUT
        # What queries have derived from the traces, for the next query; all of it may be removed.
        self.derived_directory = self.traces_directory.parent / "derived"

    @property
    def name(self) -> str:
        """The path."""
        return str(self.path)

    def exists(self) -> bool:
        """Tell whether anything was ever ingested here."""
        return bool(self.trace_ids()) or views_marker(self).is_file()

    def why_missing(self) -> str:
        """Return why there is nothing to read here and what to do, as a sentence."""
        beside = self.traces_directory.parent
        layouts = sorted(
            entry.name for entry in beside.glob("v*") if entry != self.traces_directory
        )
        if layouts:
            return (
                f"{self.path} was made by another version of tbd-trace (layout {layouts[-1]}, this "
                f"one reads {LAYOUT}); rebuild it with "
                f"`tbd-trace ingest --db {self.path} {_profiles(beside / layouts[-1])}`"
            )
        if is_duckdb(self.path):
            return (
                f"{self.path} has no traces: {self.traces_directory} belongs beside it; "
                "copy that too, or ingest the profiles again"
            )
        if self.path.exists():
            return f"{self.path} is no database of traces; name another with {self._setting}"
        return (
            f"there is no database {self.path}; "
            "make one with `tbd-trace ingest FILE…`, or name a profiler file"
        )

    def ingest(
        self, paths: Sequence[Path], progress: Callable[[str], None] | None = None
    ) -> list[IngestReport]:
        """Ingest profiler files and capture directories; a file that is there already is kept.

        Args:
            paths: profiler files or capture directories.
            progress: called with a short text as the work goes on.

        Returns:
            One report per profiler file, in order.

        Raises:
            InputError: a file is no profile or damaged; earlier files stay ingested.
            StoreError: the database cannot be written.
        """
        say = progress or (lambda _text: None)
        files = [file for path in paths for file in capture_files(Path(path))]
        self._check_place()
        return [self._ingest_file(_identified(file), say) for file in files]

    def ingest_identified(self, files: Sequence[IdentifiedFile]) -> None:
        """Ingest files that have been hashed already; no views are written.

        Raises:
            InputError: a file is no profile or damaged; earlier files stay ingested.
            StoreError: the database cannot be written.
        """
        self._check_place()
        with self._advised():
            for file in files:
                self._add(file)

    def are_new(self, trace_ids: Iterable[str]) -> bool:
        """Tell whether one of the traces was written by this object since this was last asked."""
        found = self._added.intersection(trace_ids)
        self._added -= found
        return bool(found)

    def find(self, files: Sequence[IdentifiedFile]) -> list[str] | None:
        """Return the traces of profiler files, None if one of them is not here."""
        found = [file.trace_id for file in files]
        return found if set(self.trace_ids()).issuperset(found) else None

    def _ingest_file(self, identified: IdentifiedFile, say: Callable[[str], None]) -> IngestReport:
        file, trace_id = identified.file, identified.trace_id
        with self._advised():
            added = self._add(identified, progress=lambda table: say(f"{file.name}: {table}"))
            self._write_views(needed=added)
        wanted = (
            f"SELECT name, format, notes, ({self._kernel_count(trace_id)}) "
            f"FROM ({self.relation(CATALOGUE, [trace_id])})"
        )
        with reading(self), duckdb.connect() as connection:  # as a frame it would need polars
            ((name, file_format, notes, kernels),) = connection.execute(wanted).fetchall()
        return IngestReport(
            path=file.path,
            trace_id=trace_id,
            name=name,
            status="ingested" if added else "already there",
            format=file_format,
            kernels=int(kernels),
            notes=notes,
        )

    def _add(
        self,
        identified: IdentifiedFile,
        progress: Callable[[str], None] = lambda _table: None,
    ) -> bool:
        """Write the trace of a file; return whether it is new."""
        from tbd_trace.runtime.worker_pool import Crew  # noqa: PLC0415 - queries need none
        from tbd_trace.store.ingest_worker import get_ready  # noqa: PLC0415

        path = identified.file.path
        target = self.traces_directory / identified.trace_id
        if target.is_dir():
            return False
        with Crew() as crew:
            if identified.content.size >= _LARGE_FILE and (
                self._tables is None or any(canonical_tables()[t].is_parallel for t in self._tables)
            ):
                crew.call_helpers(partial(get_ready, path))
            prefetch()  # importing readers takes longer
            from tbd_trace.sources.registry import identify  # noqa: PLC0415

            added = write_trace(
                identified.file,
                identify(path),
                content=identified.content,
                trace_id=identified.trace_id,
                target=target,
                tables=self._tables,
                columns=self._columns,
                crew=crew,
                progress=progress,
            )
        self._added.add(identified.trace_id)
        return added

    @contextlib.contextmanager
    def _advised(self) -> Iterator[None]:
        """Tell what to do where the database cannot be written."""
        try:
            yield
        except StoreError as error:
            advice = f"choose another place with {self._setting}"
            raise StoreError(f"{error}; {advice}") from error

    def _write_views(self, needed: bool) -> None:
        """Write the views; a database that may only be read does without new ones."""
        try:
            write_views(self)
        except StoreError:
            if needed:
                raise

    def _check_place(self) -> None:
        """Make sure that nothing else has the database's name; clear up after killed ingests."""
        if not is_duckdb(self.path) and self.path.exists():
            raise StoreError(
                f"{self.path}: exists and is no DuckDB database; choose another {self._setting}"
            )
        for entry in self.traces_directory.glob(".*"):
            with contextlib.suppress(OSError):
                if entry.is_dir() and time.time() - entry.stat().st_mtime > _STALE_SECONDS:
                    shutil.rmtree(entry, ignore_errors=True)

    def trace_ids(self) -> list[str]:
        """Return the ids of all traces, sorted.

        Raises:
            StoreError: the directory of traces cannot be read.
        """
        try:
            return sorted(
                entry.name
                for entry in self.traces_directory.iterdir()
                if not entry.name.startswith(".") and whole_file(entry, CATALOGUE).is_file()
            )
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise StoreError(
                f"{self.traces_directory}: cannot be read ({error.strerror}); "
                "check its owner and mode"
            ) from error

    def files(self, table: str, trace_ids: Iterable[str]) -> list[Path]:
        """Return the Parquet files of a canonical table for some traces."""
        if self._tables is not None and table not in self._tables:
            return []
        directories = (self.traces_directory / trace_id for trace_id in trace_ids)
        return [file for directory in directories for file in table_files(directory, table)]

    def state(self, trace_id: str) -> Sequence[object]:
        """Return what tells a trace from another ingest of the same profile, as JSON values."""
        with contextlib.suppress(OSError):
            state = whole_file(self.traces_directory / trace_id, CATALOGUE).stat()
            return [trace_id, state.st_size, state.st_mtime_ns]
        return [trace_id]

    def damaged(self, trace_id: str, reason: str) -> StoreError:
        """Return the error that a file of a trace could not be read."""
        directory = self.traces_directory / trace_id
        if not directory.is_dir():
            return StoreError(f"trace {trace_id} was removed while it was read; ask again")
        return StoreError(
            f"{directory}: damaged ({reason}); remove this directory and ingest the profile again"
        )

    def remove(self, selectors: Sequence[str]) -> list[str]:
        """Remove traces and return their ids.

        Raises:
            StoreError: a trace cannot be removed.
            UsageError: a selector names no trace, or several; nothing is removed then.
        """
        if not selectors:
            raise UsageError("name the traces to remove")
        trace_ids = self.resolve(selectors)
        for trace_id in trace_ids:
            self._remove(self.traces_directory / trace_id)
        shutil.rmtree(self.derived_directory, ignore_errors=True)
        write_views(self)
        return trace_ids

    def _remove(self, directory: Path) -> None:
        """Remove a trace; by one rename it is gone as a whole for those who read meanwhile."""
        try:
            with tempfile.TemporaryDirectory(
                prefix=f".{directory.name}-", dir=directory.parent
            ) as hidden:
                directory.rename(Path(hidden) / directory.name)
        except FileNotFoundError:
            pass  # another process was first
        except OSError as error:
            raise StoreError(f"{directory}: cannot be removed ({error.strerror})") from error


def _profiles(directory: Path) -> str:
    """Return the paths that the traces of a directory were read from, for a command line."""
    files = sorted(directory.glob("*/trace.parquet"))
    if not files:
        return "FILE…"
    with contextlib.suppress(duckdb.Error), duckdb.connect() as connection:
        rows = connection.execute(
            f"SELECT DISTINCT path FROM ({parquet_relation(files)}) WHERE path IS NOT NULL "
            "ORDER BY path"
        ).fetchall()
        files = [Path(path) for (path,) in rows]
        named = (file.parent if is_capture(file.parent) else file for file in files)
        return join(dict.fromkeys(map(str, named)))
    return "FILE…"


def identified_files(paths: Sequence[Path]) -> list[IdentifiedFile]:
    """Hash profiler files and those of capture directories.

    Raises:
        InputError: a file cannot be read, or a capture cannot be understood.
    """
    return [_identified(file) for path in paths for file in capture_files(Path(path))]


def _identified(file: CaptureFile) -> IdentifiedFile:
    from tbd_trace.sources.registry import check_readable  # noqa: PLC0415 - reading needs no sources

    check_readable(file.path)
    content = hash_file(file.path)
    return IdentifiedFile(file, content, compute_trace_id(file, content.digest))


def _absolute(path: Path) -> Path:
    """Return a path from the root, as far as it can be known."""
    try:
        return path.absolute()
    except OSError:  # the working directory is gone
        return path


def _is_unicode(text: str) -> bool:
    """Tell whether a text has no stray bytes, as file names can."""
    with contextlib.suppress(UnicodeEncodeError):
        text.encode()
        return True
    return False
