"""Verify the checksums, columns and row counts of archives."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tbd_trace.archive.archive_writer import seal_is_broken
from tbd_trace.archive.manifest import FILE, ArchivedFile
from tbd_trace.archive.storage_backends import StorageBackend, Zip
from tbd_trace.archive.store import Archive, check_columns, shared_connection, verified_chunks
from tbd_trace.errors import StoreError
from tbd_trace.model.canonical_tables import canonical_tables
from tbd_trace.runtime.private_files import temporary_directory
from tbd_trace.sqltext import glob_escaped, string


def problems(archive: Archive) -> Iterator[str]:
    """Yield an error message for each problem of an archive, none if it is intact."""
    backend, manifest = archive.backend, archive.manifest
    yield from _seal_problem(backend)
    # Remote directories are not listed: HTTP has no listing, so additional files go unnoticed.
    paths = backend.paths() or set()
    for path in sorted(paths - {FILE, *(file.path for file in manifest.files)}):
        yield f"{backend.name}: {path} is not listed in {FILE}; it was added later"
    with temporary_directory() as scratch:
        for listed in manifest.files:
            try:
                _check_file(archive, listed, Path(scratch))
            except StoreError as error:
                yield str(error)


def _seal_problem(backend: StorageBackend) -> Iterator[str]:
    if isinstance(backend, Zip) and seal_is_broken(backend.file, backend.comment):
        yield f"{backend.name}: was changed or damaged since it was written; get the archive again"


def _check_file(archive: Archive, listed: ArchivedFile, scratch: Path) -> None:
    # One copy at a time: an archive may be larger than the free space of the disk.
    copy = scratch / "table.parquet"
    with copy.open("wb") as file:
        for chunk in verified_chunks(archive.backend, listed):
            if listed.rows is not None:
                file.write(chunk)
    if listed.rows is not None:
        _check_table(archive.name, listed, copy)


def _check_table(name: str, listed: ArchivedFile, file: Path) -> None:
    _, trace_id, table = Path(listed.path).with_suffix("").parts
    if table not in canonical_tables():
        raise StoreError(f"{name}: {listed.path} is an unknown table; upgrade tbd-trace")
    check_columns(name, table, file)
    ((rows, others),) = (
        shared_connection()
        .execute(
            f"SELECT count(*), count(*) FILTER (trace_id <> {string(trace_id)}) "
            f"FROM read_parquet({string(glob_escaped(file))})"
        )
        .fetchall()
    )
    if rows != listed.rows or others:
        raise StoreError(
            f"{name}: {listed.path} has {rows} rows, {others} of them of other traces, in place "
            f"of {listed.rows}; create the archive again"
        )
