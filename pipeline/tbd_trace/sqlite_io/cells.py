"""Cells of table leaf pages: each row's rowid and where its record lies, for many pages at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tbd_trace.sqlite_io.pages import LEAF, Bytes, Integers, LeftToSqlite, PageFile

Words = npt.NDArray[np.uint64]
Flags = npt.NDArray[np.bool_]

_CONTINUED = 0x80
_LONGEST_PAYLOAD = (1 << 31) - 1


class Block:
    """Bytes that can be read as words at any place.

    Attributes:
        data: the bytes.
    """

    def __init__(self, data: Bytes) -> None:
        self.data = data
        self._words = {
            order: np.ndarray((data.size - 7,), f"{order}u8", data, strides=(1,)) for order in "<>"
        }

    def words(self, places: Integers, order: str = ">") -> Words:
        """Return the 8 bytes at each place as a number, big-endian or little-endian (``<``)."""
        return self._words[order][places].astype(np.uint64, copy=False)

    def windows(self, places: Integers, width: int) -> Bytes:
        """Return some bytes from each place on, as a matrix with a row for each place.

        One copy of a row and several words of it (`word_at`) take a fraction of the time that each
        word takes that is fetched by itself (`words`).
        """
        shape = (self.data.size - width + 1,)
        windows = np.ndarray(shape, f"V{width}", self.data, strides=(1,))[places]
        return windows.view(np.uint8).reshape(places.size, width)

    def varints(self, places: Integers) -> tuple[Integers, Integers, Integers]:
        """Return the two variable-length integers at some places, and the places behind them.

        Raises:
            LeftToSqlite: one of the first takes nine bytes, as no size does.
        """
        windows = self.windows(places, 16)
        head, tail = word_at(windows, 0), word_at(windows, 8)
        first, lengths = self._varints(head, places)
        if (lengths > 8).any():
            raise LeftToSqlite("a record has no sensible size")
        bits = (8 * lengths).view(np.uint64)
        head <<= bits
        head |= tail >> (np.uint64(64) - bits)
        behind = places + lengths
        second, lengths = self._varints(head, behind)
        return first, second, behind + lengths

    def _varints(self, words: Words, places: Integers) -> tuple[Integers, Integers]:
        """Return the variable-length integers at the top of words, and their lengths.

        Args:
            words: the eight bytes at each place.
            places: the places; a ninth byte is read from there.
        """
        value = np.empty(places.size, np.int64)
        lengths = np.empty(places.size, np.int64)
        left = places.size
        for length in _likely_first(words):
            mask, pattern = _pattern(length)
            found = np.flatnonzero((words & mask) == pattern)
            if not found.size:
                continue
            left -= found.size
            rows = slice(None) if found.size == places.size else found
            value[rows] = _compact(words[rows], length).view(np.int64)
            lengths[rows] = length
            if not left:
                return value, lengths
        full = np.flatnonzero((words & np.uint64(_HIGH_BITS)) == np.uint64(_HIGH_BITS))
        last = self.data[places[full] + 8].astype(np.uint64)
        value[full] = (_compact(words[full], 8) << np.uint64(8) | last).view(np.int64)
        lengths[full] = 9
        return value, lengths


def word_at(windows: Bytes, at: int, order: str = ">") -> Words:
    """Return the 8 bytes at one place in each window as a number, as `Block.words` does."""
    return windows[:, at : at + 8].view(f"{order}u8")[:, 0].astype(np.uint64)


_HIGH_BITS = 0x8080808080808080


def _likely_first(word: Words) -> list[int]:
    """Return the lengths that varints at the top of words can have, that of the first one first."""
    ends = ~int(word[0]) & _HIGH_BITS if word.size else 0
    likely = 9 - (ends.bit_length() + 7) // 8 if ends else 1
    return [likely, *(length for length in range(1, 9) if length != likely)]


def _pattern(length: int) -> tuple[np.uint64, np.uint64]:
    """Return which bits tell that a varint at the top of a word has a length, and their values."""
    top = ((1 << 8 * length) - 1) << (64 - 8 * length)
    mask = _HIGH_BITS & top
    return np.uint64(mask), np.uint64(mask & ~(_CONTINUED << (64 - 8 * length)))


def _compact(word: Words, length: int) -> Words:
    """Join the seven low bits of each of the first bytes of words."""
    word = word >> np.uint64(64 - 8 * length)
    value = word & np.uint64(0x7F)
    for byte in range(1, length):
        value |= (word >> np.uint64(byte)) & np.uint64(0x7F << 7 * byte)
    return value


@dataclass(slots=True)
class Cells:
    """The rows of some leaf pages.

    Attributes:
        block: the pages.
        starts: place of each record in the block.
        sizes: bytes of each record.
        rowids: the rowids.
        spilled: whether a record goes on in overflow pages.
    """

    block: Block
    starts: Integers
    sizes: Integers
    rowids: Integers
    spilled: Flags

    def some(self, rows: Integers) -> Cells:
        """Return some of the rows."""
        return Cells(
            self.block, self.starts[rows], self.sizes[rows], self.rowids[rows], self.spilled[rows]
        )

    def record(self, file: PageFile, row: int) -> bytes:
        """Return the whole record of one row.

        Raises:
            LeftToSqlite: its overflow pages are damaged.
        """
        start, size = int(self.starts[row]), int(self.sizes[row])
        if not self.spilled[row]:
            return self.block.data[start : start + size].tobytes()
        local = start + int(_local_size(np.array([size]), file.usable)[0])
        if size > file.pages * file.usable:
            raise LeftToSqlite("a record is larger than the file")
        head = self.block.data[start : local + 4].tobytes()
        rest = file.chain(int.from_bytes(head[-4:], "big"), size - (local - start))
        return head[:-4] + rest


def _local_size(sizes: Integers, usable: int) -> Integers:
    """Return how many bytes of records that go on in overflow pages are in the leaf page."""
    least = (usable - 12) * 32 // 255 - 23
    wanted = least + (sizes - least) % (usable - 4)
    return np.where(wanted <= usable - 35, wanted, least)


def find_cells(file: PageFile, pages: Integers, *, is_only: bool) -> Cells:
    """Return the rows of some leaf pages.

    Args:
        file: the file.
        pages: their numbers.
        is_only: whether they are the whole table, which may then be empty.

    Raises:
        LeftToSqlite: a page is damaged.
    """
    data = file.read(pages)
    may_be_empty = is_only and pages.size == 1
    places, limits, _ = file.cells(data, pages.size, LEAF, may_be_empty=may_be_empty)
    block = Block(data)
    sizes, rowids, starts = block.varints(places)
    if sizes.size and (sizes.min() < 0 or sizes.max() > _LONGEST_PAYLOAD):
        raise LeftToSqlite("a record has no sensible size")
    if (rowids[1:] <= rowids[:-1]).any():
        raise LeftToSqlite("rows are not in order")
    spilled = sizes > file.usable - 35
    ends = starts + sizes
    if spilled.any():
        ends = np.where(spilled, starts + _local_size(sizes, file.usable) + 4, ends)
    if (ends > limits).any():
        raise LeftToSqlite("a record goes beyond its page")
    return Cells(block, starts, sizes, rowids, spilled)
