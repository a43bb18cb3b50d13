"""Parse record headers: the type and offset of each column in a record.

The rows of a table share few distinct headers. Each is parsed once and gets a number; one number
per row then describes a block of rows.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np

from tbd_trace.sqlite_io.cells import Block, Cells, Flags, Words, word_at
from tbd_trace.sqlite_io.errors import UnsupportedLayout
from tbd_trace.sqlite_io.pages import Integers

# Serial types (https://www.sqlite.org/fileformat2.html, section 2.1): 1 to 6 are integers, ZERO and
# ONE integers without bytes, even numbers from FIRST_BLOB on blobs, odd ones texts.
NULL, REAL, ZERO, ONE, FIRST_BLOB, FIRST_TEXT = 0, 7, 8, 9, 12, 13
_WIDTHS = (0, 1, 2, 3, 4, 6, 8, 8, 0, 0)  # bytes of the serial types 0 to 9
_LONGEST_HEADER = 127  # bytes: longer headers have a length of two bytes
_MOST_WORDS = 16  # of 8 bytes in such a header
_SLOT_BITS = 18
_FIRST_CAPACITY = 256
_MOST_LAYOUTS = 1 << 16
_PARSED_AT_ONCE = 512
_SIZE_CAP = 1 << 40  # above any valid size; damaged headers can claim more than int64 holds
_MIX = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio: Fibonacci hashing


def width(serial_type: int) -> int:
    """Return the number of bytes of a value."""
    if serial_type in (10, 11):
        raise UnsupportedLayout("a serial type is reserved")
    return _WIDTHS[serial_type] if serial_type < 10 else (serial_type - 12) // 2


def parse_header(record: bytes) -> tuple[list[int], list[int], int]:
    """Return serial types and offsets of a record's values, and the size of the record."""
    length, at = _varint(record, 0)
    types, offsets, offset = [], [], length
    while at < length:
        serial_type, at = _varint(record, at)
        types.append(serial_type)
        offsets.append(offset)
        offset += width(serial_type)
    if at != length:
        raise UnsupportedLayout("the header of a record is damaged")
    return types, offsets, offset


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for count, byte in enumerate(data[at : at + 8]):
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at + count + 1
    raise UnsupportedLayout("the header of a record is damaged")


class RecordLayouts:
    """Distinct record headers of one table, by number; thread-safe.

    Args:
        ordinals: positions of the wanted columns among the stored ones.
        required: positions of the columns that every record must contain.
    """

    # Number 0 stands for rows whose values are decoded individually; all its entries are zero.

    def __init__(self, ordinals: Sequence[int], required: Sequence[int]) -> None:
        self._ordinals = list(ordinals)
        self._required = max(required, default=-1)
        self._lock = threading.Lock()
        self._numbers: dict[bytes, int] = {}
        self._slots = np.zeros(1 << _SLOT_BITS, np.int64)
        self._count = 1
        # By number and wanted column: serial type, and offset of the value in the record.
        self.types = np.zeros((_FIRST_CAPACITY, len(ordinals)), np.int64)
        self.offsets = np.zeros_like(self.types)
        self._words = np.zeros((_MOST_WORDS, _FIRST_CAPACITY), np.uint64)
        # By number: bytes of the header and of the whole record.
        self.headers = np.zeros(_FIRST_CAPACITY, np.int64)
        self.sizes = np.zeros(_FIRST_CAPACITY, np.int64)

    def _grow(self) -> None:
        # New arrays instead of a resize in place: other threads still read the old ones.
        self.types = np.concatenate([self.types, np.zeros_like(self.types)])
        self.offsets = np.concatenate([self.offsets, np.zeros_like(self.offsets)])
        self._words = np.concatenate([self._words, np.zeros_like(self._words)], axis=1)
        self.headers = np.concatenate([self.headers, np.zeros_like(self.headers)])
        self.sizes = np.concatenate([self.sizes, np.zeros_like(self.sizes)])

    def numbers(self, cells: Cells) -> tuple[Integers, Flags]:
        """Return each row's layout number, and flags of the rows to decode individually."""
        lengths = cells.block.data[cells.starts].astype(np.int64)
        individual = cells.spilled | (lengths > _LONGEST_HEADER)
        if (lengths == 0).any() or (cells.sizes == 0).any():
            raise UnsupportedLayout("the header of a record is damaged")
        words = _header_words(cells.block, cells.starts, np.where(individual, 0, lengths))
        numbers, known = self._look_up(words)
        rows = np.flatnonzero(~known)
        while rows.size:
            batch, rows = rows[:_PARSED_AT_ONCE], rows[_PARSED_AT_ONCE:]
            numbers[batch] = self._parse([word[batch] for word in words])
            # Most of the other rows have one of the headers just parsed.
            if rows.size:
                numbers[rows], known = self._look_up([word[rows] for word in words])
                rows = rows[~known]
        if ((self.sizes[numbers] != cells.sizes) & ~individual).any():
            raise UnsupportedLayout("a record is not as long as its header says")
        return numbers, individual

    def _look_up(self, words: list[Words]) -> tuple[Integers, Flags]:
        # Slots can collide: a number is valid only if all words of the header agree.
        numbers = self._slots[_slot(words)]
        known = np.ones(numbers.size, np.bool_)
        for word, layout_word in zip(words, self._words, strict=False):
            known &= layout_word[numbers] == word
        return numbers, known

    def _parse(self, words: list[Words]) -> Integers:
        headers = np.stack(words, axis=1)
        unique, inverse = np.unique(headers, axis=0, return_inverse=True)
        slots = _slot(list(unique.T))
        with self._lock:
            numbers = [
                self._number(header, slot)
                for header, slot in zip(unique, slots.tolist(), strict=True)
            ]
        return np.array(numbers, np.int64)[inverse.reshape(-1)]

    def _number(self, header: Words, slot: int) -> int:
        text = header.astype(">u8").tobytes().rstrip(b"\0") or b"\0"
        known = self._numbers.get(text)
        if known is not None or text == b"\0":
            return known or 0
        # rstrip removed NULLs, whose serial type is 0, at the end of the header.
        types, offsets, size = parse_header(text.ljust(text[0], b"\0"))
        if len(types) <= self._required:
            raise UnsupportedLayout("a record lacks a column that has a default")
        if self._count == _MOST_LAYOUTS:
            raise UnsupportedLayout("the records have too many distinct headers")
        if self._count == self.types.shape[0]:
            self._grow()
        number = self._count
        for column, ordinal in enumerate(self._ordinals):
            if ordinal < len(types):
                self.types[number, column] = min(types[ordinal], _SIZE_CAP)
                self.offsets[number, column] = min(offsets[ordinal], _SIZE_CAP)
        self._words[: header.size, number] = header
        self.headers[number] = text[0]
        self.sizes[number] = min(size, _SIZE_CAP)
        self._numbers[text] = number
        self._count += 1
        # Last, because other threads look up slots without the lock.
        if not self._slots[slot]:
            self._slots[slot] = number
        return number


def _header_words(block: Block, starts: Integers, lengths: Integers) -> list[Words]:
    # Headers as 8-byte words; bytes behind the end of a header are zero.
    least, most = int(lengths.min(initial=0)), int(lengths.max(initial=0))
    windows = block.windows(starts, max(most + 7 & ~7, 8))
    words = []
    for first in range(0, windows.shape[1], 8):
        word = word_at(windows, first)
        if least < first + 8:
            word &= _MASKS[first // 8][lengths]
        words.append(word)
    return words


# By number of the word and length of the header: mask of the word's bytes that are in the header.
_BYTES_KEPT = np.arange(_LONGEST_HEADER + 1) - 8 * np.arange(_MOST_WORDS)[:, None]
_MASKS = np.array([((1 << 8 * n) - 1) << (64 - 8 * n) for n in range(9)], np.uint64)[
    np.clip(_BYTES_KEPT, 0, 8)
]


def _slot(words: list[Words]) -> Integers:
    mixed = words[0] * _MIX
    for word in words[1:]:
        mixed ^= mixed >> np.uint64(29)
        mixed += word
        mixed *= _MIX
    return (mixed >> np.uint64(64 - _SLOT_BITS)).view(np.int64)
