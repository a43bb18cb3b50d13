"""Profiler files with their hash and trace id, and reports about their ingest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from tbd_trace.model.canonical_tables import CATALOGUE
from tbd_trace.store.capture import CaptureFile, capture_files
from tbd_trace.store.content import Content, compute_trace_id, hash_file
from tbd_trace.store.read_errors import reading

if TYPE_CHECKING:
    from tbd_trace.store.base import TraceStore


@dataclass(frozen=True, slots=True)
class IngestReport:
    """The outcome of ingesting one profiler file."""

    path: Path
    trace_id: str
    name: str  # name of the trace in the database
    status: str  # ``ingested``, ``already there`` or ``labelled``
    format: str  # detected format, as ``trace.format``
    kernels: int  # kernel executions in the file
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class IdentifiedFile:
    """A profiler file with its hash."""

    file: CaptureFile
    content: Content
    trace_id: str  # the same in every database


def identified_files(paths: Sequence[Path]) -> list[IdentifiedFile]:
    """Hash profiler files and the files of capture directories.

    Raises:
        InputError: a file cannot be read, or a capture is invalid.
    """
    return [identify_file(file) for path in paths for file in capture_files(Path(path))]


def identify_file(file: CaptureFile) -> IdentifiedFile:
    """Hash a profiler file; errors as in :func:`identified_files`."""
    from tbd_trace.sources.registry import check_readable  # noqa: PLC0415 - queries need no sources

    check_readable(file.path)
    content = hash_file(file.path)
    return IdentifiedFile(file, content, compute_trace_id(file, content.digest))


def known_report(
    store: TraceStore, identified: IdentifiedFile, trace_id: str, *, changed: bool
) -> IngestReport:
    """Return the report of a file whose events are in a store already.

    Args:
        trace_id: the trace with the events, of this file or of another one.
        changed: True if the labels or the name of the trace changed.

    Raises:
        StoreError: the trace is damaged.
    """
    columns = f"name, format, notes, ({store.kernel_count(trace_id)})"
    wanted = f"SELECT {columns} FROM ({store.relation(CATALOGUE, [trace_id])})"
    # A polars frame would take 0.1 s to import.
    with reading(store), duckdb.connect() as connection:
        ((name, file_format, notes, kernels),) = connection.execute(wanted).fetchall()
    if trace_id != identified.trace_id:
        notes.append(f"{identified.file.name} has the same events")
    return IngestReport(
        path=identified.file.path,
        trace_id=trace_id,
        name=name,
        status="labelled" if changed else "already there",
        format=file_format,
        kernels=int(kernels),
        notes=notes,
    )
