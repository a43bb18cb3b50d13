"""Redaction of what commands write for other people."""

# duckdb is imported when a command runs, so that `--help` starts fast.
# ruff: noqa: PLC0415
from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tbd_trace.api import Traces


@contextlib.contextmanager
def redacted(traces: Traces, keep: Iterable[str] = ()) -> Iterator[Traces]:
    """Yield the traces without private data: a copy that is removed afterwards.

    Args:
        keep: kinds that are left unchanged, as of ``--keep``; if all are, the traces themselves
            are yielded.

    Raises:
        StoreError: the copy cannot be written, or a trace cannot be read.
        UsageError: an unknown kind, or there are no traces.
    """
    from tbd_trace.api import Traces
    from tbd_trace.archive.redacted_copy import redacted_copy
    from tbd_trace.redact.tables import KINDS, parse_keep

    redaction = parse_keep(keep)
    if redaction.keep == KINDS.keys() or traces.database.redacted or not traces.trace_ids:
        yield traces
        return
    with redacted_copy(traces.database, traces.trace_ids, redaction) as copy:
        yield Traces(copy, copy.trace_ids())
