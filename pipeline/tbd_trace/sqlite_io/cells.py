"""Find the cells (rowid and record) of many table leaf pages at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tbd_trace.sqlite_io.errors import UnsupportedLayout
from tbd_trace.sqlite_io.header import LONGEST_RECORD
from tbd_trace.sqlite_io.pages import LEAF, Bytes, Integers, PageFile

Words = npt.NDArray[np.uint64]
Flags = npt.NDArray[np.bool_]

_CONTINUED = 0x80  # high bit of a varint byte: another byte follows
_HIGH_BITS = 0x8080808080808080


class Block:
    """Byte buffer with unaligned reads at many offsets at once."""

    def __init__(self, data: Bytes) -> None:
        self.data = data
        # Stride 1 makes word i the eight bytes from offset i on.
        self._words = {
            order: np.ndarray((data.size - 7,), f"{order}u8", data, strides=(1,)) for order in "<>"
        }

    def words(self, offsets: Integers, order: str = ">") -> Words:
        """Return the 8 bytes at each offset as an integer, big-endian or little-endian (`<`)."""
        return self._words[order][offsets].astype(np.uint64, copy=False)

    def windows(self, offsets: Integers, width: int) -> Bytes:
        """Return a matrix with `width` bytes from each offset on.

        Faster than `words` if several words of a row are needed: copy once, then use `word_at`.
        """
        shape = (self.data.size - width + 1,)
        windows = np.ndarray(shape, f"V{width}", self.data, strides=(1,))[offsets]
        return windows.view(np.uint8).reshape(offsets.size, width)

    def varint_pairs(self, offsets: Integers) -> tuple[Integers, Integers, Integers]:
        """Return two consecutive varints at each offset, and the offsets behind them."""
        windows = self.windows(offsets, 16)
        head, tail = word_at(windows, 0), word_at(windows, 8)
        first, lengths = self._varints(head, offsets)
        if (lengths > 8).any():
            raise UnsupportedLayout("a record has an invalid size")
        # Shift the first varint out of the word, and bytes of the next word in.
        bits = (8 * lengths).view(np.uint64)
        head <<= bits
        head |= tail >> (np.uint64(64) - bits)
        behind = offsets + lengths
        second, lengths = self._varints(head, behind)
        return first, second, behind + lengths

    def _varints(self, words: Words, offsets: Integers) -> tuple[Integers, Integers]:
        # Returns the varint at the top of each word and its length in bytes.
        value = np.empty(offsets.size, np.int64)
        lengths = np.empty(offsets.size, np.int64)
        remaining = offsets.size
        for length in _lengths_by_likelihood(words):
            mask, pattern = _length_pattern(length)
            matching = np.flatnonzero((words & mask) == pattern)
            if not matching.size:
                continue
            remaining -= matching.size
            rows = slice(None) if matching.size == offsets.size else matching
            value[rows] = _join_low_bits(words[rows], length).view(np.int64)
            lengths[rows] = length
            if not remaining:
                return value, lengths
        # Nine-byte varints: the ninth byte, outside the word, counts with all its eight bits.
        full = np.flatnonzero((words & np.uint64(_HIGH_BITS)) == np.uint64(_HIGH_BITS))
        last = self.data[offsets[full] + 8].astype(np.uint64)
        value[full] = (_join_low_bits(words[full], 8) << np.uint64(8) | last).view(np.int64)
        lengths[full] = 9
        return value, lengths


def word_at(windows: Bytes, offset: int, order: str = ">") -> Words:
    """Return the 8 bytes at one offset of each window as an integer; see `Block.words`."""
    return windows[:, offset : offset + 8].view(f"{order}u8")[:, 0].astype(np.uint64)


def _lengths_by_likelihood(words: Words) -> list[int]:
    # Neighbouring rows mostly have varints of the same length: try that of the first row first.
    ends = ~int(words[0]) & _HIGH_BITS if words.size else 0
    likely = 9 - (ends.bit_length() + 7) // 8 if ends else 1
    return [likely, *(length for length in range(1, 9) if length != likely)]


def _length_pattern(length: int) -> tuple[np.uint64, np.uint64]:
    # A varint of this length at the top of a word has `mask` bits equal to the second value.
    top = ((1 << 8 * length) - 1) << (64 - 8 * length)
    mask = _HIGH_BITS & top
    return np.uint64(mask), np.uint64(mask & ~(_CONTINUED << (64 - 8 * length)))


def _join_low_bits(words: Words, length: int) -> Words:
    words = words >> np.uint64(64 - 8 * length)
    value = words & np.uint64(0x7F)
    for byte in range(1, length):
        value |= (words >> np.uint64(byte)) & np.uint64(0x7F << 7 * byte)
    return value


@dataclass(slots=True)
class Cells:
    """Rows of some leaf pages."""

    block: Block  # the pages
    starts: Integers  # offset of each record in the block
    sizes: Integers  # bytes of each record, including its overflow pages
    rowids: Integers
    spilled: Flags  # records that continue in overflow pages

    def take(self, rows: Integers) -> Cells:
        return Cells(
            self.block, self.starts[rows], self.sizes[rows], self.rowids[rows], self.spilled[rows]
        )

    def record(self, file: PageFile, row: int) -> bytes:
        """Return the whole record of a row, including its overflow pages."""
        start, size = int(self.starts[row]), int(self.sizes[row])
        if not self.spilled[row]:
            return self.block.data[start : start + size].tobytes()
        local_end = start + int(_local_sizes(np.array([size]), file.usable)[0])
        if size > file.pages * file.usable:
            raise UnsupportedLayout("a record is larger than the file")
        # The number of the first overflow page follows the local part of the record.
        head = self.block.data[start : local_end + 4].tobytes()
        rest = file.overflow(int.from_bytes(head[-4:], "big"), size - (local_end - start))
        return head[:-4] + rest


def _local_sizes(sizes: Integers, usable: int) -> Integers:
    # Bytes stored in the leaf page: K = M + (P-M) % (U-4) if K <= U-35, else M (section 1.6).
    least = (usable - 12) * 32 // 255 - 23
    wanted = least + (sizes - least) % (usable - 4)
    return np.where(wanted <= usable - 35, wanted, least)


def find_cells(file: PageFile, pages: Integers, *, is_only: bool) -> Cells:
    """Return the rows of some leaf pages.

    Args:
        is_only: the pages are the whole table, so a single page may be empty.
    """
    data = file.read(pages)
    may_be_empty = is_only and pages.size == 1
    offsets, limits, _ = file.cells(data, pages.size, LEAF, may_be_empty=may_be_empty)
    block = Block(data)
    sizes, rowids, starts = block.varint_pairs(offsets)
    if sizes.size and (sizes.min() < 0 or sizes.max() > LONGEST_RECORD):
        raise UnsupportedLayout("a record has an invalid size")
    if (rowids[1:] <= rowids[:-1]).any():
        raise UnsupportedLayout("rows are not in order")
    spilled = sizes > file.usable - 35  # the largest local payload (section 1.6)
    ends = starts + sizes
    if spilled.any():
        ends = np.where(spilled, starts + _local_sizes(sizes, file.usable) + 4, ends)
    if (ends > limits).any():
        raise UnsupportedLayout("a record goes beyond its page")
    return Cells(block, starts, sizes, rowids, spilled)
