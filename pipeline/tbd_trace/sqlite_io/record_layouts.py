"""Shapes of SQLite records: where each column lies, known from a record's header.

The rows of a table share few headers. Each distinct one is parsed once and gets a number; a block
of rows is then described by one number per row.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np

from tbd_trace.sqlite_io.cells import Block, Cells, Flags, Words, word_at
from tbd_trace.sqlite_io.pages import Integers, LeftToSqlite

NULL, REAL, ZERO, ONE, FIRST_BLOB, FIRST_TEXT = 0, 7, 8, 9, 12, 13
_WIDTHS = (0, 1, 2, 3, 4, 6, 8, 8, 0, 0)  # bytes of the serial types 0 to 9
_LONGEST_HEADER = 127  # bytes, for those whose length is one byte
_MOST_WORDS = 16  # of such a header
_SLOT_BITS = 18
_FIRST_CAPACITY = 256
_MOST_SHAPES = 1 << 16
_LEARNT_AT_ONCE = 512
_LARGE = 1 << 40  # more than any size; damaged headers claim even more
_MIX = np.uint64(0x9E3779B97F4A7C15)


def width(serial_type: int) -> int:
    """Return the bytes of a value.

    Raises:
        LeftToSqlite: there is no such serial type.
    """
    if serial_type in (10, 11):
        raise LeftToSqlite("a serial type is reserved")
    return _WIDTHS[serial_type] if serial_type < 10 else (serial_type - 12) // 2


def parse_header(record: bytes) -> tuple[list[int], list[int], int]:
    """Return serial types and places of a record's values, and the size of the record.

    Raises:
        LeftToSqlite: the header is damaged.
    """
    length, at = _varint(record, 0)
    types, places, place = [], [], length
    while at < length:
        serial_type, at = _varint(record, at)
        types.append(serial_type)
        places.append(place)
        place += width(serial_type)
    if at != length:
        raise LeftToSqlite("the header of a record is damaged")
    return types, places, place


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for count, byte in enumerate(data[at : at + 8]):
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at + count + 1
    raise LeftToSqlite("the header of a record is damaged")


class Shapes:
    """The distinct headers seen in one table; several threads may use it.

    Number 0 stands for rows that are read one by one; all their columns are NULL here.

    Args:
        ordinals: which of the stored columns are wanted.
        required: those of them that may not be missing from a record.

    Attributes:
        types: serial types by number and wanted column.
        places: places of the values, in bytes from the start of the record, likewise.
        headers: bytes of the header by number; 0 where rows are read one by one.
        sizes: bytes of the record by number, likewise.
    """

    def __init__(self, ordinals: Sequence[int], required: Sequence[int]) -> None:
        self._ordinals = list(ordinals)
        self._required = max(required, default=-1)
        self._lock = threading.Lock()
        self._numbers: dict[bytes, int] = {}
        self._slots = np.zeros(1 << _SLOT_BITS, np.int64)
        self._count = 1
        self.types = np.zeros((_FIRST_CAPACITY, len(ordinals)), np.int64)
        self.places = np.zeros_like(self.types)
        self._words = np.zeros((_MOST_WORDS, _FIRST_CAPACITY), np.uint64)
        self.headers = np.zeros(_FIRST_CAPACITY, np.int64)
        self.sizes = np.zeros(_FIRST_CAPACITY, np.int64)

    def _grow(self) -> None:
        """Make room for as many again; others go on with the arrays that they have."""
        self.types = np.concatenate([self.types, np.zeros_like(self.types)])
        self.places = np.concatenate([self.places, np.zeros_like(self.places)])
        self._words = np.concatenate([self._words, np.zeros_like(self._words)], axis=1)
        self.headers = np.concatenate([self.headers, np.zeros_like(self.headers)])
        self.sizes = np.concatenate([self.sizes, np.zeros_like(self.sizes)])

    def numbers(self, cells: Cells) -> tuple[Integers, Flags]:
        """Return the number of each row's shape, and which rows are to be read one by one.

        Raises:
            LeftToSqlite: a header is damaged, or there are too many different ones.
        """
        lengths = cells.block.data[cells.starts].astype(np.int64)
        alone = cells.spilled | (lengths > _LONGEST_HEADER)
        if (lengths == 0).any() or (cells.sizes == 0).any():
            raise LeftToSqlite("the header of a record is damaged")
        words = _header_words(cells.block, cells.starts, np.where(alone, 0, lengths))
        numbers, known = self._look_up(words)
        rows = np.flatnonzero(~known)
        while rows.size:
            now, rows = rows[:_LEARNT_AT_ONCE], rows[_LEARNT_AT_ONCE:]
            numbers[now] = self._learn([word[now] for word in words])
            if rows.size:
                numbers[rows], known = self._look_up([word[rows] for word in words])
                rows = rows[~known]
        if ((self.sizes[numbers] != cells.sizes) & ~alone).any():
            raise LeftToSqlite("a record is not as long as its header says")
        return numbers, alone

    def _look_up(self, words: list[Words]) -> tuple[Integers, Flags]:
        """Return the numbers of headers, and which are known."""
        numbers = self._slots[_slot(words)]
        known = np.ones(numbers.size, np.bool_)
        shapes = self._words
        for word, shape in zip(words, shapes, strict=False):
            known &= shape[numbers] == word
        return numbers, known

    def _learn(self, words: list[Words]) -> Integers:
        """Number some headers, known or not."""
        headers = np.stack(words, axis=1)
        distinct, inverse = np.unique(headers, axis=0, return_inverse=True)
        slots = _slot(list(distinct.T))
        with self._lock:
            numbers = [
                self._number(header, slot)
                for header, slot in zip(distinct, slots.tolist(), strict=True)
            ]
        return np.array(numbers, np.int64)[inverse.reshape(-1)]

    def _number(self, header: Words, slot: int) -> int:
        text = header.astype(">u8").tobytes().rstrip(b"\0") or b"\0"
        known = self._numbers.get(text)
        if known is not None or text == b"\0":
            return known or 0
        # Zeros at the end of a header are NULLs.
        types, places, size = parse_header(text.ljust(text[0], b"\0"))
        if len(types) <= self._required:
            raise LeftToSqlite("a record lacks a column that has a default")
        if self._count == _MOST_SHAPES:
            raise LeftToSqlite("the records have too many shapes")
        if self._count == self.types.shape[0]:
            self._grow()
        number = self._count
        for column, ordinal in enumerate(self._ordinals):
            if ordinal < len(types):
                self.types[number, column] = min(types[ordinal], _LARGE)
                self.places[number, column] = min(places[ordinal], _LARGE)
        self._words[: header.size, number] = header
        self.headers[number] = text[0]
        self.sizes[number] = min(size, _LARGE)
        self._numbers[text] = number
        self._count += 1
        if not self._slots[slot]:
            self._slots[slot] = number
        return number


def _header_words(block: Block, starts: Integers, lengths: Integers) -> list[Words]:
    """Return headers as words, with zeros behind their ends."""
    least, most = int(lengths.min(initial=0)), int(lengths.max(initial=0))
    windows = block.windows(starts, max(most + 7 & ~7, 8))
    words = []
    for first in range(0, windows.shape[1], 8):
        part = word_at(windows, first)
        if least < first + 8:
            part &= _MASKS[first // 8][lengths]
        words.append(part)
    return words


# By the number of a header's word and the bytes of the header: what of the word is the header's.
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
