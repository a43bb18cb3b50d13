"""Read integer columns of Arrow batches as NumPy arrays."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

# Arrow's own functions for this (`fill_null`, `unique`) import pyarrow.compute, and `numpy.unique`
# imports numpy.ma: together 50 to 130 ms of start-up.


def numpy_integers(
    column: pa.Array,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_] | None]:
    """Return int64 values, 0 for NULL, and flags of the NULL ones; None if no value is NULL."""
    present, data = column.buffers()
    rows = slice(column.offset, column.offset + len(column))
    if not column.null_count:
        return np.frombuffer(data, np.int64)[rows], None
    nulls = np.unpackbits(np.frombuffer(present, np.uint8), bitorder="little")[rows] == 0
    # Arrow may omit the data buffer of a column with nothing but NULL.
    if data is None:
        return np.zeros(len(column), np.int64), nulls
    return np.where(nulls, 0, np.frombuffer(data, np.int64)[rows]), nulls


def distinct(numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Return the distinct numbers in ascending order."""
    # Neighbours are often equal: dropping repeats first leaves far less to sort.
    return _without_repeats(np.sort(_without_repeats(numbers)))


def _without_repeats(numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    is_new = np.ones(numbers.size, np.bool_)
    np.not_equal(numbers[1:], numbers[:-1], out=is_new[1:])
    return numbers[is_new]
