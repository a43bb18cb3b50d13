"""Columns of SQLite records as Arrow arrays, a block of rows at a time."""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tbd_trace.sqlite_io.arrow_numpy import arrow_array
from tbd_trace.sqlite_io.cells import Cells, Flags
from tbd_trace.sqlite_io.columns import READERS, ColumnReader, Rows, WantedColumn, is_integer
from tbd_trace.sqlite_io.pages import Integers, LeftToSqlite, PageFile
from tbd_trace.sqlite_io.record_layouts import FIRST_BLOB, NULL, REAL, Shapes, parse_header, width
from tbd_trace.sqlite_io.values import as_array

_MOST_ODD = 1000
_FIRST_TYPES = 7  # serial types in the first eight bytes of a header, behind its length
_LONG_TYPES = 0x8080808080808080
_INTEGERS = np.isin(np.arange(256), [1, 2, 3, 4, 5, 6, 8, 9])  # serial types


class Decoder:
    """Reads columns of a table; several threads may use it.

    Args:
        file: the file, for overflow pages.
        shapes: what is known of the table's records; the columns with an ordinal are its first.
        columns: the columns.
    """

    def __init__(self, file: PageFile, shapes: Shapes, columns: Sequence[WantedColumn]) -> None:
        self._file = file
        self._shapes = shapes
        self._columns = columns
        self._last: tuple[bytes | None, list[ColumnReader | None]] = (None, [])

    def decode(self, cells: Cells) -> list[pa.Array]:
        """Return the values of the columns in some rows.

        Raises:
            LeftToSqlite: a record is damaged, or too many rows need to be read one by one.
        """
        rows = Rows(cells, self._shapes)
        return [
            arrow_array(cells.rowids) if reader is None else self._read(rows, reader)
            for reader in self._readers(rows.present)
        ]

    def _readers(self, present: Integers) -> list[ColumnReader | None]:
        """Return readers of the columns, None for the rowid, for rows of some shapes.

        Blocks mostly have the shapes of the one before.
        """
        key = present.tobytes()
        known, readers = self._last
        if key != known:
            numbers = itertools.count()
            readers = [
                None
                if column.ordinal is None
                else READERS[column.kind](column, next(numbers), present, self._shapes)
                for column in self._columns
            ]
            self._last = key, readers
        return readers

    def _read(self, rows: Rows, reader: ColumnReader) -> pa.Array:
        array = reader.read(rows)
        if reader.odd is not None:
            return self._amended(rows, array, rows.alone | reader.odd[rows.numbers], reader.column)
        return self._amended(rows, array, rows.alone, reader.column) if rows.has_alone else array

    def _amended(self, rows: Rows, array: pa.Array, odd: Flags, column: WantedColumn) -> pa.Array:
        """Return an array with the values of odd rows, read one by one."""
        import pyarrow.compute as pc  # noqa: PLC0415 - slow to import, and few files have such rows

        values = [_value(rows.cells.record(self._file, row), column) for row in _few(odd)]
        return pc.replace_with_mask(array, pa.array(odd), as_array(values, column.kind))


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
    is_kept = ~((types != NULL) & is_integer(types))[numbers]
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
