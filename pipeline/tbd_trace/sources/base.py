"""The contract between a file format and the store.

A *source* recognises one format by its content and opens files of it. The *reader* that it returns
hands over canonical tables (``queries/canonical``) as SQL over relations that it registers on a
DuckDB connection; it analyses nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self, runtime_checkable

import duckdb

Ask = Callable[[str], list[tuple[Any, ...]]]
"""Runs a SELECT and returns its rows."""


@dataclass(slots=True)
class TraceDescription:
    """What a file says about itself, for the ``trace`` table.

    Attributes:
        tool: ``nsys``, ``nvprof`` or ``ncu``.
        kind: ``timeline``, ``metrics`` or ``summary`` (see table ``trace``).
        tool_version: profiler version at capture time, None when unknown.
        export_version: version of the exporting tool, None when unknown.
        schema_version: version of the schema, None when unknown.
        utc_start_ns: UTC epoch nanoseconds of trace time 0, None when unknown.
        notes: sentences that a user of the numbers should know.
    """

    tool: str
    kind: str
    tool_version: str | None = None
    export_version: str | None = None
    schema_version: str | None = None
    utc_start_ns: int | None = None
    notes: list[str] = field(default_factory=list)


class TraceReader(Protocol):
    """One open profiler file."""

    def describe(self, ask: Ask | None = None) -> TraceDescription:
        """Return what the file says about itself; called after the last ``relation``.

        Args:
            ask: answers a SELECT on the canonical tables, as they were read; None where not all
                were asked for, which leaves out the notes on the events.
        """

    def relation(self, connection: duckdb.DuckDBPyConnection, table: str) -> str | None:
        """Return a SELECT that yields the rows of one canonical table, or None if it lacks them.

        The SELECT names its columns as the canonical table does, in any order; columns that it
        leaves out become NULL, ``trace_id`` is added by the store. It may refer to relations that
        this call registers on ``connection``; streams (Arrow record batch readers) are consumed
        once, before the next call. ``connection`` is private to this ingest.

        Raises:
            InputError: the file is damaged.
        """

    def __enter__(self) -> Self:
        """Enter a ``with`` block that closes the file."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the file."""


@dataclass(frozen=True, slots=True)
class RowRange:
    """One of the parts that the rows of a table are cut into, in the order of the file.

    Later ones have fewer rows.

    Attributes:
        number: which of them, from 0.
        count: how many there are.
    """

    number: int
    count: int


class RangeReader(TraceReader, Protocol):
    """A reader of one part after the other of canonical tables."""

    def select_range(self, row_range: RowRange) -> None:
        """Read a part from now on, as if nothing had been read before."""

    def collected(self) -> Any:
        """Return what it has met in the part's rows, for the reader that it was asked of."""


@runtime_checkable
class ParallelReader(TraceReader, Protocol):
    """A reader of a file whose large tables may be read in parts, by several processes.

    What a part's rows mean can depend on other rows of the file. Parts are read as the reader
    expects those to be, and again where they turn out to be otherwise.
    """

    def parallel_rows(self, table: str) -> int:
        """Return how many rows are read for a canonical table, 0 if it cannot be in parts.

        The number may be too large.
        """

    def range_opener(self) -> Callable[[], RangeReader]:
        """Return what opens a reader of parts, in whichever process.

        It equals others that open the same. Where it raises an exception, or reading does, the
        whole table is to be read by ``relation``, which says what is wrong if anything is.
        """

    def merge(self, table: str, collected: Sequence[Any]) -> None:
        """Take what the readers of all parts of a canonical table have seen.

        Raises:
            InputError: they are not all the rows; the file is damaged.
        """

    def stale(self, table: str) -> Sequence[int]:
        """Return which parts are to be read again, as all tables have been noted now.

        It is asked once; what opens these parts from now on knows better.
        """

    def questions(self, tables: Collection[str]) -> Sequence[str]:
        """Return what ``describe`` will ask that some canonical tables can answer."""


class Source(Protocol):
    """One file format."""

    @property
    def format(self) -> str:
        """Name of the format, as ``trace.format`` has it."""

    def detect(self, path: Path, head: bytes) -> bool:
        """Tell from the content whether ``path`` is of this format.

        Args:
            path: the file.
            head: its first 64 KiB.
        """

    def open(self, path: Path) -> TraceReader:
        """Open a detected file.

        Raises:
            InputError: the file is damaged or of no use; the message says what to do.
        """
