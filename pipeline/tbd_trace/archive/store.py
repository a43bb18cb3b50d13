"""Trace stores that read archives."""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb

from tbd_trace.archive.manifest import (
    ArchivedFile,
    table_path,
)
from tbd_trace.archive.storage_backends import StorageBackend, open_backend, read_manifest
from tbd_trace.errors import StoreError
from tbd_trace.model.canonical_tables import canonical_tables
from tbd_trace.runtime.private_files import private_file, temporary_directory
from tbd_trace.sqltext import glob_escaped, string
from tbd_trace.store import layout_v1
from tbd_trace.store.base import TraceStore
from tbd_trace.store.database import LAYOUT


class Archive(TraceStore):
    """The traces of one archive, read-only.

    Tables are verified when first read. Tables in zip files and behind URLs are copied into the
    cache then.

    Args:
        cache: directory for copies and derived relations.

    Raises:
        StoreError: there is no archive at the location, or it is damaged or of a newer version.
        UsageError: the URL cannot be opened on this machine.
    """

    fetches = True

    def __init__(self, location: str, cache: Path) -> None:
        self._opened_with = (location, cache)
        self.backend = open_backend(location)
        self.manifest = read_manifest(self.backend)
        if self.manifest.layout not in (LAYOUT, layout_v1.NAME):
            raise StoreError(
                f"{location}: has table layout {self.manifest.layout}, not {LAYOUT}; use the "
                f"version that made it: {self.manifest.created_by}"
            )
        self.redacted = not any(trace.kept for trace in self.manifest.traces)
        self._listed = {file.path: file for file in self.manifest.files}
        self._ready: dict[str, Path] = {}
        self._temporary: list[TemporaryDirectory[str]] = []  # removed with this object
        self._copies = self._own_directory(cache / "copies")
        self.derived_directory = self._own_directory(cache / "derived")

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the location: each process opens and verifies the archive itself, once."""
        return _opened, (*self._opened_with, self.manifest.to_bytes())

    @property
    def name(self) -> str:
        return self.backend.name

    def trace_ids(self) -> list[str]:
        """Return the ids of all traces, in the order of the archive."""
        return [trace.trace_id for trace in self.manifest.traces]

    def files(self, table: str, trace_ids: Iterable[str]) -> list[Path]:
        """Return the files of a canonical table; a trace without rows in it has none.

        Raises:
            StoreError: a file is missing or damaged, or lacks columns.
        """
        paths = [table_path(trace_id, table) for trace_id in trace_ids]
        return [self._file(table, self._listed[path]) for path in paths if path in self._listed]

    def require_current_layout(self) -> None:
        """Raise StoreError for an archive of release 0.1.0, whose files cannot be copied."""
        if self.manifest.layout != LAYOUT:
            raise StoreError(
                f"{self.name}: its tables are of {self.manifest.created_by}; query it as it is, or "
                "create it again from its profiles"
            )

    def relation(self, table: str, trace_ids: Sequence[str]) -> str:
        """Return a SELECT of a canonical table; tables of release 0.1.0 are converted."""
        if self.manifest.layout == layout_v1.NAME:
            return layout_v1.relation(table, trace_ids, self.files)
        return super().relation(table, trace_ids)

    def state(self, trace_id: str) -> Sequence[object]:
        return [trace_id, *(file.sha256 for file in self.manifest.tables_of(trace_id))]

    def size_bytes(self, trace_id: str) -> int:
        return sum(file.size_bytes for file in self.manifest.tables_of(trace_id))

    def damaged(self, trace_id: str, reason: str) -> StoreError:
        return StoreError(
            f"{self.name}: cannot be read ({reason}); run `tbd-trace archive verify {self.name}`"
        )

    def _file(self, table: str, listed: ArchivedFile) -> Path:
        if listed.path not in self._ready:
            file = self._local(listed) or self._copied(listed)
            check_columns(self.name, table, file)
            self._ready[listed.path] = file
        return self._ready[listed.path]

    def _local(self, listed: ArchivedFile) -> Path | None:
        file = self.backend.local(listed.path)
        if file is not None:
            # Read in full for its checksum before DuckDB opens it.
            for _ in verified_chunks(self.backend, listed):
                pass
        return file

    def _copied(self, listed: ArchivedFile) -> Path:
        # Copies are named by checksum, so that archives with equal tables share them. An earlier
        # copy is verified again: another program may have changed it.
        copy = self._copies / listed.sha256 / Path(listed.path).name
        with contextlib.suppress(OSError):
            if _sha256(copy) == listed.sha256:
                return copy
        try:
            copy.parent.mkdir(parents=True, exist_ok=True)
            # Renamed when complete, because other processes may look for the copy at any time.
            partial = private_file(copy)
            try:
                with partial.open("wb") as file:
                    file.writelines(verified_chunks(self.backend, listed))
                partial.replace(copy)
            finally:
                partial.unlink(missing_ok=True)
        except OSError as error:
            raise StoreError(
                f"{copy.parent}: cannot be written ({error.strerror}); "
                "set TBD_TRACE_CACHE to another directory"
            ) from error
        return copy

    def _own_directory(self, wanted: Path) -> Path:
        # The cache may be on a read-only file system, as in a container.
        try:
            wanted.mkdir(parents=True, exist_ok=True)
            if os.access(wanted, os.W_OK):
                return wanted
        except OSError:
            pass
        self._temporary.append(temporary_directory())
        return Path(self._temporary[-1].name)


@lru_cache(maxsize=4)
def _opened(location: str, cache: Path, manifest: bytes) -> Archive:
    archive = Archive(location, cache)
    if archive.manifest.to_bytes() != manifest:
        raise StoreError(f"{location}: was replaced while it was read; ask again")
    return archive


class CombinedStore(TraceStore):
    """Selected traces of several stores as one store.

    Args:
        parts: stores with ids of their traces. A trace in several stores is read from the first.
        derived_directory: directory of derived relations.
    """

    def __init__(
        self, parts: Sequence[tuple[TraceStore, Sequence[str]]], derived_directory: Path
    ) -> None:
        # Reversed, because the last entry of a dict comprehension wins.
        self._stores = {trace_id: store for store, ids in reversed(parts) for trace_id in ids}
        self._ids = list(dict.fromkeys(trace_id for _, ids in parts for trace_id in ids))
        self.fetches = any(store.fetches for store, _ in parts)
        self.derived_directory = derived_directory

    @property
    def name(self) -> str:
        return ", ".join(dict.fromkeys(store.name for store in self._stores.values()))

    def trace_ids(self) -> list[str]:
        return list(self._ids)

    def files(self, table: str, trace_ids: Iterable[str]) -> list[Path]:
        return [file for each in trace_ids for file in self._stores[each].files(table, [each])]

    def relation(self, table: str, trace_ids: Sequence[str]) -> str:
        """Return a SELECT of a canonical table; each store reads its own layout."""
        old = [each for each in trace_ids if _is_v1(self._stores[each])]
        if not old:
            return super().relation(table, trace_ids)
        new = [each for each in trace_ids if each not in old]
        selects = [self._stores[each].relation(table, [each]) for each in old]
        return " UNION ALL BY NAME ".join([super().relation(table, new), *selects])

    def state(self, trace_id: str) -> Sequence[object]:
        return self._stores[trace_id].state(trace_id)

    def size_bytes(self, trace_id: str) -> int:
        return self._stores[trace_id].size_bytes(trace_id)

    def damaged(self, trace_id: str, reason: str) -> StoreError:
        # The id is derived from the file's path. Copies of an archive's files are named by
        # checksum, so their store is unknown; the first one reports the error.
        store = self._stores.get(trace_id) or next(iter(self._stores.values()))
        return store.damaged(trace_id, reason)


def _is_v1(store: TraceStore) -> bool:
    return isinstance(store, Archive) and store.manifest.layout == layout_v1.NAME


def verified_chunks(backend: StorageBackend, listed: ArchivedFile) -> Iterable[bytes]:
    """Yield the bytes of a file of an archive, and verify size and checksum at the end.

    Raises:
        StoreError: the file is missing or differs from its entry in ``archive.json``.
    """
    digest, size = hashlib.sha256(), 0
    try:
        for chunk in backend.chunks(listed.path):
            digest.update(chunk)
            size += len(chunk)
            if size > listed.size_bytes:  # a crafted zip member may expand without end
                break
            yield chunk
    except FileNotFoundError:
        raise StoreError(
            f"{backend.name}: {listed.path} is missing; get the archive again"
        ) from None
    if (size, digest.hexdigest()) != (listed.size_bytes, listed.sha256):
        raise StoreError(
            f"{backend.name}: {listed.path} was changed or damaged; get the archive again"
        )


def check_columns(name: str, table: str, file: Path) -> None:
    """Check that a Parquet file has the columns of its canonical table.

    Raises:
        StoreError: a column is missing or has another type, or it is not a Parquet file.
    """
    try:
        rows = (
            shared_connection()
            .execute(f"DESCRIBE SELECT * FROM read_parquet({string(glob_escaped(file))})")
            .fetchall()
        )
    except duckdb.Error as error:
        reason = str(error).splitlines()[0]
        raise StoreError(
            f"{name}: its {table} cannot be read ({reason}); get the archive again"
        ) from error
    types = {row[0]: row[1] for row in rows}
    expected = canonical_tables().get(table)
    for column in expected.columns if expected else ():  # tables of release 0.1.0 have none
        if types.get(column.name) != column.type:
            raise StoreError(
                f"{name}: its {table} has no column {column.name} of type {column.type}; "
                "create the archive again with this version of tbd-trace"
            )


class _ThreadLocal(threading.local):
    @cached_property
    def connection(self) -> duckdb.DuckDBPyConnection:
        return duckdb.connect()


_thread_local = _ThreadLocal()


def shared_connection() -> duckdb.DuckDBPyConnection:
    """Return an in-memory connection shared by all checks of single files in this thread."""
    # Opening a connection takes longer than describing a file.
    return _thread_local.connection


def _sha256(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def merged(parts: Sequence[tuple[TraceStore, list[str]]]) -> tuple[TraceStore, list[str]]:
    """Return one store with the traces of several; duplicates are dropped, the order is kept."""
    ids = list(dict.fromkeys(trace_id for _, trace_ids in parts for trace_id in trace_ids))
    store = parts[0][0]
    if any(other.name != store.name for other, _ in parts):
        store = CombinedStore(parts, store.derived_directory)
    return store, ids
