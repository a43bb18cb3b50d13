"""The contract between a file format and the store.

A *source* recognises one format by its content and opens files of it. The *reader* that it returns
hands over canonical tables (``queries/canonical``) as SQL over relations that it registers on a
DuckDB connection; it analyses nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self, runtime_checkable

import duckdb

from tbd_trace.model.row_range import RowRange

Ask = Callable[[str], list[tuple[Any, ...]]]
"""Runs a SELECT and returns its rows."""


@dataclass(slots=True)
class TraceDescription:
    """What a file says about itself, for the ``trace`` table."""

    tool: str  # value of ``trace.tool``, such as ``nsys``
    kind: str  # ``timeline``, ``metrics``, ``summary`` or ``memory`` (see table ``trace``)
    tool_version: str | None = None  # profiler version at capture time, None when unknown
    export_version: str | None = None  # version of the exporting tool, None when unknown
    schema_version: str | None = None  # version of the schema, None when unknown
    utc_start_ns: int | None = None  # UTC epoch nanoseconds of trace time 0, None when unknown
    # sentences that a user of the numbers should know
    notes: list[str] = field(default_factory=list)


class TraceReader(Protocol):
    """One open profiler file."""

    def describe(self, ask: Ask | None = None) -> TraceDescription:
        """Return the metadata of the file; called after the last ``relation``.

        Args:
            ask: runs a SELECT on the ingested canonical tables; None if not all were ingested,
                which omits notes on events.
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


@runtime_checkable
class SelectiveReader(TraceReader, Protocol):
    """A reader that reads a file faster if it knows which tables are wanted."""

    def select_tables(self, tables: Collection[str]) -> None:
        """Read only these canonical tables; called before the first ``relation``."""


@runtime_checkable
class FrameReader(TraceReader, Protocol):
    """A reader of a file that can have frames of Python: many, and left out by default."""

    def keep_python_frames(self) -> None:
        """Read them, too; called before the first ``relation``."""


@runtime_checkable
class FixedColumnsReader(TraceReader, Protocol):
    """A reader whose SELECTs have the same columns in every file, which are looked up once."""

    def column_types(
        self, connection: duckdb.DuckDBPyConnection, table: str
    ) -> Mapping[str, str] | None:
        """Return the columns of the SELECT of a canonical table; called after its ``relation``.

        Returns:
            DuckDB's types by name, None where they differ between files.
        """


class RangeReader(TraceReader, Protocol):
    """A reader of row ranges of canonical tables."""

    def select_range(self, row_range: RowRange) -> None:
        """Read only this range of each table from now on."""

    def collected(self) -> Any:
        """Return statistics of the range's rows, for :meth:`ParallelReader.merge`."""


@runtime_checkable
class ParallelReader(TraceReader, Protocol):
    """A reader of a file whose large tables can be read in row ranges, by several processes.

    The meaning of rows can depend on other rows. Ranges are read with expected values, and
    again where the expectation was wrong.
    """

    def parallel_rows(self, table: str) -> int:
        """Return an upper bound of the rows of a canonical table, 0 if it is indivisible."""

    def range_opener(self) -> Callable[[], RangeReader]:
        """Return a picklable function that opens a reader of ranges.

        If it fails, the whole table is read by ``relation``, which raises the error.
        """

    def merge(self, table: str, collected: Sequence[Any]) -> None:
        """Merge the statistics of all ranges of a canonical table.

        Raises:
            InputError: rows are missing; the file is damaged.
        """

    def stale(self, table: str) -> Sequence[int]:
        """Return the ranges to read again, after all tables were merged.

        Called once. Readers opened afterwards use the corrected metadata.
        """

    def questions(self, tables: Collection[str]) -> Sequence[str]:
        """Return queries of ``describe`` that some canonical tables can answer."""


class Source(Protocol):
    """One file format."""

    @property
    def format(self) -> str:
        """Name of the format: ``trace.format``."""

    def detect(self, path: Path, head: bytes) -> bool:
        """Return True if the content of ``path`` has this format; ``head`` is its first 64 KiB."""

    def open(self, path: Path) -> TraceReader:
        """Open a detected file.

        Raises:
            InputError: the file is damaged; the message names the action.
        """
