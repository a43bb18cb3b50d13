"""List private data in profiler files, captures and archives before they are shared."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import polars as pl

from tbd_trace.archive.storage_backends import is_archive
from tbd_trace.archive.store import Archive, verified_chunks
from tbd_trace.errors import InputError
from tbd_trace.query import connect
from tbd_trace.redact.column_policy import candidates
from tbd_trace.redact.file_scan import scan_sqlite, scan_text
from tbd_trace.redact.json_documents import Redactor
from tbd_trace.redact.leak_report import LeakReport
from tbd_trace.redact.tables import collect_identities, private_columns
from tbd_trace.runtime.private_files import temporary_directory
from tbd_trace.sources.registry import check_readable, load, tool_of
from tbd_trace.sqlite_io import SqliteFile
from tbd_trace.store.capture import is_capture

_DOCUMENTS = ("capture.json", "layers.json")
_HEAD_BYTES = 4096  # NVIDIA's binary reports have a NUL byte within their first kilobytes
_BINARY = b"\x00"
_GZIP = b"\x1f\x8b"


def leaks(path: Path) -> pl.DataFrame:
    """List the private data in a profiler file, a capture directory or an archive.

    Returns:
        One row per kind and location: ``kind`` (:data:`tbd_trace.redact.leak_report.FILE_KINDS`),
        ``where`` (table and column, field, or file), ``count`` and ``example`` (masked).

    Raises:
        InputError: the file cannot be read.
        StoreError: the archive is damaged.
    """
    if is_archive(str(path)):
        return _archive(path)
    if is_capture(path):
        return _capture(path)
    return _file(path)


def leaks_in_tables(connection: duckdb.DuckDBPyConnection) -> pl.DataFrame:
    """List the private data in the canonical tables of a connection, as :func:`leaks`.

    ``count`` is the number of rows.
    """
    report = LeakReport()
    redactor = Redactor()
    collect_identities(connection, redactor)
    for table, column, policy in private_columns(connection):
        relation = f"SELECT {column} FROM {table}"
        texts = candidates(connection, relation, column, policy, redactor.names.words)
        for text, rows in texts.items():
            # A dict's setdefault keeps the first example of each kind.
            examples: dict[str, str] = {}
            redactor.value(policy, text, examples.setdefault)
            for kind, example in examples.items():
                report.add(kind, f"{table}.{column}", example, rows)
    return report.frame()


def _file(path: Path) -> pl.DataFrame:
    check_readable(path)
    report = LeakReport()
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    made_by = tool_of(path, head)
    if made_by is not None and made_by.find_private:
        load(made_by.find_private)(path, report)
    elif SqliteFile.has_magic(head):
        scan_sqlite(path, report)
    elif _BINARY in head and not head.startswith(_GZIP):
        report.add_masked(
            "not searched", path.name, "a report; export it to SQLite or CSV first", 1
        )
    elif path.name in _DOCUMENTS:
        _document(path, report)
    else:
        scan_text(path, report)
    return report.frame()


def _capture(directory: Path) -> pl.DataFrame:
    report = LeakReport()
    try:
        files = sorted(f for f in directory.rglob("*") if f.is_file() and f.stat().st_size)
    except OSError as error:
        raise InputError(f"{directory}: cannot be read ({error.strerror})") from error
    for file in files:
        report.include(str(file.relative_to(directory)), _file(file))
    return report.frame()


def _document(path: Path, report: LeakReport) -> None:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{path}: not valid JSON ({error}); copy it again") from error
    redactor = Redactor()
    redactor.collect_identities(document)
    fields = document.items() if isinstance(document, dict) else [("", document)]
    for field, value in fields:
        redactor.document({field: value}, report.reporter(field))


def _archive(path: Path) -> pl.DataFrame:
    report = LeakReport()
    with temporary_directory() as scratch:
        archive = Archive(str(path), Path(scratch) / "cache")
        with connect(archive) as connection:
            report.include("tables", leaks_in_tables(connection))
        for listed in archive.manifest.files:
            # Tables were searched through the connection; the other files are documents and, with
            # --profiles, profiler files.
            if listed.rows is None:
                copy = Path(scratch) / listed.path
                copy.parent.mkdir(parents=True, exist_ok=True)
                with copy.open("wb") as file:
                    file.writelines(verified_chunks(archive.backend, listed))
                report.include(listed.path, _file(copy))
                copy.unlink()
    return report.frame()
