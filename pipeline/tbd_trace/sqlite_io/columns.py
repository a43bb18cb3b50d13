"""Base of the column readers, which decode one column of the records of a block.

A reader evaluates the record layouts once, when it is created, and then reads any number of blocks
whose rows have these layouts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from tbd_trace.sqlite_io.cells import Cells, Flags, Words, word_at
from tbd_trace.sqlite_io.pages import Bytes, Integers
from tbd_trace.sqlite_io.record_layouts import FIRST_BLOB, REAL, RecordLayouts

_WINDOW = 32  # bytes of each record that are copied to read several columns from


@dataclass(frozen=True, slots=True)
class WantedColumn:
    """Column to read."""

    ordinal: int | None  # position among the stored columns, None for the rowid
    kind: pa.DataType  # int64, float64, string or binary
    is_real: bool = False  # SQLite returns integers of this column as floating-point numbers
    has_default: bool = False  # the value is not NULL in records that lack the column


class Rows:
    """Rows of a block with their record layouts."""

    def __init__(self, cells: Cells, layouts: RecordLayouts) -> None:
        self.cells = cells
        # Layout number of each row, and flags of the rows to decode individually.
        self.numbers, self.individual = layouts.numbers(cells)
        self.has_individual = bool(self.individual.any())
        self.used_layouts = np.flatnonzero(np.bincount(self.numbers))
        self._headers = layouts.headers

    def per_row(self, entry: Integers | np.int64) -> Integers | np.int64:
        """Return the entry of each row's layout; a single number is returned unchanged."""
        return entry if isinstance(entry, np.int64) else entry[self.numbers]

    @cached_property
    def values(self) -> Bytes:
        return self.cells.block.windows(self.cells.starts + self._headers[self.numbers], _WINDOW)

    @cached_property
    def ends(self) -> Bytes | None:
        """Last bytes of each record and 8 bytes behind it; None if that begins before the block."""
        cells = self.cells
        sizes = np.where(cells.spilled, 0, cells.sizes)  # spilled records are decoded individually
        first = cells.starts + sizes - (_WINDOW - 8)
        return None if (first < 0).any() else cells.block.windows(first, _WINDOW)


def is_integer(types: Integers) -> Flags:
    """Return flags of the serial types that are an integer or NULL."""
    flags: Flags = (types < FIRST_BLOB) & (types != REAL)
    return flags


def shared_entry(by_layout: Integers, layouts: Integers) -> Integers | np.int64:
    """Return the entry that some layouts share, or else all entries."""
    shared = _shared(by_layout[layouts])
    return by_layout if shared is None else np.int64(shared)


def _shared(numbers: Integers) -> int | None:
    return int(numbers[0]) if (numbers == numbers[0]).all() else None


class ValueLocation:
    """Offsets of a column's values; arbitrary in rows whose layout is not among `used`."""

    # In most blocks the distance from the end of the header is the same in all rows or, for
    # columns behind a text, the distance from the end of the record. All columns that are so near
    # share one copy of the rows (`Rows.values`, `Rows.ends`).

    def __init__(self, offsets: Integers, used: Integers, layouts: RecordLayouts) -> None:
        self._offsets = shared_entry(offsets, used)
        self._from_header = _near(offsets[used] - layouts.headers[used])
        self._to_end = _near(layouts.sizes[used] - offsets[used])

    def in_block(self, rows: Rows) -> Integers:
        return rows.cells.starts + rows.per_row(self._offsets)

    def words(self, rows: Rows, order: str = ">") -> Words:
        """Return the first eight bytes of each row's value; see `Block.words`."""
        if self._from_header is not None:
            return word_at(rows.values, self._from_header, order)
        if self._to_end is not None and rows.ends is not None:
            return word_at(rows.ends, _WINDOW - 8 - self._to_end, order)
        return rows.cells.block.words(self.in_block(rows), order)


def _near(distances: Integers) -> int | None:
    shared = _shared(distances)
    return shared if shared is not None and shared <= _WINDOW - 8 else None


class ColumnReader(ABC):
    """Reader of one column in rows whose layouts are among `used`."""

    def __init__(
        self, column: WantedColumn, index: int, used: Integers, layouts: RecordLayouts
    ) -> None:
        self.column = column
        self._types, self._offsets = layouts.types[:, index], layouts.offsets[:, index]
        self._used = used
        # By layout: True if the value has another type. None if all values are of the type.
        supported = self._supports(self._types)
        self.mismatched = None if supported[used].all() else ~supported
        self._is_empty = not self._types[used].any()
        if not self._is_empty:
            self._prepare(layouts)

    def read(self, rows: Rows) -> pa.Array:
        """Return the values; those of mismatched and individual rows are arbitrary."""
        if self._is_empty:
            return pa.nulls(rows.numbers.size, self.column.kind)
        return self._read(rows)

    @classmethod
    @abstractmethod
    def _supports(cls, types: Integers) -> Flags: ...

    @abstractmethod
    def _prepare(self, layouts: RecordLayouts) -> None: ...

    @abstractmethod
    def _read(self, rows: Rows) -> pa.Array: ...
