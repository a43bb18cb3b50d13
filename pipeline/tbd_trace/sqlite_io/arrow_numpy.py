"""Arrow arrays over the memory of NumPy arrays, and back.

``pyarrow.array`` and ``numpy.unique`` import ``numpy.ma``, ``Array.fill_null`` and ``Array.cast``
import ``pyarrow.compute``. Every command that reads a file would take a tenth of a second longer.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tbd_trace.sqlite_io.cells import Flags
from tbd_trace.sqlite_io.pages import Integers


def arrow_array(values: Integers | npt.NDArray[np.float64], nulls: Flags | None = None) -> pa.Array:
    """Return numbers as an Arrow array, which shares their memory.

    Args:
        values: the numbers.
        nulls: which of them are NULL; None for none.
    """
    present = None if nulls is None else validity(~nulls)
    kind = pa.from_numpy_dtype(values.dtype)
    data = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(kind, values.size, [present, data])


def validity(present: Flags) -> pa.Buffer | None:
    """Return the bitmap that tells Arrow which values are not NULL; None where all are present."""
    return None if present.all() else pa.py_buffer(np.packbits(present, bitorder="little"))


def in_a_row(views: pa.Array) -> pa.Array:
    """Return views of bytes as bytes that lie one after the other."""
    try:
        from pyarrow._compute import CastOptions, call_function  # noqa: PLC0415
    except ImportError:  # another pyarrow has it elsewhere
        return views.cast(pa.binary())
    return call_function("cast", [views], CastOptions(target_type=pa.binary()))


def numpy_integers(column: pa.Array) -> tuple[Integers, Flags | None]:
    """Return 64-bit integers with 0 for NULL, and which are NULL; None where none is."""
    present, data = column.buffers()
    rows = slice(column.offset, column.offset + len(column))
    if not column.null_count:
        return np.frombuffer(data, np.int64)[rows], None
    nulls = np.unpackbits(np.frombuffer(present, np.uint8), bitorder="little")[rows] == 0
    if data is None:
        return np.zeros(len(column), np.int64), nulls
    return np.where(nulls, 0, np.frombuffer(data, np.int64)[rows]), nulls


def distinct(numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Return the numbers that there are, in order, each once."""
    # Neighbours are often the same: far less to sort.
    return _once(np.sort(_once(numbers)))


def _once(numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Return numbers without those that are the same as the one before."""
    is_new = np.ones(numbers.size, np.bool_)
    np.not_equal(numbers[1:], numbers[:-1], out=is_new[1:])
    return numbers[is_new]
