"""Traces that somebody asks about."""

from __future__ import annotations

from dataclasses import dataclass

from tbd_trace.store.base import TraceStore


@dataclass(frozen=True, slots=True)
class Selection:
    """Some traces of a database or an archive."""

    database: TraceStore  # the database or archive with the traces
    trace_ids: list[str]  # ids of the traces
