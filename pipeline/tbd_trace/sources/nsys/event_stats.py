"""What the event tables of an Nsight Systems export hold as a whole.

Which threads or processes a table has, and which kinds of events, is found while its rows are
streamed for some other purpose. Only a table that has not been streamed yet is read for the survey.
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
SURVEYED: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(GPU_OPERATIONS, _OPERATION),
    "CUDA_GPU_MEMORY_USAGE_EVENTS": _OPERATION,
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": ("globalPid", "contextId"),
    **dict.fromkeys(API_CALLS, ("eventClass", "globalTid")),
    "NVTX_EVENTS": ("eventType", "globalTid", "endGlobalTid"),
    "COMPOSITE_EVENTS": ("globalTid",),
}
_TIMES = ("start", "end")
# By column: large odd numbers, and what a NULL counts as, which no value does that is met.
_FACTORS = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9], np.uint64)
_NULLS = _FACTORS * np.uint64(0xD1B54A32D192ED03)


class Stream(Protocol):
    """Reads columns of a table; a column or table that is absent is NULL or empty."""

    def __call__(
        self, table: str, columns: Columns, *, not_integer: str | None = None
    ) -> pa.RecordBatchReader:
        """Return the rows, or those without an integer in one column."""


@dataclass(slots=True)
class Seen:
    """What the rows of a table have been so far.

    Attributes:
        keys: the distinct values of the table's key columns, in their order.
        latest: the latest start or end, ns.
        rows: their number.
        unended: type and rowid of the NVTX ranges that were left open and of the events that
            create NVTX domains: those of the events without an end that tell about others.
    """

    keys: set[Key] = field(default_factory=set)
    latest: int | None = None
    rows: int = 0
    unended: list[Unended] = field(default_factory=list)
    _mixed: set[int] = field(default_factory=set)

    def add(self, batch: pa.RecordBatch, keys: Sequence[str]) -> None:
        """Look at some rows."""
        self.rows += batch.num_rows
        for name in _TIMES:
            if name in batch.schema.names:
                times, nulls = numpy_integers(batch.column(name))
                known = times if nulls is None else times[~nulls]
                self._note_time(int(known.max()) if known.size else None)
        columns = [batch.column(name) for name in keys]
        mixed = _mixed(columns)
        for number in set(distinct(mixed).tolist()) - self._mixed:
            self._mixed.add(number)
            row = int(np.argmax(mixed == np.uint64(number)))
            self.keys.add(tuple(column[row].as_py() for column in columns))
        if "eventType" in batch.schema.names:
            self.unended += _unended(batch)

    def join(self, other: Seen) -> None:
        """Take what somebody has seen of other rows of the table."""
        self.keys |= other.keys
        self.rows += other.rows
        self.unended += other.unended
        self._note_time(other.latest)

    def _note_time(self, time: int | None) -> None:
        if time is not None:
            self.latest = time if self.latest is None else max(time, self.latest)


def _unended(events: pa.RecordBatch) -> list[Unended]:
    """Return what `Seen` keeps of some NVTX events."""
    _, has_none = numpy_integers(events.column("end"))
    if has_none is None:
        return []
    types, _ = numpy_integers(events.column("eventType"))
    rows, _ = numpy_integers(events.column(ROW))
    kept = has_none & np.isin(types, (*NVTX_RANGES, NVTX_DOMAIN))
    return list(zip(types[kept].tolist(), rows[kept].tolist(), strict=True))


def _mixed(columns: Sequence[pa.Array]) -> npt.NDArray[np.uint64]:
    """Return a number per row that is the same where all columns are.

    Others are as good as never the same: the numbers have 64 bits, and tables hundreds of keys.
    """
    mixed = np.zeros(len(columns[0]), np.uint64)
    for column, factor, null in zip(columns, _FACTORS, _NULLS, strict=False):
        numbers, nulls = numpy_integers(column)
        part = numbers.view(np.uint64) * factor
        if nulls is not None:
            part[nulls] = null
        mixed += part
    return mixed


class Survey:
    """Summaries of the event tables.

    Args:
        stream: reads the export.
        tables: the tables that it has.
    """

    def __init__(self, stream: Stream, tables: Collection[str]) -> None:
        self._stream = stream
        self._tables = tables
        self._seen: dict[str, Seen] = {}
        self._unended: list[Unended] | None = None

    def watched(self, table: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Pass on all rows of a table; once they are through, it is known what they are."""
        if table not in SURVEYED or table in self._seen:
            yield from batches
            return
        seen = Seen()
        for batch in batches:
            seen.add(batch, SURVEYED[table])
            yield batch
        self._seen[table] = seen

    def seen_so_far(self) -> dict[str, Seen]:
        """Return what the rows of the tables are that have been streamed."""
        return dict(self._seen)

    def join(self, table: str, seen: Iterable[Seen]) -> Seen:
        """Take what was seen of all parts of a table, and return it as one."""
        whole = Seen()
        for part in seen:
            whole.join(part)
        self._seen[table] = whole
        return whole

    def seen(self, table: str) -> Seen:
        """Return what the rows of an event table are, nothing if it is absent.

        Raises:
            InputError: the file is damaged.
        """
        if table not in self._tables:
            return Seen()
        if table not in self._seen:
            names = (*SURVEYED[table], *(name for name in _TIMES if name in EVENTS[table]))
            columns = {name: EVENTS[table][name] for name in names}
            for _ in self.watched(table, self._stream(table, columns)):
                pass
        return self._seen[table]

    def unended(self) -> list[Unended]:
        """Return the NVTX events without an end that tell about others (see `Seen`).

        Raises:
            InputError: the file is damaged.
        """
        if "NVTX_EVENTS" in self._seen:
            return self._seen["NVTX_EVENTS"].unended
        if self._unended is None:
            columns = {name: EVENTS["NVTX_EVENTS"][name] for name in ("eventType", "end")}
            events = self._stream("NVTX_EVENTS", columns, not_integer="end")
            self._unended = [found for batch in events for found in _unended(batch)]
        return self._unended
