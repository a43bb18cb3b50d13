"""Profiler files with their hash and trace id, and reports about their ingest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tbd_trace.store.capture import CaptureFile, capture_files
from tbd_trace.store.content import Content, compute_trace_id, hash_file


@dataclass(frozen=True, slots=True)
class IngestReport:
    """The outcome of ingesting one profiler file."""

    path: Path
    trace_id: str
    name: str  # name of the trace in the database
    status: str  # ``ingested`` or ``already there``
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
