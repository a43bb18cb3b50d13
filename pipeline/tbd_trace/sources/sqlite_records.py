"""Columns of SQLite records as Arrow arrays, a block of rows at a time."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tbd_trace.sources.arrow_numpy import arrow_array, in_a_row, validity
from tbd_trace.sources.sqlite_cells import Block, Cells, Flags, Words, word_at
from tbd_trace.sources.sqlite_pages import Bytes, Integers, LeftToSqlite, PageFile
from tbd_trace.sources.sqlite_shapes import (
    FIRST_BLOB,
    NULL,
    ONE,
    REAL,
    ZERO,
    Shapes,
    parse_header,
    width,
)
from tbd_trace.sources.sqlite_values import as_array

_WIDTHS = np.array([width(serial_type) for serial_type in range(10)])
# What is behind a number in the eight bytes from its first on.
_SURPLUS_BITS = 64 - 8 * np.maximum(_WIDTHS, 1)
_EXACT = 1 << 53  # Arrow takes no larger integers for floating-point numbers
_INLINE = 12  # bytes of text that Arrow's views hold themselves
_PREFIX = 4  # of them beside the length
_LAST_ASCII = 0x7F
_MOST_ODD = 1000
_WINDOW = 64  # bytes of records that are copied to read several columns from
_FIRST_TYPES = 7  # serial types in the first eight bytes of a header, behind its length
_LONG_TYPES = 0x8080808080808080
_INTEGERS = np.isin(np.arange(256), [1, 2, 3, 4, 5, 6, 8, 9])  # serial types


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


class _Rows:
    """The rows of a block, as the readers of columns see them.

    Args:
        file: the file, for overflow pages.
        cells: the rows.
        shapes: what is known of the table's records.

    Attributes:
        numbers: the number of each row's shape.
        present: the numbers that there are.
        alone: which rows are to be read one by one.
    """

    def __init__(self, file: PageFile, cells: Cells, shapes: Shapes) -> None:
        self.file = file
        self.cells = cells
        self.numbers, self.alone = shapes.numbers(cells)
        self.present = np.flatnonzero(np.bincount(self.numbers))
        self._headers = shapes.headers
        self._sizes = shapes.sizes

    def words(self, stored: _Stored, kept: Integers, order: str = ">") -> Words:
        """Return the first eight bytes of a column in each row.

        Columns lie at the same place in most records of a block, counted from where the values
        begin or, behind a text, from where they end.

        Args:
            stored: the column.
            kept: the numbers of the shapes that have a value there; other rows have anything.
            order: as `Block.words` takes it.
        """
        places = stored.places[kept]
        at = _shared(places - self._headers[kept])
        if at is not None and at <= _WINDOW - 8:
            return word_at(self._values, at, order)
        to_end = _shared(self._sizes[kept] - places)
        if to_end is not None and to_end <= _WINDOW - 8 and self._ends is not None:
            return word_at(self._ends, _WINDOW - 8 - to_end, order)
        return self.cells.block.words(self.places(stored, kept), order)

    def places(self, stored: _Stored, kept: Integers) -> Integers:
        """Return the place of a column in each row; `kept` as in `words`."""
        return self.cells.starts + self.each(stored.places, kept)

    @cached_property
    def _values(self) -> Bytes:
        """The first bytes of each row's values."""
        return self.cells.block.windows(self.cells.starts + self._headers[self.numbers], _WINDOW)

    @cached_property
    def _ends(self) -> Bytes | None:
        """The last bytes of each row and a word, from no place before the block; else None."""
        cells = self.cells
        sizes = np.where(cells.spilled, 0, cells.sizes)  # those are read one by one
        first = cells.starts + sizes - (_WINDOW - 8)
        return None if (first < 0).any() else cells.block.windows(first, _WINDOW)

    def each(self, table: Integers, kept: Integers) -> Integers | np.int64:
        """Return the entry of each row's shape, or the one that all shapes in `kept` share."""
        shared = _shared(table[kept])
        return table[self.numbers] if shared is None else np.int64(shared)


def _shared(numbers: Integers) -> int | None:
    """Return the number that all of some are, None if they differ."""
    return int(numbers[0]) if (numbers == numbers[0]).all() else None


@dataclass(slots=True)
class _Stored:
    """One column of a block: serial types and places by the number of a record's shape."""

    types: Integers
    places: Integers


def decode(
    file: PageFile, cells: Cells, shapes: Shapes, columns: Sequence[WantedColumn]
) -> list[pa.Array]:
    """Return the values of the columns.

    Args:
        file: the file, for overflow pages.
        cells: the rows.
        shapes: what is known of the table's records; its columns are those with an ordinal.
        columns: the columns.

    Raises:
        LeftToSqlite: a record is damaged, or too many rows need to be read one by one.
    """
    rows = _Rows(file, cells, shapes)
    stored = iter(zip(shapes.types.T, shapes.places.T, strict=True))
    arrays = []
    for column in columns:
        if column.ordinal is None:
            arrays.append(arrow_array(cells.rowids))
            continue
        arrays.append(_column(rows, _Stored(*next(stored)), column))
    return arrays


def without_integer(file: PageFile, cells: Cells, shapes: Shapes, column: WantedColumn) -> Cells:
    """Return the rows that have no integer in a column.

    Args:
        file: the file, for overflow pages.
        cells: the rows.
        shapes: what is known of the table's records.
        column: the last of its columns.

    Raises:
        LeftToSqlite: a record is damaged, or too many rows need to be read one by one.
    """
    cells = cells.some(np.flatnonzero(~_surely_integer(cells, column.ordinal or 0)))
    numbers, alone = shapes.numbers(cells)
    types = shapes.types[:, -1]
    is_kept = ~((types != NULL) & _is_integer(types))[numbers]
    for row in _few(alone):
        is_kept[row] = not isinstance(_value(cells.record(file, row), column), int)
    return cells.some(np.flatnonzero(is_kept))


def _surely_integer(cells: Cells, ordinal: int) -> Flags:
    """Tell which rows have an integer in a column, as far as the first bytes tell.

    They are the header's length and the first serial types, where all those take one byte.
    """
    if ordinal >= _FIRST_TYPES:
        return np.zeros(cells.starts.size, np.bool_)
    head = cells.block.words(cells.starts) >> np.uint64(8 * (_FIRST_TYPES - 1 - ordinal))
    is_short = head & np.uint64(_LONG_TYPES) == 0
    reaches = head >> np.uint64(8 * (ordinal + 1)) > np.uint64(ordinal + 1)
    surely: Flags = is_short & reaches & _INTEGERS[(head & np.uint64(0xFF)).astype(np.uint8)]
    return surely


def _column(rows: _Rows, stored: _Stored, column: WantedColumn) -> pa.Array:
    types = stored.types[rows.present]
    odd = rows.alone
    if not types.any():
        array = pa.nulls(rows.numbers.size, column.kind)
    else:
        read, is_usual = _READERS[column.kind]
        if not is_usual(types).all():
            odd = odd | ~is_usual(stored.types)[rows.numbers]
        array = read(rows, stored, column)
    return _amended(rows, array, odd, column) if odd.any() else array


def _amended(rows: _Rows, array: pa.Array, odd: Flags, column: WantedColumn) -> pa.Array:
    """Return an array with the values of odd rows, read one by one."""
    import pyarrow.compute as pc  # noqa: PLC0415 - slow to import, and few files have such rows

    values = [_value(rows.cells.record(rows.file, row), column) for row in _few(odd)]
    return pc.replace_with_mask(array, pa.array(odd), as_array(values, column.kind))


def _few(odd: Flags) -> list[int]:
    """Return the numbers of the rows that are read one by one."""
    found: list[int] = np.flatnonzero(odd).tolist()
    if len(found) > max(_MOST_ODD, odd.size // 8):
        raise LeftToSqlite("many values are not of the expected type, or large")
    return found


def _value(record: bytes, column: WantedColumn) -> Any:
    """Return one value of a record as SQLite does."""
    types, places, size = parse_header(record)
    if size != len(record):
        raise LeftToSqlite("a record is not as long as its header says")
    ordinal = column.ordinal or 0
    if ordinal >= len(types) and column.has_default:
        raise LeftToSqlite("a record lacks a column that has a default")
    if ordinal >= len(types):
        return None
    serial_type, place = types[ordinal], places[ordinal]
    if serial_type >= FIRST_BLOB:
        raw = record[place : place + width(serial_type)]
        return raw.decode("utf-8", "replace") if serial_type % 2 else raw
    if serial_type == NULL:
        return None
    if serial_type == REAL:
        (number,) = struct.unpack_from(">d", record, place)
        return None if math.isnan(number) else number
    if serial_type > REAL:
        integer = serial_type - REAL - 1
    else:
        raw = record[place : place + width(serial_type)]
        integer = int.from_bytes(raw, "big", signed=True)
    return float(integer) if column.is_real else integer


def _integers(rows: _Rows, stored: _Stored) -> tuple[Integers, Flags]:
    """Return integers, also the bits of floating-point numbers, and where there are none."""
    known = np.where(stored.types < FIRST_BLOB, stored.types, NULL)
    widths = _WIDTHS[known]
    here = rows.present
    count = rows.numbers.size
    kept = here[widths[here] > 0]
    if kept.size:
        values = rows.words(stored, kept).view(np.int64)
        values >>= rows.each(_SURPLUS_BITS[known], kept)
    else:
        values = np.zeros(count, np.int64)
    constant = (known == ZERO) | (known == ONE)
    if constant[here].any():
        fixed = np.flatnonzero(constant[rows.numbers])
        values[fixed] = (known == ONE)[rows.numbers[fixed]]
    empty = known == NULL
    nulls = empty[rows.numbers] if empty[here].any() else np.zeros(count, np.bool_)
    return values, nulls


def _read_integers(rows: _Rows, stored: _Stored, column: WantedColumn) -> pa.Array:
    values, nulls = _integers(rows, stored)
    return arrow_array(values, nulls)


def _read_floats(rows: _Rows, stored: _Stored, column: WantedColumn) -> pa.Array:
    values, nulls = _integers(rows, stored)
    bits = values.view(np.float64)
    is_float = stored.types == REAL
    if is_float[rows.present].all():
        numbers = bits
    else:
        numbers = np.where(is_float[rows.numbers], bits, values.astype(np.float64))
        if not column.is_real:
            large = (values > _EXACT) | (values < -_EXACT)
            nulls |= large & ~is_float[rows.numbers]
    nulls |= np.isnan(numbers)  # SQLite has no NaN
    return arrow_array(numbers, nulls)


def _read_bytes(rows: _Rows, stored: _Stored, column: WantedColumn) -> pa.Array:
    """Return texts or blobs."""
    parity = 0 if column.kind == pa.binary() else 1
    is_kept = (stored.types >= FIRST_BLOB) & (stored.types % 2 == parity)
    kept = rows.present[is_kept[rows.present]]
    if not kept.size:
        return pa.nulls(rows.numbers.size, column.kind)
    lengths = np.where(is_kept, (stored.types - FIRST_BLOB) // 2, 0)[rows.numbers]
    present = is_kept[rows.numbers]
    places, first = rows.places(stored, kept), rows.words(stored, kept, "<")
    views = pa.py_buffer(_views(rows.cells.block, places, first, lengths))
    data = pa.py_buffer(rows.cells.block.data)
    buffers = [validity(present), views, data]
    found = in_a_row(pa.Array.from_buffers(pa.binary_view(), lengths.size, buffers))
    return found if column.kind == pa.binary() else _as_texts(found)


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


def _is_integer(types: Integers) -> Flags:
    usual: Flags = (types < FIRST_BLOB) & (types != REAL)
    return usual


def _is_number(types: Integers) -> Flags:
    usual: Flags = types < FIRST_BLOB
    return usual


def _is_text(types: Integers) -> Flags:
    usual: Flags = (types == NULL) | (types >= FIRST_BLOB) & (types % 2 == 1)
    return usual


def _is_blob(types: Integers) -> Flags:
    usual: Flags = (types == NULL) | (types >= FIRST_BLOB) & (types % 2 == 0)
    return usual


_Reader = Callable[[_Rows, _Stored, WantedColumn], pa.Array]
_READERS: dict[pa.DataType, tuple[_Reader, Callable[[Integers], Flags]]] = {
    pa.int64(): (_read_integers, _is_integer),
    pa.float64(): (_read_floats, _is_number),
    pa.string(): (_read_bytes, _is_text),
    pa.binary(): (_read_bytes, _is_blob),
}
