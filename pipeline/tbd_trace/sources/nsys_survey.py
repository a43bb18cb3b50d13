"""What the event tables of an Nsight Systems export hold as a whole.

A table's rows are grouped by thread or process and kind while they are streamed for some other
purpose; what is asked about the table is then answered from a few groups. Only a table that has not
been streamed yet is read for the survey.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Protocol

import polars as pl
import pyarrow as pa

from tbd_trace.sources.nsys_columns import API_CALLS, EVENTS, GPU_OPERATIONS, Columns

_OPERATION = ("globalPid", "deviceId", "contextId")
_KEYS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(GPU_OPERATIONS, _OPERATION),
    "CUDA_GPU_MEMORY_USAGE_EVENTS": _OPERATION,
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": ("globalPid", "contextId"),
    **dict.fromkeys(API_CALLS, ("eventClass", "globalTid")),
    "NVTX_EVENTS": ("eventType", "globalTid", "endGlobalTid"),
    "COMPOSITE_EVENTS": ("globalTid",),
}
_TIMES = ("start", "end")


class Stream(Protocol):
    """Reads columns of a table; a column or table that is absent is NULL or empty."""

    def __call__(
        self, table: str, columns: Columns, *, without: str | None = None
    ) -> pa.RecordBatchReader:
        """Return the rows, or those without an integer in one column."""


@dataclass(frozen=True, slots=True)
class Group:
    """Rows of a table that share process or thread, and kind.

    Attributes:
        key: the values that they share, in the order of the table's key columns.
        start: the latest start, ns.
        end: the latest end, ns.
    """

    key: tuple[int | None, ...]
    start: int | None
    end: int | None


class Survey:
    """Summaries of the event tables.

    Args:
        stream: reads the export.
        tables: the tables that it has.
    """

    def __init__(self, stream: Stream, tables: Collection[str]) -> None:
        self._stream = stream
        self._tables = tables
        self._groups: dict[str, list[Group]] = {}
        self._unended: pa.Table | None = None

    def watched(self, table: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Pass on all rows of a table; once they are through, its groups are known."""
        if table not in _KEYS or table in self._groups:
            yield from batches
            return
        latest: dict[tuple[int | None, ...], Group] = {}
        for batch in batches:
            for group in _groups(batch, _KEYS[table]):
                known = latest.get(group.key, group)
                latest[group.key] = Group(
                    group.key, _latest(known.start, group.start), _latest(known.end, group.end)
                )
            yield batch
        self._groups[table] = list(latest.values())

    def groups(self, table: str) -> list[Group]:
        """Return the groups of rows of an event table, none if it is absent.

        Raises:
            InputError: the file is damaged.
        """
        if table not in self._tables:
            return []
        if table not in self._groups:
            names = (*_KEYS[table], *(name for name in _TIMES if name in EVENTS[table]))
            columns = {name: EVENTS[table][name] for name in names}
            for _ in self.watched(table, self._stream(table, columns)):
                pass
        return self._groups[table]

    def unended(self) -> pa.Table:
        """Return the NVTX events without an end: marks, names, domains, ranges left open.

        Columns: eventType, start, row.

        Raises:
            InputError: the file is damaged.
        """
        if self._unended is None:
            columns = {name: EVENTS["NVTX_EVENTS"][name] for name in ("eventType", *_TIMES)}
            events = self._stream("NVTX_EVENTS", columns, without="end").read_all()
            kept = events.filter(events.column("end").is_null())
            self._unended = kept.drop_columns(["end"])
        return self._unended


def _groups(batch: pa.RecordBatch, keys: tuple[str, ...]) -> Iterator[Group]:
    """Group the rows of a batch."""
    rows = pl.DataFrame(batch)
    latest = [
        pl.col(name).max() if name in rows.columns else pl.lit(None).alias(name) for name in _TIMES
    ]
    # Not by pyarrow, which imports a whole query engine to group, a tenth of a second.
    for *key, start, end in rows.group_by(keys).agg(latest).iter_rows():
        yield Group(tuple(key), start, end)


def _latest(one: int | None, other: int | None) -> int | None:
    return max((time for time in (one, other) if time is not None), default=None)
