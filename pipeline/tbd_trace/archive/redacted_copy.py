"""Copy traces without their private data, for pages and files that are shared."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from tbd_trace.archive.operations import create
from tbd_trace.archive.store import Archive
from tbd_trace.redact.tables import Redaction
from tbd_trace.runtime.private_files import temporary_directory
from tbd_trace.store.base import TraceStore


@contextlib.contextmanager
def redacted_copy(
    store: TraceStore, trace_ids: Sequence[str], redaction: Redaction
) -> Iterator[Archive]:
    """Yield an archive of traces, which is removed afterwards.

    Raises:
        StoreError: the copy cannot be written, or a trace cannot be read.
        UsageError: there are no traces.
    """
    with temporary_directory() as scratch:
        target = Path(scratch) / "archive"
        create(store, trace_ids, target, redaction=redaction)
        yield Archive(str(target), Path(scratch) / "cache")
