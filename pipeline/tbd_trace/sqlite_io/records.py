"""Decode the columns of many records at once as Arrow arrays."""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tbd_trace.sqlite_io.arrow_numpy import arrow_array
from tbd_trace.sqlite_io.byte_columns import BlobReader, TextReader
from tbd_trace.sqlite_io.cells import Cells, Flags
from tbd_trace.sqlite_io.columns import ColumnReader, Rows, WantedColumn, is_integer
from tbd_trace.sqlite_io.errors import UnsupportedLayout
from tbd_trace.sqlite_io.number_columns import FloatReader, IntegerReader
from tbd_trace.sqlite_io.pages import Integers, PageFile
from tbd_trace.sqlite_io.record_layouts import (
    FIRST_BLOB,
    NULL,
    REAL,
    RecordLayouts,
    parse_header,
    width,
)
from tbd_trace.sqlite_io.values import as_array

_MOST_INDIVIDUAL = 1000  # rows of a batch, or an eighth of them; beyond that, SQLite reads them
_FIRST_TYPES = 7  # serial types in the first eight bytes of a header, behind its length
_HIGH_BITS = 0x8080808080808080
_INTEGERS = np.isin(np.arange(256), [1, 2, 3, 4, 5, 6, 8, 9])  # serial types
_READERS: dict[pa.DataType, type[ColumnReader]] = {
    pa.int64(): IntegerReader,
    pa.float64(): FloatReader,
    pa.string(): TextReader,
    pa.binary(): BlobReader,
}


class Decoder:
    """Decoder of some columns of a table; thread-safe.

    `layouts` begins with the columns that have an ordinal, in the same order.
    """

    def __init__(
        self, file: PageFile, layouts: RecordLayouts, columns: Sequence[WantedColumn]
    ) -> None:
        self._file = file
        self._layouts = layouts
        self._columns = columns
        self._last: tuple[bytes | None, list[ColumnReader | None]] = (None, [])

    def decode(self, cells: Cells) -> list[pa.Array]:
        rows = Rows(cells, self._layouts)
        return [
            arrow_array(cells.rowids) if reader is None else self._read(rows, reader)
            for reader in self._readers(rows.used_layouts)
        ]

    def _readers(self, used: Integers) -> list[ColumnReader | None]:
        # Consecutive blocks mostly have the same layouts: keep the last readers.
        key = used.tobytes()
        last_key, readers = self._last
        if key != last_key:
            index = itertools.count()
            readers = [
                None
                if column.ordinal is None
                else _READERS[column.kind](column, next(index), used, self._layouts)
                for column in self._columns
            ]
            self._last = key, readers
        return readers

    def _read(self, rows: Rows, reader: ColumnReader) -> pa.Array:
        array = reader.read(rows)
        if reader.mismatched is not None:
            flags = rows.individual | reader.mismatched[rows.numbers]
        elif rows.has_individual:
            flags = rows.individual
        else:
            return array
        return self._with_individual_values(rows, array, flags, reader.column)

    def _with_individual_values(
        self, rows: Rows, array: pa.Array, flags: Flags, column: WantedColumn
    ) -> pa.Array:
        import pyarrow.compute as pc  # noqa: PLC0415 - slow to import, and few files have such rows

        records = (rows.cells.record(self._file, row) for row in _individual_rows(flags))
        values = as_array([_value(record, column) for record in records], column.kind)
        return pc.replace_with_mask(array, pa.array(flags), values)


def without_integer(
    file: PageFile, cells: Cells, layouts: RecordLayouts, column: WantedColumn
) -> Cells:
    """Return the rows whose value in a column, the last one of `layouts`, is not an integer."""
    cells = cells.take(np.flatnonzero(~_certain_integers(cells, column.ordinal or 0)))
    numbers, individual = layouts.numbers(cells)
    types = layouts.types[:, -1]
    is_kept = ~((types != NULL) & is_integer(types))[numbers]
    for row in _individual_rows(individual):
        is_kept[row] = not isinstance(_value(cells.record(file, row), column), int)
    return cells.take(np.flatnonzero(is_kept))


def _certain_integers(cells: Cells, ordinal: int) -> Flags:
    # A quick filter on the first eight bytes: the length of the header and up to seven serial
    # types, provided that each of these takes one byte. Rows that it misses are decoded in full.
    if ordinal >= _FIRST_TYPES:
        return np.zeros(cells.starts.size, np.bool_)
    head = cells.block.words(cells.starts) >> np.uint64(8 * (_FIRST_TYPES - 1 - ordinal))
    is_short = head & np.uint64(_HIGH_BITS) == 0
    has_column = head >> np.uint64(8 * (ordinal + 1)) > np.uint64(ordinal + 1)
    serial_types = (head & np.uint64(0xFF)).astype(np.uint8)
    flags: Flags = is_short & has_column & _INTEGERS[serial_types]
    return flags


def _individual_rows(flags: Flags) -> list[int]:
    rows: list[int] = np.flatnonzero(flags).tolist()
    if len(rows) > max(_MOST_INDIVIDUAL, flags.size // 8):
        raise UnsupportedLayout("many values are large or not of the expected type")
    return rows


def _value(record: bytes, column: WantedColumn) -> Any:
    types, offsets, size = parse_header(record)
    if size != len(record):
        raise UnsupportedLayout("a record is not as long as its header says")
    ordinal = column.ordinal or 0
    # Records written before ALTER TABLE ADD COLUMN lack the new columns.
    if ordinal >= len(types) and column.has_default:
        raise UnsupportedLayout("a record lacks a column that has a default")
    if ordinal >= len(types):
        return None
    serial_type, offset = types[ordinal], offsets[ordinal]
    if serial_type >= FIRST_BLOB:
        raw = record[offset : offset + width(serial_type)]
        return raw.decode("utf-8", "replace") if serial_type % 2 else raw
    if serial_type == NULL:
        return None
    if serial_type == REAL:
        (number,) = struct.unpack_from(">d", record, offset)
        return None if math.isnan(number) else number
    if serial_type > REAL:
        integer = serial_type - REAL - 1
    else:
        raw = record[offset : offset + width(serial_type)]
        integer = int.from_bytes(raw, "big", signed=True)
    return float(integer) if column.is_real else integer
