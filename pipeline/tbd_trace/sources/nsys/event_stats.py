"""Collect statistics of event tables: processes, threads, event types, latest time.

They are collected while the rows are streamed to DuckDB; a table is read for its statistics only if
it has not been streamed yet.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tbd_trace.sources.nsys.columns import (
    API_CALLS,
    EVENTS,
    GPU_OPERATIONS,
    NVTX_DOMAIN,
    NVTX_RANGES,
    ROW,
    Columns,
)
from tbd_trace.sources.nsys.integer_columns import distinct, numpy_integers

Key = tuple[int | None, ...]
Unended = tuple[int, int]

_OPERATION = ("globalPid", "deviceId", "contextId")
# Key columns by table.
SURVEYED: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(GPU_OPERATIONS, _OPERATION),
    "CUDA_GPU_MEMORY_USAGE_EVENTS": _OPERATION,
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": ("globalPid", "contextId"),
    **dict.fromkeys(API_CALLS, ("eventClass", "globalTid")),
    "NVTX_EVENTS": ("eventType", "globalTid", "endGlobalTid"),
    "COMPOSITE_EVENTS": ("globalTid",),
}
_TIMES = ("start", "end")
# Factors of a hash of up to three columns: odd constants of xxHash and splitmix64. NULL hashes like
# a number that is not an id in any profile.
_FACTORS = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9], np.uint64)
_MIX = np.uint64(0xBF58476D1CE4E5B9)
_NULLS = _FACTORS * np.uint64(0xD1B54A32D192ED03)


class Stream(Protocol):
    """Function that streams columns of a table; absent columns are NULL."""

    def __call__(
        self, table: str, columns: Columns, *, not_integer: str | None = None
    ) -> pa.RecordBatchReader:
        """Return the rows; with `not_integer`, rows without an integer in that column."""


@dataclass(slots=True)
class EventStats:
    """Statistics of the rows of one table."""

    keys: set[Key] = field(default_factory=set)  # distinct values of the key columns
    latest: int | None = None  # latest start or end, ns
    rows: int = 0
    # Event type and rowid of open NVTX ranges and of events that create NVTX domains.
    unended: list[Unended] = field(default_factory=list)
    _hashes: set[int] = field(default_factory=set)

    def add(self, batch: pa.RecordBatch, keys: Sequence[str]) -> None:
        """Update the statistics with a batch of rows; `keys` are the key columns."""
        self.rows += batch.num_rows
        for name in _TIMES:
            if name in batch.schema.names:
                times, nulls = numpy_integers(batch.column(name))
                known = times if nulls is None else times[~nulls]
                self._note_time(int(known.max()) if known.size else None)
        columns = [batch.column(name) for name in keys]
        hashes = _row_hashes(columns)
        for number in set(distinct(hashes).tolist()) - self._hashes:
            self._hashes.add(number)
            row = int(np.argmax(hashes == np.uint64(number)))
            self.keys.add(tuple(column[row].as_py() for column in columns))
        if "eventType" in batch.schema.names:
            self.unended += _unended(batch)

    def join(self, other: EventStats) -> None:
        self.keys |= other.keys
        self.rows += other.rows
        self.unended += other.unended
        self._note_time(other.latest)

    def _note_time(self, time: int | None) -> None:
        if time is not None:
            self.latest = time if self.latest is None else max(time, self.latest)


def _unended(events: pa.RecordBatch) -> list[Unended]:
    _, has_no_end = numpy_integers(events.column("end"))
    if has_no_end is None:
        return []
    types, _ = numpy_integers(events.column("eventType"))
    rows, _ = numpy_integers(events.column(ROW))
    kept = has_no_end & np.isin(types, (*NVTX_RANGES, NVTX_DOMAIN))
    return list(zip(types[kept].tolist(), rows[kept].tolist(), strict=True))


def _row_hashes(columns: Sequence[pa.Array]) -> npt.NDArray[np.uint64]:
    # 64 bits for at most some hundred distinct keys: collisions are negligible.
    hashes = np.zeros(len(columns[0]), np.uint64)
    for column, factor, null in zip(columns, _FACTORS, _NULLS, strict=False):
        numbers, nulls = numpy_integers(column)
        part = numbers.view(np.uint64) * factor
        if nulls is not None:
            part[nulls] = null
        # A plain sum would lose differences of 2^63 in two columns: they stay 2^63 in products.
        hashes ^= part
        hashes ^= hashes >> np.uint64(29)
        hashes *= _MIX
    return hashes


class Survey:
    """Statistics of the event tables of an export.

    Args:
        stream: reads columns of a table.
    """

    def __init__(self, stream: Stream, tables: Collection[str]) -> None:
        self._stream = stream
        self._tables = tables
        self._stats: dict[str, EventStats] = {}
        self._unended: list[Unended] | None = None

    def collecting(self, table: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a table unchanged and store its statistics after the last one."""
        if table not in SURVEYED or table in self._stats:
            yield from batches
            return
        stats = EventStats()
        for batch in batches:
            stats.add(batch, SURVEYED[table])
            yield batch
        self._stats[table] = stats

    def collected(self) -> dict[str, EventStats]:
        """Return the statistics of the tables streamed so far, by table."""
        return dict(self._stats)

    def join(self, table: str, parts: Iterable[EventStats]) -> EventStats:
        """Store and return the statistics of a table from those of all its parts."""
        whole = EventStats()
        for part in parts:
            whole.join(part)
        self._stats[table] = whole
        return whole

    def stats(self, table: str) -> EventStats:
        """Return the statistics of an event table, reading it if it was not streamed.

        Raises:
            InputError: the file is damaged.
        """
        if table not in self._tables:
            return EventStats()
        if table not in self._stats:
            names = (*SURVEYED[table], *(name for name in _TIMES if name in EVENTS[table]))
            columns = {name: EVENTS[table][name] for name in names}
            for _ in self.collecting(table, self._stream(table, columns)):
                pass
        return self._stats[table]

    def unended(self) -> list[Unended]:
        """Return open NVTX ranges and domain creations as event type and rowid.

        Raises:
            InputError: the file is damaged.
        """
        if "NVTX_EVENTS" in self._stats:
            return self._stats["NVTX_EVENTS"].unended
        if self._unended is None:
            # Skips the many events with an end before their other columns are decoded.
            columns = {name: EVENTS["NVTX_EVENTS"][name] for name in ("eventType", "end")}
            events = self._stream("NVTX_EVENTS", columns, not_integer="end")
            self._unended = [event for batch in events for event in _unended(batch)]
        return self._unended
