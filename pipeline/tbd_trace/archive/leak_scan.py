"""What would leak if profiler files, captures or archives were shared."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import duckdb
import polars as pl

from tbd_trace.archive.storage_backends import is_archive
from tbd_trace.archive.store import Archive, checked
from tbd_trace.errors import InputError
from tbd_trace.model.canonical_tables import canonical_tables
from tbd_trace.query import connect
from tbd_trace.redact.column_policy import candidates, text_columns
from tbd_trace.redact.file_scan import search_sqlite, search_text
from tbd_trace.redact.json_documents import Treatment
from tbd_trace.redact.leak_report import Findings
from tbd_trace.redact.tables import learn_tables
from tbd_trace.sources.registry import check_readable
from tbd_trace.sqlite_io import SqliteFile
from tbd_trace.store.capture import is_capture

_DOCUMENTS = ("capture.json", "layers.json")
_HEAD_BYTES = 4096
_BINARY = b"\x00"
_GZIP = b"\x1f\x8b"


def leaks(path: Path) -> pl.DataFrame:
    """List what is private in a profiler file, a capture directory or an archive.

    Args:
        path: where it is.

    Returns:
        One row per kind and place: ``kind`` (:data:`tbd_trace.redact.leak_report.FILE_KINDS`),
        ``where`` (table and column, field, or file), ``count`` and ``example``, whose value is cut
        off after a few characters.

    Raises:
        InputError: it cannot be read.
        StoreError: the archive is damaged.
    """
    if is_archive(str(path)):
        return _archive(path)
    if is_capture(path):
        return _capture(path)
    return _file(path)


def leaks_in_tables(connection: duckdb.DuckDBPyConnection) -> pl.DataFrame:
    """List what is private in the canonical tables of a connection, as :func:`leaks`.

    ``count`` is a number of rows.
    """
    findings = Findings()
    treatment = Treatment()
    learn_tables(connection, treatment)
    there = {row[0] for row in connection.execute("SHOW TABLES").fetchall()}
    for table in canonical_tables().values():
        for column, kind in text_columns(table).items() if table.name in there else ():
            relation = f"SELECT {column} FROM {table.name}"
            texts = candidates(connection, relation, column, kind, treatment.names.words)
            for text, rows in texts.items():
                found: dict[str, str] = {}
                treatment.value(kind, text, found.setdefault)
                for what, example in found.items():
                    findings.add(what, f"{table.name}.{column}", example, rows)
    return findings.frame()


def _file(path: Path) -> pl.DataFrame:
    check_readable(path)
    findings = Findings()
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    if SqliteFile.has_magic(head):
        search_sqlite(path, findings)
    elif _BINARY in head and not head.startswith(_GZIP):
        findings.state("not searched", path.name, "a report; export it to SQLite or CSV first", 1)
    elif path.name in _DOCUMENTS:
        _document(path, findings)
    else:
        search_text(path, findings)
    return findings.frame()


def _capture(directory: Path) -> pl.DataFrame:
    findings = Findings()
    try:
        files = sorted(f for f in directory.rglob("*") if f.is_file() and f.stat().st_size)
    except OSError as error:
        raise InputError(f"{directory}: cannot be read ({error.strerror})") from error
    for file in files:
        findings.include(str(file.relative_to(directory)), _file(file))
    return findings.frame()


def _document(path: Path, findings: Findings) -> None:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{path}: not valid JSON ({error}); copy it again") from error
    treatment = Treatment()
    treatment.learn(document)
    fields = document.items() if isinstance(document, dict) else [("", document)]
    for field, value in fields:
        treatment.document({field: value}, findings.at(field))


def _archive(path: Path) -> pl.DataFrame:
    findings = Findings()
    with tempfile.TemporaryDirectory() as scratch:
        archive = Archive(str(path), Path(scratch) / "cache")
        with connect(archive) as connection:
            findings.include("tables", leaks_in_tables(connection))
        for listed in archive.manifest.files:
            if listed.rows is None:
                copy = Path(scratch) / listed.path
                copy.parent.mkdir(parents=True, exist_ok=True)
                with copy.open("wb") as file:
                    file.writelines(checked(archive.place, listed))
                findings.include(listed.path, _file(copy))
                copy.unlink()
    return findings.frame()
