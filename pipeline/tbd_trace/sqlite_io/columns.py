"""Readers of one column of SQLite records, for rows of certain shapes.

What the shapes say is worked out when a reader is made. It then reads any number of blocks whose
rows have these shapes, and looks at nothing but rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tbd_trace.sqlite_io.arrow_numpy import arrow_array, in_a_row, validity
from tbd_trace.sqlite_io.cells import Block, Cells, Flags, Words, word_at
from tbd_trace.sqlite_io.pages import Bytes, Integers
from tbd_trace.sqlite_io.record_layouts import FIRST_BLOB, NULL, ONE, REAL, ZERO, Shapes, width

_WIDTHS = np.array([width(serial_type) for serial_type in range(10)])
# What is behind a number in the eight bytes from its first on.
_SURPLUS_BITS = 64 - 8 * np.maximum(_WIDTHS, 1)
_EXACT = 1 << 53  # Arrow takes no larger integers for floating-point numbers
_INLINE = 12  # bytes of text that Arrow's views hold themselves
_PREFIX = 4  # of them beside the length
_LAST_ASCII = 0x7F
_WINDOW = 32  # bytes of records that are copied to read several columns from


@dataclass(frozen=True, slots=True)
class WantedColumn:
    """A column to read.

    Attributes:
        ordinal: its number among the stored columns, None for the rowid.
        kind: the Arrow type: int64, float64, string or binary.
        is_real: whether SQLite gives its integers as floating-point numbers.
        has_default: whether it is something else than NULL where a record is too short.
    """

    ordinal: int | None
    kind: pa.DataType
    is_real: bool = False
    has_default: bool = False


class Rows:
    """The rows of a block, as the readers of columns see them.

    Args:
        cells: the rows.
        shapes: what is known of the table's records.

    Attributes:
        cells: the rows.
        numbers: the number of each row's shape.
        alone: which rows are to be read one by one, whatever the column.
        has_alone: whether there are such rows.
        present: the numbers that there are.
    """

    def __init__(self, cells: Cells, shapes: Shapes) -> None:
        self.cells = cells
        self.numbers, self.alone = shapes.numbers(cells)
        self.has_alone = bool(self.alone.any())
        self.present = np.flatnonzero(np.bincount(self.numbers))
        self._headers = shapes.headers

    def each(self, entry: Integers | np.int64) -> Integers | np.int64:
        """Return for each row what a table has for its shape; one for all is returned as it is."""
        return entry if isinstance(entry, np.int64) else entry[self.numbers]

    @cached_property
    def values(self) -> Bytes:
        """The first bytes of each row's values."""
        return self.cells.block.windows(self.cells.starts + self._headers[self.numbers], _WINDOW)

    @cached_property
    def ends(self) -> Bytes | None:
        """The last bytes of each row and a word, from no place before the block; else None."""
        cells = self.cells
        sizes = np.where(cells.spilled, 0, cells.sizes)  # those are read one by one
        first = cells.starts + sizes - (_WINDOW - 8)
        return None if (first < 0).any() else cells.block.windows(first, _WINDOW)


def is_integer(types: Integers) -> Flags:
    """Tell which serial types are those of integers or NULL."""
    usual: Flags = (types < FIRST_BLOB) & (types != REAL)
    return usual


def _shared(numbers: Integers) -> int | None:
    """Return the number that all of some are, None if they differ."""
    return int(numbers[0]) if (numbers == numbers[0]).all() else None


def _entry(table: Integers, kept: Integers) -> Integers | np.int64:
    """Return a table by shapes, or the entry that some of them share."""
    shared = _shared(table[kept])
    return table if shared is None else np.int64(shared)


class _Place:
    """Where the values of a column begin.

    They lie at the same place in most records of a block, counted from where all values begin or,
    behind a text, from where they end.

    Args:
        places: the places by shape, in bytes from the start of the record.
        kept: the shapes that have a value there; other rows give anything.
        shapes: what is known of the table's records.
    """

    def __init__(self, places: Integers, kept: Integers, shapes: Shapes) -> None:
        self._places = _entry(places, kept)
        self._at = _near(places[kept] - shapes.headers[kept])
        self._to_end = _near(shapes.sizes[kept] - places[kept])

    def of(self, rows: Rows) -> Integers:
        """Return the place of the value in each row."""
        return rows.cells.starts + rows.each(self._places)

    def words(self, rows: Rows, order: str = ">") -> Words:
        """Return the first eight bytes of the value in each row; see `Block.words`."""
        if self._at is not None:
            return word_at(rows.values, self._at, order)
        if self._to_end is not None and rows.ends is not None:
            return word_at(rows.ends, _WINDOW - 8 - self._to_end, order)
        return rows.cells.block.words(self.of(rows), order)


def _near(distances: Integers) -> int | None:
    """Return the distance that all of some are, if a window has a word there."""
    shared = _shared(distances)
    return shared if shared is not None and shared <= _WINDOW - 8 else None


class ColumnReader(ABC):
    """Reads one column of rows of some shapes.

    Args:
        column: the column.
        number: its number among the columns of the shapes.
        present: numbers of the shapes.
        shapes: what is known of the table's records.

    Attributes:
        odd: by shape, whether the value is of another type and left out; None if none is.
    """

    def __init__(
        self, column: WantedColumn, number: int, present: Integers, shapes: Shapes
    ) -> None:
        self.column = column
        self._types, self._places = shapes.types[:, number], shapes.places[:, number]
        self._present = present
        usual = self._is_usual(self._types)
        self.odd = None if usual[present].all() else ~usual
        self._is_empty = not self._types[present].any()
        if not self._is_empty:
            self._prepare(shapes)

    def read(self, rows: Rows) -> pa.Array:
        """Return the values; anything where a row is to be read one by one."""
        if self._is_empty:
            return pa.nulls(rows.numbers.size, self.column.kind)
        return self._read(rows)

    @classmethod
    @abstractmethod
    def _is_usual(cls, types: Integers) -> Flags:
        """Tell which serial types the reader reads."""

    @abstractmethod
    def _prepare(self, shapes: Shapes) -> None:
        """Work out what the shapes say."""

    @abstractmethod
    def _read(self, rows: Rows) -> pa.Array:
        """Return the values of a column that is not NULL throughout."""


class _Numbers(ColumnReader):
    """Reads numbers as SQLite stores them: integers, and the bits of floating-point numbers."""

    def _prepare(self, shapes: Shapes) -> None:
        here = self._present
        known = np.where(self._types < FIRST_BLOB, self._types, NULL)
        kept = here[_WIDTHS[known[here]] > 0]
        self._place = _Place(self._places, kept, shapes) if kept.size else None
        surplus = _SURPLUS_BITS[known]
        self._surplus = _entry(surplus, kept) if surplus[kept].any() else None
        is_fixed, is_null = (known == ZERO) | (known == ONE), known == NULL
        self._fixed = is_fixed if is_fixed[here].any() else None
        self._nulls = is_null if is_null[here].any() else None
        self._is_one = known == ONE

    def _values(self, rows: Rows) -> Integers:
        """Return the values, 0 where there is none."""
        if self._place is None:
            values = np.zeros(rows.numbers.size, np.int64)
        else:
            values = self._place.words(rows).view(np.int64)
            if self._surplus is not None:
                values >>= rows.each(self._surplus)
        if self._fixed is not None:
            fixed = np.flatnonzero(self._fixed[rows.numbers])
            values[fixed] = self._is_one[rows.numbers[fixed]]
        return values

    def _null_rows(self, rows: Rows) -> Flags | None:
        """Return which rows have no value, None for none."""
        return None if self._nulls is None else self._nulls[rows.numbers]


class _Integers(_Numbers):
    @classmethod
    def _is_usual(cls, types: Integers) -> Flags:
        return is_integer(types)

    def _read(self, rows: Rows) -> pa.Array:
        return arrow_array(self._values(rows), self._null_rows(rows))


class _Floats(_Numbers):
    @classmethod
    def _is_usual(cls, types: Integers) -> Flags:
        usual: Flags = types < FIRST_BLOB
        return usual

    def _prepare(self, shapes: Shapes) -> None:
        super()._prepare(shapes)
        is_whole = self._types != REAL
        self._whole = is_whole if is_whole[self._present].any() else None

    def _read(self, rows: Rows) -> pa.Array:
        values = self._values(rows)
        numbers = values.view(np.float64)
        if self._whole is None:
            return arrow_array(numbers, np.isnan(numbers))  # SQLite has no NaN
        is_whole = self._whole[rows.numbers]
        numbers = np.where(is_whole, values.astype(np.float64), numbers)
        nulls = np.isnan(numbers)
        if not self.column.is_real:
            nulls |= is_whole & ((values > _EXACT) | (values < -_EXACT))
        missing = self._null_rows(rows)
        return arrow_array(numbers, nulls if missing is None else nulls | missing)


class _Bytes(ColumnReader):
    """Reads blobs."""

    _PARITY = 0  # of the serial types

    @classmethod
    def _is_kept(cls, types: Integers) -> Flags:
        """Tell which serial types are those of blobs."""
        kept: Flags = (types >= FIRST_BLOB) & (types % 2 == cls._PARITY)
        return kept

    @classmethod
    def _is_usual(cls, types: Integers) -> Flags:
        usual: Flags = (types == NULL) | cls._is_kept(types)
        return usual

    def _prepare(self, shapes: Shapes) -> None:
        self._has_value = self._is_kept(self._types)
        kept = self._present[self._has_value[self._present]]
        self._place = _Place(self._places, kept, shapes) if kept.size else None
        self._lengths = np.where(self._has_value, (self._types - FIRST_BLOB) // 2, 0)

    def _read(self, rows: Rows) -> pa.Array:
        if self._place is None:
            return pa.nulls(rows.numbers.size, self.column.kind)
        lengths = self._lengths[rows.numbers]
        present = self._has_value[rows.numbers]
        places, first = self._place.of(rows), self._place.words(rows, "<")
        views = pa.py_buffer(_views(rows.cells.block, places, first, lengths))
        data = pa.py_buffer(rows.cells.block.data)
        buffers = [validity(present), views, data]
        return in_a_row(pa.Array.from_buffers(pa.binary_view(), lengths.size, buffers))


class _Texts(_Bytes):
    _PARITY = 1

    def _read(self, rows: Rows) -> pa.Array:
        found = super()._read(rows)
        return _as_texts(found) if found.type == pa.binary() else found


def _as_texts(found: pa.Array) -> pa.Array:
    """Return bytes as texts; what is no UTF-8 becomes U+FFFD."""
    texts = pa.Array.from_buffers(pa.string(), len(found), found.buffers())
    _, offsets, data = found.buffers()
    size = int(np.frombuffer(offsets, np.int32)[len(found)])
    # ASCII, nearly always: all bytes at once are looked at in a fraction of the time.
    if np.frombuffer(data, np.uint8, size).max(initial=0) <= _LAST_ASCII:
        return texts
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        decoded = (None if v is None else v.decode("utf-8", "replace") for v in found.to_pylist())
        return pa.array(decoded, pa.string())
    return texts


def _views(
    block: Block, places: Integers, first: Words, lengths: Integers
) -> npt.NDArray[np.uint64]:
    """Return what Arrow has for each value: its length, its first bytes, where the others are.

    Short values are there as a whole, with zeros behind them.
    """
    views = np.empty((lengths.size, 2), np.uint64)
    first &= _LETTERS[np.minimum(lengths, _PREFIX)]
    views[:, 0] = lengths.view(np.uint64) | first << np.uint64(32)
    views[:, 1] = places.view(np.uint64) << np.uint64(32)  # of the first buffer
    short = np.flatnonzero(lengths <= _INLINE)
    rest = block.words(places[short] + _PREFIX, order="<")
    views[short, 1] = rest & _LETTERS[np.maximum(lengths[short] - _PREFIX, 0)]
    return views


# By the number of bytes: a word that has those.
_LETTERS = np.array([(1 << 8 * n) - 1 for n in range(9)], np.uint64)

READERS: dict[pa.DataType, type[ColumnReader]] = {
    pa.int64(): _Integers,
    pa.float64(): _Floats,
    pa.string(): _Texts,
    pa.binary(): _Bytes,
}
