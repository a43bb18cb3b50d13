"""Build Arrow arrays that share the memory of NumPy arrays."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tbd_trace.sqlite_io.cells import Flags
from tbd_trace.sqlite_io.pages import Integers

# `pyarrow.array` imports numpy.ma, and `Array.cast` imports pyarrow.compute: together 50 to 130 ms
# of start-up, which every command that reads a file would pay.


def arrow_array(values: Integers | npt.NDArray[np.float64], nulls: Flags | None = None) -> pa.Array:
    """Return numbers as an Arrow array without copying; `nulls` flags the NULL ones."""
    present = None if nulls is None else validity(~nulls)
    data = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), values.size, [present, data])


def validity(present: Flags) -> pa.Buffer | None:
    """Return the validity bitmap of an Arrow array, None if all values are present."""
    return None if present.all() else pa.py_buffer(np.packbits(present, bitorder="little"))


def contiguous(views: pa.Array) -> pa.Array:
    """Return a `binary_view` array as a `binary` array, whose values are contiguous."""
    try:
        from pyarrow._compute import CastOptions, call_function  # noqa: PLC0415
    except ImportError:  # a private module: other versions of pyarrow may lack it
        return views.cast(pa.binary())
    return call_function("cast", [views], CastOptions(target_type=pa.binary()))
