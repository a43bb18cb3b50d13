"""Create, merge and extract archives."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import duckdb

from tbd_trace.archive.archive_writer import ArchiveWriter, new_archive
from tbd_trace.archive.manifest import ArchivedCapture, ArchivedTrace, Manifest, is_safe, table_path
from tbd_trace.archive.store import Archive, verified_chunks
from tbd_trace.errors import InputError, UsageError
from tbd_trace.model.canonical_tables import canonical_tables, timed_tables
from tbd_trace.query import connect
from tbd_trace.redact.tables import Redaction, TableRedactor
from tbd_trace.runtime.result_frames import frame
from tbd_trace.runtime.sigint import interruptible
from tbd_trace.runtime.write_failure import os_errors
from tbd_trace.sqltext import string
from tbd_trace.store.base import TraceStore
from tbd_trace.store.content import hash_file
from tbd_trace.store.read_errors import reading

# Row groups of DuckDB's default size, 122,880 rows, which its scans read in parallel.
_PARQUET = "FORMAT parquet, PARQUET_VERSION V2, COMPRESSION zstd, ROW_GROUP_SIZE 122880"
_NOT_IN_A_NAME = re.compile(r"[^\w.+-]")
_LONGEST_NAME = 80  # file systems allow 255 bytes, and a character of UTF-8 has up to 3

Progress = Callable[[str], None]


def create(
    store: TraceStore,
    trace_ids: Sequence[str],
    target: Path | str,
    *,
    redaction: Redaction,
    profiles: bool = False,
    force: bool = False,
    progress: Progress | None = None,
) -> Manifest:
    """Create an archive of traces.

    Args:
        store: database or archive with the traces.
        trace_ids: the traces, in the order of the archive.
        target: its path or URL: a zip file if its name ends in ``.zip``, else a directory.
        profiles: add the profiler files too, without redaction.
        progress: called with the name of each trace before it is written.

    Raises:
        InputError: a profiler file to be added has moved or changed since it was ingested.
        StoreError: the archive cannot be written, or a trace cannot be read.
        UsageError: the target exists, no trace is given, or two captures share an id.
    """
    if not trace_ids:
        raise UsageError("there are no traces to archive; name some")
    notify = progress or (lambda _text: None)
    with (
        new_archive(target, force=force) as writer,
        reading(store),
        connect(store, trace_ids) as connection,
        interruptible(connection),
    ):
        rows = store.trace_frame(list(dict.fromkeys(trace_ids))).to_dicts()
        groups = _captures(rows)
        redactor = TableRedactor(connection, redaction)
        for row in rows:
            notify(row["name"])
            _add_trace(writer, connection, redactor, store, row)
        for members in groups.values():
            _add_capture(writer, connection, redactor, members)
        if profiles:
            _add_profiles(writer, rows)
        return writer.finish()


def merge(
    archives: Sequence[Archive],
    target: Path | str,
    *,
    force: bool = False,
    progress: Progress | None = None,
) -> Manifest:
    """Merge archives into one, as :func:`create`; equal tables of a trace are added once.

    Raises:
        StoreError: the archive cannot be written, or a source is damaged.
        UsageError: two archives have different content for a trace or capture.
    """
    notify = progress or (lambda _text: None)
    with new_archive(target, force=force) as writer:
        for archive in archives:
            archive.require_current_layout()
            _check_same(writer, archive)
            written = {file.path for file in writer.files}
            for file in archive.manifest.files:
                if file.path not in written:
                    notify(file.path)
                    writer.add(file.path, verified_chunks(archive.backend, file), file.rows)
            writer.captures = _joined(writer.captures, archive.manifest.captures)
            known = {trace.trace_id for trace in writer.traces}
            writer.traces += [t for t in archive.manifest.traces if t.trace_id not in known]
        return writer.finish()


def extract(archive: Archive, target: Path, *, force: bool = False) -> Manifest:
    """Unpack an archive into a directory, which is an archive too, and verify every file.

    Raises:
        StoreError: the archive is damaged, or the directory cannot be written.
        UsageError: the target exists, or is a zip file.
    """
    if target.suffix == ".zip":
        raise UsageError(f"{target}: not a directory; choose a name without .zip")
    return merge([archive], target, force=force)


def _captures(rows: Iterable[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        if row["capture_id"] is not None:
            groups.setdefault(row["capture_id"], []).append(row)
    for capture_id, members in groups.items():
        if len({row["capture"] for row in members}) > 1:
            names = ", ".join(row["name"] for row in members)
            raise UsageError(
                f"two captures have the capture_id {capture_id!r}: {names}; archive them "
                "separately, or change one capture.json and ingest it again"
            )
    return groups


def _add_trace(
    writer: ArchiveWriter,
    connection: duckdb.DuckDBPyConnection,
    redactor: TableRedactor,
    store: TraceStore,
    row: dict[str, Any],
) -> None:
    trace_id = row["trace_id"]
    # The redactor counts over all traces; the difference belongs to this one.
    before = dict(redactor.counts)
    for table in canonical_tables():
        rows = redactor.select(table, store.relation(table, [trace_id]))
        _add_table(writer, connection, trace_id, table, rows)
    replaced = {kind: n - before.get(kind, 0) for kind, n in redactor.counts.items()}
    writer.traces.append(
        ArchivedTrace(
            trace_id=trace_id,
            name=redactor.text(row["name"]),
            tool=row["tool"],
            tool_version=row["tool_version"],
            kind=row["kind"],
            capture_id=row["capture_id"] and redactor.text(row["capture_id"]),
            kernels=store.kernels(trace_id),
            kept=sorted(redactor.redaction.keep),
            replaced={kind: n for kind, n in replaced.items() if n},
        )
    )


def _add_table(
    writer: ArchiveWriter,
    connection: duckdb.DuckDBPyConnection,
    trace_id: str,
    table: str,
    rows: str,
) -> None:
    path = table_path(trace_id, table)
    # In the order of time, as in a database, so that readers can skip row groups. The row number
    # keeps rows of equal times in the order of the relation.
    if times := timed_tables().get(table):
        numbered = f"SELECT *, row_number() OVER () AS place FROM ({rows})"
        order = ", ".join((*dict.fromkeys(times.times), "place"))
        rows = f"SELECT * EXCLUDE (place) FROM ({numbered}) ORDER BY {order}"
    file = writer.path_for(path)
    # DuckDB's message names the same trace whether it reads the store or writes the archive.
    with os_errors(writer.root.parent):
        ((written,),) = connection.execute(
            f"COPY ({rows}) TO {string(str(file))} ({_PARQUET})"
        ).fetchall()
    if written:
        writer.register(path, int(written))
    else:
        file.unlink()


def _add_capture(
    writer: ArchiveWriter,
    connection: duckdb.DuckDBPyConnection,
    redactor: TableRedactor,
    members: Sequence[dict[str, Any]],
) -> None:
    capture_id = redactor.text(members[0]["capture_id"])
    used = {capture.directory for capture in writer.captures}
    directory = f"captures/{_file_name(capture_id)}"
    # Different ids can become the same name: "a/b" and "a:b" are both "a_b".
    while directory in used:
        directory += "_"
    # The original files may be gone; the database has their content in trace.capture and
    # layer_definition.
    document = redactor.document(json.loads(members[0]["capture"] or "{}"))
    writer.add(f"{directory}/capture.json", [_json(document)])
    layers = redactor.document(_layers(connection, members[0]["trace_id"]))
    if layers:
        writer.add(f"{directory}/layers.json", [_json({"layers": layers})])
    ids = [row["trace_id"] for row in members]
    writer.captures.append(ArchivedCapture(capture_id, directory, ids))


def _layers(connection: duckdb.DuckDBPyConnection, trace_id: str) -> list[dict[str, Any]]:
    rows = frame(
        connection.sql(
            f"SELECT * FROM layer_definition WHERE trace_id = {string(trace_id)} ORDER BY position"
        )
    ).to_dicts()
    renamed = {"layer": "name", "layer_type": "type"}
    return [
        {
            renamed.get(column, column): value
            for column, value in row.items()
            if value is not None and column not in ("trace_id", "position")
        }
        for row in rows
    ]


def _add_profiles(writer: ArchiveWriter, rows: Sequence[dict[str, Any]]) -> None:
    # Profiles of a capture go beside its capture.json: the directory can be ingested again.
    directories = {
        trace_id: capture.directory for capture in writer.captures for trace_id in capture.trace_ids
    }
    for row in rows:
        profile = Path(row["path"] or row["name"])
        directory = directories.get(row["trace_id"], f"profiles/{row['trace_id']}")
        path = f"{directory}/{profile.name}"
        if not is_safe(path):
            raise InputError(f"{profile}: the name is not valid in an archive; rename the file")
        _check_unchanged(profile, row)
        shutil.copyfile(profile, writer.path_for(path))
        writer.register(path)


def _check_unchanged(profile: Path, row: dict[str, Any]) -> None:
    if not profile.is_file():
        raise InputError(
            f"{profile}: the profile of {row['name']} is missing; restore it, or omit --profiles"
        )
    if row["sha256"] is not None and hash_file(profile).sha256 != row["sha256"]:
        raise InputError(f"{profile}: was changed since it was ingested; ingest it again")


def _check_same(writer: ArchiveWriter, archive: Archive) -> None:
    # Equal checksums mean equal content; anything else would mix two versions of a trace.
    checksums = {file.path: file.sha256 for file in writer.files}
    for file in archive.manifest.files:
        if checksums.get(file.path, file.sha256) != file.sha256:
            raise UsageError(
                f"{archive.name}: {file.path} differs from that of an archive before it; "
                "merge only one of the archives"
            )
    for trace in writer.traces:
        prefix = f"traces/{trace.trace_id}/"
        listed = {file.path for file in archive.manifest.tables_of(trace.trace_id)}
        if listed and listed != {path for path in checksums if path.startswith(prefix)}:
            raise UsageError(
                f"{archive.name}: has other tables of trace {trace.trace_id} than an archive "
                "before it; merge only one of them"
            )


def _joined(
    captures: Sequence[ArchivedCapture], more: Sequence[ArchivedCapture]
) -> list[ArchivedCapture]:
    # Two archives may hold different traces of one capture.
    joined = {capture.directory: capture for capture in captures}
    for capture in more:
        known = joined.get(capture.directory)
        ids = dict.fromkeys(chain(known.trace_ids if known else (), capture.trace_ids))
        joined[capture.directory] = replace(capture, trace_ids=list(ids))
    return list(joined.values())


def _file_name(text: str) -> str:
    return _NOT_IN_A_NAME.sub("_", text)[:_LONGEST_NAME].lstrip(".") or "capture"


def _json(document: object) -> bytes:
    return (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode()
