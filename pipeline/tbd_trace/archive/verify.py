"""Checking archives: that every byte is as it was written, and every table what it should be."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from tbd_trace.archive.archive_writer import seal_is_broken
from tbd_trace.archive.manifest import FILE, ArchivedFile
from tbd_trace.archive.storage_backends import StorageBackend, Zip
from tbd_trace.archive.store import Archive, check_columns, checked, scratch
from tbd_trace.errors import StoreError
from tbd_trace.model.canonical_tables import canonical_tables
from tbd_trace.sqltext import glob_escaped, string


def problems(archive: Archive) -> Iterator[str]:
    """Yield what is wrong with an archive, a sentence each; nothing if all is as it was written."""
    place, manifest = archive.place, archive.manifest
    yield from _seal_problem(place)
    there = place.paths()
    for path in sorted((there or set()) - {FILE, *(file.path for file in manifest.files)}):
        yield f"{place.name}: {path} is not listed in {FILE}; it was added later"
    with tempfile.TemporaryDirectory(prefix="tbd-trace-") as scratch:
        for listed in manifest.files:
            try:
                _check_file(archive, listed, Path(scratch))
            except StoreError as error:
                yield str(error)


def _seal_problem(place: StorageBackend) -> Iterator[str]:
    if isinstance(place, Zip) and seal_is_broken(place.file, place.comment):
        yield f"{place.name}: was changed or damaged since it was written; get the archive again"


def _check_file(archive: Archive, listed: ArchivedFile, scratch: Path) -> None:
    copy = scratch / "table.parquet"
    with copy.open("wb") as file:
        for chunk in checked(archive.place, listed):
            if listed.rows is not None:
                file.write(chunk)
    if listed.rows is not None:
        _check_table(archive.name, listed, copy)


def _check_table(name: str, listed: ArchivedFile, file: Path) -> None:
    _, trace_id, table = Path(listed.path).with_suffix("").parts
    if table not in canonical_tables():
        raise StoreError(f"{name}: {listed.path} is no table that this version of tbd-trace knows")
    check_columns(name, table, file)
    ((rows, others),) = (
        scratch()
        .execute(
            f"SELECT count(*), count(*) FILTER (trace_id <> {string(trace_id)}) "
            f"FROM read_parquet({string(glob_escaped(file))})"
        )
        .fetchall()
    )
    if rows != listed.rows or others:
        raise StoreError(
            f"{name}: {listed.path} has {rows} rows, {others} of them of other traces, and "
            f"should have {listed.rows}"
        )
