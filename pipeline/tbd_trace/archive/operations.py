"""Making archives: of traces, of other archives, and the directory form of one."""

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
from tbd_trace.archive.store import Archive, checked
from tbd_trace.errors import InputError, UsageError
from tbd_trace.model.canonical_tables import canonical_tables, timed_tables
from tbd_trace.query import connect
from tbd_trace.redact.tables import Redaction, Redactor
from tbd_trace.runtime.result_frames import frame
from tbd_trace.runtime.sigint import interruptible
from tbd_trace.sqltext import string
from tbd_trace.store.base import TraceStore
from tbd_trace.store.read_errors import reading
from tbd_trace.store.writer import content

_PARQUET = "FORMAT parquet, PARQUET_VERSION V2, COMPRESSION zstd, ROW_GROUP_SIZE 122880"
_NOT_IN_A_NAME = re.compile(r"[^\w.+-]")
_LONGEST_NAME = 80

Progress = Callable[[str], None]


def create(
    store: TraceStore,
    trace_ids: Sequence[str],
    target: Path,
    *,
    redaction: Redaction,
    profiles: bool = False,
    force: bool = False,
    progress: Progress | None = None,
) -> Manifest:
    """Make an archive of traces.

    Args:
        store: where they are.
        trace_ids: which they are, in order.
        target: the archive: a zip file if its name ends in ``.zip``, else a directory.
        redaction: what may stay in of what is private.
        profiles: put the profiler files in too, as they are; nothing is taken out of them.
        force: replace an archive that is there.
        progress: called with a short text as the work goes on.

    Returns:
        What the archive holds.

    Raises:
        InputError: a profiler file is to go in, and is not where it was ingested from.
        StoreError: the archive cannot be written, or a trace cannot be read.
        UsageError: there is something else at the target, no trace, or two captures of one id.
    """
    if not trace_ids:
        raise UsageError("there are no traces to put into an archive; name some")
    say = progress or (lambda _text: None)
    with (
        new_archive(target, force=force) as writer,
        reading(store),
        connect(store, trace_ids) as connection,
        interruptible(connection),
    ):
        rows = store.trace_frame(list(dict.fromkeys(trace_ids))).to_dicts()
        groups = _captures(rows)
        redactor = Redactor(connection, redaction)
        for row in rows:
            say(row["name"])
            _add_trace(writer, connection, redactor, store, row)
        for members in groups.values():
            _add_capture(writer, connection, redactor, members)
        if profiles:
            _add_profiles(writer, rows)
        return writer.finish()


def merge(
    archives: Sequence[Archive],
    target: Path,
    *,
    force: bool = False,
    progress: Progress | None = None,
) -> Manifest:
    """Make one archive of several.

    Args:
        archives: the archives; a trace that is in several with equal tables is taken once.
        target: as in :func:`create`.
        force: as in :func:`create`.
        progress: as in :func:`create`.

    Raises:
        StoreError: the archive cannot be written, or one of the others is damaged.
        UsageError: a trace or a capture is in two archives with different content.
    """
    say = progress or (lambda _text: None)
    with new_archive(target, force=force) as writer:
        for archive in archives:
            _check_same(writer, archive)
            there = {file.path for file in writer.files}
            for file in archive.manifest.files:
                if file.path not in there:
                    say(file.path)
                    writer.add(file.path, checked(archive.place, file), file.rows)
            writer.captures = _joined(writer.captures, archive.manifest.captures)
            known = {trace.trace_id for trace in writer.traces}
            writer.traces += [t for t in archive.manifest.traces if t.trace_id not in known]
        return writer.finish()


def extract(archive: Archive, target: Path, *, force: bool = False) -> Manifest:
    """Unpack an archive into a directory, checking every file; the directory is an archive too.

    Raises:
        StoreError: the archive is damaged, or the directory cannot be written.
        UsageError: there is something else at the target.
    """
    if target.suffix == ".zip":
        raise UsageError(f"{target}: an archive is extracted into a directory; name one")
    return merge([archive], target, force=force)


def _captures(rows: Iterable[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Return the traces of each capture."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        if row["capture_id"] is not None:
            groups.setdefault(row["capture_id"], []).append(row)
    for capture_id, members in groups.items():
        if len({row["capture"] for row in members}) > 1:
            names = ", ".join(row["name"] for row in members)
            raise UsageError(
                f"two captures call themselves {capture_id!r}: {names}; put them into different "
                "archives, or change the capture_id in one capture.json and ingest it again"
            )
    return groups


def _add_trace(
    writer: ArchiveWriter,
    connection: duckdb.DuckDBPyConnection,
    redactor: Redactor,
    store: TraceStore,
    row: dict[str, Any],
) -> None:
    trace_id = row["trace_id"]
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
    """Write rows of a table, in order of time where it has times; without rows it is left out."""
    path = table_path(trace_id, table)
    if times := timed_tables().get(table):
        numbered = f"SELECT *, row_number() OVER () AS place FROM ({rows})"
        order = ", ".join((*dict.fromkeys(times.times), "place"))
        rows = f"SELECT * EXCLUDE (place) FROM ({numbered}) ORDER BY {order}"
    ((written,),) = connection.execute(
        f"COPY ({rows}) TO {string(str(writer.place(path)))} ({_PARQUET})"
    ).fetchall()
    if written:
        writer.list(path, int(written))
    else:
        (writer.root / path).unlink()


def _add_capture(
    writer: ArchiveWriter,
    connection: duckdb.DuckDBPyConnection,
    redactor: Redactor,
    members: Sequence[dict[str, Any]],
) -> None:
    """Write the capture.json and layers.json of a capture, as far as the database knows them."""
    capture_id = redactor.text(members[0]["capture_id"])
    taken = {capture.directory for capture in writer.captures}
    directory = f"captures/{_file_name(capture_id)}"
    while directory in taken:
        directory += "_"
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
    """Put the profiler files in: those of a capture beside its capture.json."""
    directories = {
        trace_id: capture.directory for capture in writer.captures for trace_id in capture.trace_ids
    }
    for row in rows:
        profile = Path(row["path"] or row["name"])
        directory = directories.get(row["trace_id"], f"profiles/{row['trace_id']}")
        path = f"{directory}/{profile.name}"
        if not is_safe(path):
            raise InputError(f"{profile}: its name is not for an archive; rename it")
        _check_unchanged(profile, row)
        shutil.copyfile(profile, writer.place(path))
        writer.list(path)


def _check_unchanged(profile: Path, row: dict[str, Any]) -> None:
    if not profile.is_file():
        raise InputError(
            f"{profile}: the profile of {row['name']} is not there any more; "
            "leave --profiles away, or put it back"
        )
    if row["sha256"] is not None and content(profile).sha256 != row["sha256"]:
        raise InputError(f"{profile}: was changed since it was ingested; ingest it again")


def _check_same(writer: ArchiveWriter, archive: Archive) -> None:
    """Refuse an archive that has a file of the writer with different content."""
    there = {file.path: file.sha256 for file in writer.files}
    for file in archive.manifest.files:
        if there.get(file.path, file.sha256) != file.sha256:
            raise UsageError(
                f"{archive.name}: has another {file.path} than an archive before it (a trace or "
                "capture that was archived twice, differently); merge only one of them"
            )
    for trace in writer.traces:
        listed = {file.path for file in archive.manifest.of_trace(trace.trace_id)}
        if listed and listed != {p for p in there if p.startswith(f"traces/{trace.trace_id}/")}:
            raise UsageError(
                f"{archive.name}: has other tables of trace {trace.trace_id} than an archive "
                "before it; merge only one of them"
            )


def _joined(
    captures: Sequence[ArchivedCapture], more: Sequence[ArchivedCapture]
) -> list[ArchivedCapture]:
    joined = {capture.directory: capture for capture in captures}
    for capture in more:
        there = joined.get(capture.directory)
        ids = dict.fromkeys(chain(there.trace_ids if there else (), capture.trace_ids))
        joined[capture.directory] = replace(capture, trace_ids=list(ids))
    return list(joined.values())


def _file_name(text: str) -> str:
    return _NOT_IN_A_NAME.sub("_", text)[:_LONGEST_NAME].lstrip(".") or "capture"


def _json(document: object) -> bytes:
    return (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode()
