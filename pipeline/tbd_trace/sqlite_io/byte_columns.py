"""Column readers of blobs and texts."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tbd_trace.sqlite_io.arrow_numpy import contiguous, validity
from tbd_trace.sqlite_io.cells import Block, Flags, Words
from tbd_trace.sqlite_io.columns import ColumnReader, Rows, ValueLocation
from tbd_trace.sqlite_io.pages import Integers
from tbd_trace.sqlite_io.record_layouts import FIRST_BLOB, NULL, RecordLayouts

# Layout of Arrow's binary views: https://arrow.apache.org/docs/format/Columnar.html
_INLINE = 12  # longest value, in bytes, that a view contains as a whole
_PREFIX = 4  # bytes of longer values beside the length
_LAST_ASCII = 0x7F
_LOW_BYTES = np.array([(1 << 8 * n) - 1 for n in range(9)], np.uint64)  # mask of the n lowest bytes


class BlobReader(ColumnReader):
    """Reads blobs."""

    _PARITY = 0  # of the serial types: blobs are even, texts odd

    @classmethod
    def _has_bytes(cls, types: Integers) -> Flags:
        flags: Flags = (types >= FIRST_BLOB) & (types % 2 == cls._PARITY)
        return flags

    @classmethod
    def _supports(cls, types: Integers) -> Flags:
        flags: Flags = (types == NULL) | cls._has_bytes(types)
        return flags

    def _prepare(self, layouts: RecordLayouts) -> None:
        self._has_value = self._has_bytes(self._types)
        stored = self._used[self._has_value[self._used]]
        self._location = ValueLocation(self._offsets, stored, layouts) if stored.size else None
        self._lengths = np.where(self._has_value, (self._types - FIRST_BLOB) // 2, 0)

    def _read(self, rows: Rows) -> pa.Array:
        if self._location is None:
            return pa.nulls(rows.numbers.size, self.column.kind)
        # The views point into the pages; Arrow then copies all values in one call.
        lengths = self._lengths[rows.numbers]
        present = self._has_value[rows.numbers]
        offsets, first = self._location.in_block(rows), self._location.words(rows, "<")
        views = pa.py_buffer(_views(rows.cells.block, offsets, first, lengths))
        data = pa.py_buffer(rows.cells.block.data)
        buffers = [validity(present), views, data]
        return contiguous(pa.Array.from_buffers(pa.binary_view(), lengths.size, buffers))


class TextReader(BlobReader):
    """Reads UTF-8 texts; invalid sequences become U+FFFD."""

    _PARITY = 1

    def _read(self, rows: Rows) -> pa.Array:
        values = super()._read(rows)
        return _as_texts(values) if values.type == pa.binary() else values


def _as_texts(values: pa.Array) -> pa.Array:
    texts = pa.Array.from_buffers(pa.string(), len(values), values.buffers())
    _, offsets, data = values.buffers()
    size = int(np.frombuffer(offsets, np.int32)[len(values)])
    # Texts of profiles are nearly always ASCII, which one pass over all bytes confirms.
    if np.frombuffer(data, np.uint8, size).max(initial=0) <= _LAST_ASCII:
        return texts
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        decoded = (None if v is None else v.decode("utf-8", "replace") for v in values.to_pylist())
        return pa.array(decoded, pa.string())
    return texts


def _views(
    block: Block, offsets: Integers, first: Words, lengths: Integers
) -> npt.NDArray[np.uint64]:
    views = np.empty((lengths.size, 2), np.uint64)
    first &= _LOW_BYTES[np.minimum(lengths, _PREFIX)]
    views[:, 0] = lengths.view(np.uint64) | first << np.uint64(32)
    views[:, 1] = offsets.view(np.uint64) << np.uint64(32)  # buffer 0 in the low half
    # Short values are inline, padded with zeros.
    short = np.flatnonzero(lengths <= _INLINE)
    rest = block.words(offsets[short] + _PREFIX, order="<")
    views[short, 1] = rest & _LOW_BYTES[np.maximum(lengths[short] - _PREFIX, 0)]
    return views
