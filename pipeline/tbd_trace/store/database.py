"""Database of traces: one path, one directory of Parquet files per trace.

``tbd-trace.duckdb`` holds views; the rows are in ``tbd-trace.traces/<layout>/<trace id>/``, one or
more Parquet files per canonical table. A trace is written to a private directory and published by
one rename: an interrupted ingest leaves nothing, processes never wait for each other, and readers
never see a partial trace.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from copy import copy
from functools import partial
from pathlib import Path

from tbd_trace.errors import StoreError, UsageError
from tbd_trace.model.canonical_tables import CATALOGUE, canonical_tables
from tbd_trace.runtime.duckdb_connection import prefetch
from tbd_trace.store.base import TraceStore
from tbd_trace.store.capture import CaptureFile, capture_files
from tbd_trace.store.checksums import Checksums
from tbd_trace.store.database_path import check_path, prepare_for_ingest, why_missing
from tbd_trace.store.identified_file import (
    IdentifiedFile,
    IngestReport,
    identify_file,
    known_report,
)
from tbd_trace.store.labels import restate
from tbd_trace.store.same_events import same_events
from tbd_trace.store.staging import unpublish
from tbd_trace.store.tables import table_files, whole_file
from tbd_trace.store.views import views_marker, write_views
from tbd_trace.store.writer import write_trace

# Incremented when the canonical tables change, so that files of another layout are not misread.
LAYOUT = "v2"
# From this size on, worker processes read the long tables; they start during the imports.
LARGE_FILE = 100 << 20  # bytes


class Database(TraceStore):
    """The traces ingested under one path.

    Args:
        path: the ``.duckdb`` file, which the first ingest creates.
        setting: the option or variable that chose the path, for messages.
        tables: canonical tables to ingest beside ``trace``; None means all.
        columns: columns of those tables to ingest beside ``trace_id``; None means all.

    Raises:
        UsageError: the path is not a file name.
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
        self._checksums = Checksums()
        self._has_views = False  # True after the first trace of many
        self._leaves_views = False  # True: another process writes them
        check_path(self.path, setting)
        stem = self.path.name.removesuffix(".duckdb")
        self.traces_directory = self.path.with_name(f"{stem}.traces") / LAYOUT
        self.derived_directory = self.traces_directory.parent / "derived"  # a cache

    @property
    def name(self) -> str:
        return str(self.path)

    def exists(self) -> bool:
        return bool(self.trace_ids()) or views_marker(self).is_file()

    def why_missing(self) -> str:
        """Return why there is nothing to read here and what to do, as a sentence."""
        return why_missing(self.path, self.traces_directory, self._setting)

    def ingest(
        self, paths: Sequence[Path], progress: Callable[[str], None] | None = None
    ) -> list[IngestReport]:
        """Ingest profiler files and capture directories; known files are skipped.

        Returns one report per profiler file, in order. ``progress`` is called with a short text
        for each step.

        Raises:
            InputError: a file is unsupported or damaged; earlier files stay ingested.
            StoreError: the database cannot be written.
        """
        return self.ingest_files(
            [file for path in paths for file in capture_files(Path(path))], progress
        )

    def ingest_files(
        self, files: Sequence[CaptureFile], progress: Callable[[str], None] | None = None
    ) -> list[IngestReport]:
        """Ingest profiler files with their metadata; reports and errors as of :meth:`ingest`."""
        say = progress or (lambda _text: None)
        prepare_for_ingest(self.path, self.traces_directory, self._setting)
        return [self._ingest_file(identify_file(file), say) for file in files]

    def ingest_identified(self, files: Sequence[IdentifiedFile]) -> None:
        """Ingest files that have been hashed already; no views are written.

        Raises:
            InputError: a file is unsupported or damaged; earlier files stay ingested.
            StoreError: the database cannot be written.
        """
        prepare_for_ingest(self.path, self.traces_directory, self._setting)
        with self._advised():
            for file in files:
                self._add(file)

    def are_new(self, trace_ids: Iterable[str]) -> bool:
        """Return True if this object wrote one of the traces since the last call."""
        new = self._added.intersection(trace_ids)
        self._added -= new
        return bool(new)

    def find(self, files: Sequence[IdentifiedFile]) -> list[str] | None:
        """Return the traces of profiler files, None if one of them is not here."""
        trace_ids = [file.trace_id for file in files]
        return trace_ids if set(self.trace_ids()).issuperset(trace_ids) else None

    def _ingest_file(self, identified: IdentifiedFile, say: Callable[[str], None]) -> IngestReport:
        file, trace_id, directory = identified.file, identified.trace_id, self.traces_directory
        with self._advised():
            added = self._add(identified, progress=lambda table: say(f"{file.name}: {table}"))
            try:
                if added is not None and (other := same_events(self, directory, identified)):
                    self._withdraw(trace_id)
                    added, trace_id = None, other
                if changed := added is None and bool(file.labels or file.is_named):
                    restate(directory / trace_id, file)
                self._write_views(needed=added is not None)
            except BaseException:  # a failed or interrupted ingest leaves nothing
                if added is not None:
                    self._withdraw(trace_id)
                raise
        if added is not None:
            return added
        return known_report(self, identified, trace_id, changed=changed)

    def _add(
        self,
        identified: IdentifiedFile,
        progress: Callable[[str], None] = lambda _table: None,
    ) -> IngestReport | None:
        from tbd_trace.runtime.worker_pool import WorkerPool  # noqa: PLC0415 - queries need none
        from tbd_trace.store.ingest_worker import get_ready  # noqa: PLC0415

        target = self.traces_directory / identified.trace_id
        if target.is_dir():
            return None
        with WorkerPool() as pool:
            if identified.content.size >= LARGE_FILE and (
                self._tables is None or any(canonical_tables()[t].is_parallel for t in self._tables)
            ):
                pool.start_workers(partial(get_ready, identified.file.path))
            prefetch()  # importing readers takes longer
            from tbd_trace.sources.registry import identify  # noqa: PLC0415

            added = write_trace(
                identified.file,
                identify(identified.file.path),
                content=identified.content,
                trace_id=identified.trace_id,
                target=target,
                tables=self._tables,
                columns=self._columns,
                pool=pool,
                progress=progress,
            )
        self._added.add(identified.trace_id)
        return added

    @contextlib.contextmanager
    def _advised(self) -> Iterator[None]:
        try:
            yield
        except StoreError as error:
            raise StoreError(f"{error}; choose another place with {self._setting}") from error

    def _withdraw(self, trace_id: str) -> None:
        self._added.discard(trace_id)
        with contextlib.suppress(StoreError):
            unpublish(self.traces_directory / trace_id)
        with contextlib.suppress(OSError):  # other traces are there
            self.traces_directory.rmdir()
            self.traces_directory.parent.rmdir()

    def without_views(self) -> Database:
        """Return a copy for a worker process, which leaves the views to the main process."""
        own = copy(self)
        own._leaves_views = True
        return own

    def write_views(self, *, needed: bool) -> None:
        """Write the views of the ``.duckdb`` file, unless they are current.

        Args:
            needed: True after a new trace; otherwise errors are ignored.

        Raises:
            StoreError: the file cannot be written.
        """
        with self._advised():
            self._write_views(needed)

    def _write_views(self, needed: bool) -> None:
        if self._leaves_views or (self._has_views and self.path.exists()):
            return
        try:
            write_views(self)
            self._has_views = True
        except StoreError:
            if needed:
                raise

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
        paths = []
        for trace_id, directory in ((i, self.traces_directory / i) for i in trace_ids):
            if problem := next(self._checksums.problems(directory, table), None):
                raise self.damaged(trace_id, problem)
            if self._checksums.lists_table(directory, table):
                paths += table_files(directory, table)
        return paths

    def state(self, trace_id: str) -> Sequence[object]:
        with contextlib.suppress(OSError):
            state = whole_file(self.traces_directory / trace_id, CATALOGUE).stat()
            shown = self.shown_names.get(trace_id)
            return [trace_id, state.st_size, state.st_mtime_ns, *filter(None, [shown])]
        return [trace_id]

    def size_bytes(self, trace_id: str) -> int:
        with contextlib.suppress(OSError):
            files = os.scandir(self.traces_directory / trace_id)
            return sum(file.stat().st_size for file in files)
        return 0  # removed; reading it raises the error

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
            unpublish(self.traces_directory / trace_id)
        shutil.rmtree(self.derived_directory, ignore_errors=True)
        self._has_views = False
        write_views(self)
        return trace_ids
