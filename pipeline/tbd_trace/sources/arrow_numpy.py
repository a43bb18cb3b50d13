"""Arrow arrays over the memory of NumPy arrays, and back.

``pyarrow.array`` imports ``numpy.ma``, and ``Array.fill_null`` imports ``pyarrow.compute``. Every
command that reads a file would take a tenth of a second longer.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Flags = npt.NDArray[np.bool_]


def arrow_array(
    values: npt.NDArray[np.int64] | npt.NDArray[np.float64], nulls: Flags | None = None
) -> pa.Array:
    """Return numbers as an Arrow array, which shares their memory.

    Args:
        values: the numbers.
        nulls: which of them are NULL; None for none.
    """
    present = None
    if nulls is not None and nulls.any():
        present = pa.py_buffer(np.packbits(~nulls, bitorder="little"))
    kind = pa.from_numpy_dtype(values.dtype)
    data = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(kind, values.size, [present, data])


def numpy_integers(column: pa.Array) -> tuple[npt.NDArray[np.int64], Flags | None]:
    """Return 64-bit integers with 0 for NULL, and which are NULL; None where none is."""
    present, data = column.buffers()
    rows = slice(column.offset, column.offset + len(column))
    if not column.null_count:
        return np.frombuffer(data, np.int64)[rows], None
    nulls = np.unpackbits(np.frombuffer(present, np.uint8), bitorder="little")[rows] == 0
    if data is None:
        return np.zeros(len(column), np.int64), nulls
    return np.where(nulls, 0, np.frombuffer(data, np.int64)[rows]), nulls
