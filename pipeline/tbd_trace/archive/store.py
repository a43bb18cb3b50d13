"""Reading archives in place of a database."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

import duckdb

from tbd_trace.archive.manifest import (
    FILE,
    LARGEST_BYTES,
    ArchivedFile,
    Manifest,
    table_path,
)
from tbd_trace.archive.storage_backends import StorageBackend, place_of
from tbd_trace.errors import StoreError
from tbd_trace.model.canonical_tables import canonical_tables
from tbd_trace.sqltext import glob_escaped, string
from tbd_trace.store.base import TraceStore
from tbd_trace.store.database import LAYOUT


class Archive(TraceStore):
    """The traces of one archive; nothing is ever written to it.

    A table that a query reads is checked against its checksum first. Where it is not a file of this
    machine, it is copied into a cache then.

    Args:
        location: path or URL of the archive.
        cache: directory to keep copies and derived relations in.

    Raises:
        StoreError: there is no archive, or it is damaged or too new.
        UsageError: the URL is of a kind that cannot be read here.
    """

    fetches = True

    def __init__(self, location: str, cache: Path) -> None:
        self.place = place_of(location)
        self.manifest = read_manifest(self.place)
        if self.manifest.layout != LAYOUT:
            raise StoreError(
                f"{location}: has tables of layout {self.manifest.layout}, and this version of "
                f"tbd-trace reads {LAYOUT}; use the version that made it: "
                f"{self.manifest.created_by}"
            )
        self._listed = {file.path: file for file in self.manifest.files}
        self._ready: dict[str, Path] = {}
        self._temporary: list[tempfile.TemporaryDirectory[str]] = []  # gone with this object
        self._copies = self._own_directory(cache / "copies")
        self.derived_directory = self._own_directory(cache / "derived")

    @property
    def name(self) -> str:
        """How the user named it."""
        return self.place.name

    def trace_ids(self) -> list[str]:
        """Return the ids of all traces, in the archive's order."""
        return [trace.trace_id for trace in self.manifest.traces]

    def files(self, table: str, trace_ids: Iterable[str]) -> list[Path]:
        """Return the files of a canonical table; traces without rows in it have none.

        Raises:
            StoreError: a file is missing, was changed, or lacks columns.
        """
        paths = [table_path(trace_id, table) for trace_id in trace_ids]
        return [self._file(table, self._listed[path]) for path in paths if path in self._listed]

    def state(self, trace_id: str) -> Sequence[object]:
        """Return the checksums of a trace's tables."""
        return [trace_id, *(file.sha256 for file in self.manifest.of_trace(trace_id))]

    def damaged(self, trace_id: str, reason: str) -> StoreError:
        """Return the error that a file of a trace could not be read."""
        return StoreError(
            f"{self.name}: cannot be read ({reason}); `tbd-trace archive verify` tells more"
        )

    def _file(self, table: str, listed: ArchivedFile) -> Path:
        if listed.path not in self._ready:
            file = self._local(listed) or self._copied(listed)
            check_columns(self.name, table, file)
            self._ready[listed.path] = file
        return self._ready[listed.path]

    def _local(self, listed: ArchivedFile) -> Path | None:
        file = self.place.local(listed.path)
        if file is not None:
            for _ in checked(self.place, listed):
                pass
        return file

    def _copied(self, listed: ArchivedFile) -> Path:
        """Return a copy of a file; one that is there already is used if it is what it should be."""
        copy = self._copies / listed.sha256 / Path(listed.path).name
        with contextlib.suppress(OSError):
            if _sha256(copy) == listed.sha256:
                return copy
        try:
            copy.parent.mkdir(parents=True, exist_ok=True)
            beside = copy.with_name(f".{copy.name}.{os.getpid()}")
            try:
                with beside.open("wb") as file:
                    file.writelines(checked(self.place, listed))
                beside.replace(copy)
            finally:
                beside.unlink(missing_ok=True)
        except OSError as error:
            raise StoreError(
                f"{copy.parent}: cannot be written ({error.strerror}); "
                "set TBD_TRACE_CACHE to another directory"
            ) from error
        return copy

    def _own_directory(self, wanted: Path) -> Path:
        """Return a directory to write to: the one wanted, or a temporary one if it is read-only."""
        try:
            wanted.mkdir(parents=True, exist_ok=True)
            if os.access(wanted, os.W_OK):
                return wanted
        except OSError:
            pass
        self._temporary.append(tempfile.TemporaryDirectory(prefix="tbd-trace-"))
        return Path(self._temporary[-1].name)


class Several(TraceStore):
    """Traces of several stores, as one.

    Args:
        parts: the stores, each with those of its traces that are meant. A trace that is in
            several is read from the first.
        derived_directory: where derived relations are kept.
    """

    def __init__(
        self, parts: Sequence[tuple[TraceStore, Sequence[str]]], derived_directory: Path
    ) -> None:
        self._of = {trace_id: store for store, ids in reversed(parts) for trace_id in ids}
        self._ids = list(dict.fromkeys(trace_id for _, ids in parts for trace_id in ids))
        self.fetches = any(store.fetches for store, _ in parts)
        self.derived_directory = derived_directory

    @property
    def name(self) -> str:
        """The names of the stores."""
        return ", ".join(dict.fromkeys(store.name for store in self._of.values()))

    def trace_ids(self) -> list[str]:
        """Return the ids of the traces, in order."""
        return list(self._ids)

    def files(self, table: str, trace_ids: Iterable[str]) -> list[Path]:
        """Return the files of a canonical table from the stores of the traces."""
        return [file for each in trace_ids for file in self._of[each].files(table, [each])]

    def state(self, trace_id: str) -> Sequence[object]:
        """Return what the trace's store says."""
        return self._of[trace_id].state(trace_id)

    def damaged(self, trace_id: str, reason: str) -> StoreError:
        """Return what the trace's store says; a copy of a file has no trace's name."""
        store = self._of.get(trace_id) or next(iter(self._of.values()))
        return store.damaged(trace_id, reason)


def read_manifest(place: StorageBackend) -> Manifest:
    """Return what the ``archive.json`` of an archive says.

    Raises:
        StoreError: there is none, or it is damaged or too new.
    """
    content = b""
    try:
        for chunk in place.chunks(FILE):
            content += chunk
            if len(content) > LARGEST_BYTES:
                raise StoreError(f"{place.name}: {FILE} is too large to be one; do not trust it")
    except (FileNotFoundError, NotADirectoryError):
        raise StoreError(
            f"{place.name}: no trace archive, it has no {FILE}; "
            "make one with `tbd-trace archive create`"
        ) from None
    return Manifest.from_bytes(content, place.name)


def checked(place: StorageBackend, listed: ArchivedFile) -> Iterable[bytes]:
    """Yield the bytes of a file of an archive, which in the end must be those listed.

    Raises:
        StoreError: the file is missing, or other bytes.
    """
    digest, size = hashlib.sha256(), 0
    try:
        for chunk in place.chunks(listed.path):
            digest.update(chunk)
            size += len(chunk)
            if size > listed.size_bytes:
                break
            yield chunk
    except FileNotFoundError:
        raise StoreError(f"{place.name}: {listed.path} is missing; get the archive again") from None
    if (size, digest.hexdigest()) != (listed.size_bytes, listed.sha256):
        raise StoreError(
            f"{place.name}: {listed.path} was changed or damaged; get the archive again"
        )


def check_columns(name: str, table: str, file: Path) -> None:
    """Make sure that a Parquet file has the columns of its canonical table.

    Raises:
        StoreError: it lacks some, or is no Parquet file.
    """
    try:
        rows = (
            scratch()
            .execute(f"DESCRIBE SELECT * FROM read_parquet({string(glob_escaped(file))})")
            .fetchall()
        )
    except duckdb.Error as error:
        reason = str(error).splitlines()[0]
        raise StoreError(f"{name}: its {table} cannot be read ({reason})") from error
    there = {row[0]: row[1] for row in rows}
    for column in canonical_tables()[table].columns:
        if there.get(column.name) != column.type:
            raise StoreError(
                f"{name}: its {table} has no column {column.name} of type {column.type}; "
                "another version of tbd-trace made it, create it again with this one"
            )


@cache
def scratch() -> duckdb.DuckDBPyConnection:
    """Return a connection for looking at single files; opening one takes longer than looking."""
    return duckdb.connect()


def _sha256(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
