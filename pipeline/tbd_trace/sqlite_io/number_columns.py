"""Column readers of integers and floating-point numbers."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tbd_trace.sqlite_io.arrow_numpy import arrow_array
from tbd_trace.sqlite_io.cells import Flags
from tbd_trace.sqlite_io.columns import (
    ColumnReader,
    Rows,
    ValueLocation,
    is_integer,
    shared_entry,
)
from tbd_trace.sqlite_io.pages import Integers
from tbd_trace.sqlite_io.record_layouts import (
    FIRST_BLOB,
    NULL,
    ONE,
    REAL,
    ZERO,
    RecordLayouts,
    width,
)

_WIDTHS = np.array([width(serial_type) for serial_type in range(10)])
# Numbers are read as eight bytes from their first byte on; the bits behind them are shifted out,
# which also extends the sign.
_SURPLUS_BITS = 64 - 8 * np.maximum(_WIDTHS, 1)
_EXACT = 1 << 53  # pyarrow converts no larger integers to float64


class _Numbers(ColumnReader):
    def _prepare(self, layouts: RecordLayouts) -> None:
        used = self._used
        known = np.where(self._types < FIRST_BLOB, self._types, NULL)
        stored = used[_WIDTHS[known[used]] > 0]
        self._location = ValueLocation(self._offsets, stored, layouts) if stored.size else None
        surplus = _SURPLUS_BITS[known]
        self._surplus = shared_entry(surplus, stored) if surplus[stored].any() else None
        is_constant, is_null = (known == ZERO) | (known == ONE), known == NULL
        self._constant = is_constant if is_constant[used].any() else None
        self._nulls = is_null if is_null[used].any() else None
        self._is_one = known == ONE

    def _values(self, rows: Rows) -> Integers:
        if self._location is None:
            values = np.zeros(rows.numbers.size, np.int64)
        else:
            values = self._location.words(rows).view(np.int64)
            if self._surplus is not None:
                values >>= rows.per_row(self._surplus)
        # The serial types ZERO and ONE have no bytes.
        if self._constant is not None:
            constant = np.flatnonzero(self._constant[rows.numbers])
            values[constant] = self._is_one[rows.numbers[constant]]
        return values

    def _null_rows(self, rows: Rows) -> Flags | None:
        return None if self._nulls is None else self._nulls[rows.numbers]


class IntegerReader(_Numbers):
    """Reads integers as int64."""

    @classmethod
    def _supports(cls, types: Integers) -> Flags:
        return is_integer(types)

    def _read(self, rows: Rows) -> pa.Array:
        return arrow_array(self._values(rows), self._null_rows(rows))


class FloatReader(_Numbers):
    """Reads floating-point numbers and integers as float64."""

    @classmethod
    def _supports(cls, types: Integers) -> Flags:
        flags: Flags = types < FIRST_BLOB
        return flags

    def _prepare(self, layouts: RecordLayouts) -> None:
        super()._prepare(layouts)
        is_whole = self._types != REAL
        self._whole = is_whole if is_whole[self._used].any() else None

    def _read(self, rows: Rows) -> pa.Array:
        values = self._values(rows)
        numbers = values.view(np.float64)
        if self._whole is None:
            return arrow_array(numbers, np.isnan(numbers))  # SQLite returns NaN as NULL
        # REAL columns store whole numbers as integers to save space
        # (https://www.sqlite.org/datatype3.html, section 3).
        is_whole = self._whole[rows.numbers]
        numbers = np.where(is_whole, values.astype(np.float64), numbers)
        nulls = np.isnan(numbers)
        if not self.column.is_real:
            nulls |= is_whole & ((values > _EXACT) | (values < -_EXACT))
        null_rows = self._null_rows(rows)
        return arrow_array(numbers, nulls if null_rows is None else nulls | null_rows)
