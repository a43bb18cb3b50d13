"""Pages of a SQLite file, read without SQLite: the header and the b-tree of one table.

Written to https://www.sqlite.org/fileformat2.html. What is not as a healthy file of the usual kind
has it raises `LeftToSqlite`: SQLite then reads the rest, and says what is wrong if something is.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt

from tbd_trace.sqlite_io.header import SQLITE_MAGIC

Bytes = npt.NDArray[np.uint8]
Integers = npt.NDArray[np.int64]

_PADDING = 256
LEAF = 13
_INTERIOR = 5
_INTERIOR_AT_ONCE = 1024  # pages
_LEAST_CELL = 6  # bytes, with its pointer
_HEADER_BYTES = 100
_MOST_LEVELS = 20  # SQLite's own limit
_LOCK_BYTE = 1 << 30  # the page that holds this byte is never used


class LeftToSqlite(Exception):
    """This file, table or page is left to SQLite; the message says why."""


class PageFile:
    """A database file, read page by page.

    Args:
        path: the file; `sqlite_header.check_complete` has passed it.

    Attributes:
        page_size: bytes of a page.
        usable: bytes of a page that SQLite uses; the rest belongs to extensions.
        pages: number of pages.
        state: what tells the file from another one, or from what it was earlier.

    Raises:
        LeftToSqlite: the format is not the usual one.
    """

    def __init__(self, path: Path) -> None:
        if not hasattr(os, "preadv"):
            raise LeftToSqlite("this system cannot read into memory at a place of a file")
        try:
            self._descriptor = os.open(path, os.O_RDONLY)
        except OSError as error:
            raise LeftToSqlite(f"the file cannot be opened ({error.strerror})") from error
        try:
            head = os.pread(self._descriptor, _HEADER_BYTES, 0)
            status = os.fstat(self._descriptor)
            self.state = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
            self._parse(head, status.st_size)
        except BaseException:
            self.close()
            raise

    def _parse(self, head: bytes, size: int) -> None:
        if len(head) < _HEADER_BYTES or not head.startswith(SQLITE_MAGIC):
            raise LeftToSqlite("no SQLite header")
        (self.page_size,) = struct.unpack_from(">H", head, 16)
        self.page_size = 65_536 if self.page_size == 1 else self.page_size
        if self.page_size < 512 or self.page_size & (self.page_size - 1):
            raise LeftToSqlite(f"page size {self.page_size}")
        write_version, read_version, reserved = head[18:21]
        self.usable = self.page_size - reserved
        if write_version not in (1, 2) or read_version not in (1, 2) or self.usable < 480:
            raise LeftToSqlite("format version or reserved bytes")
        if head[21:24] != b"\x40\x20\x20":
            raise LeftToSqlite("payload fractions")
        schema_format, encoding = struct.unpack_from(">I8xI", head, 44)
        if schema_format not in (1, 2, 3, 4) or encoding != 1:
            raise LeftToSqlite("schema format or text encoding")
        change, self.pages = struct.unpack_from(">II", head, 24)
        (valid_for,) = struct.unpack_from(">I", head, 92)
        if change != valid_for or self.pages * self.page_size != size:
            raise LeftToSqlite("the header does not tell the size of the file")

    def read(self, numbers: Integers) -> Bytes:
        """Return some pages, one after the other, and more than a page of zeros.

        Args:
            numbers: page numbers, counted from 1.

        Raises:
            LeftToSqlite: there is no such page, or it cannot be read.
        """
        if numbers.size == 0 or numbers.min() < 2 or numbers.max() > self.pages:
            raise LeftToSqlite("page number out of range")
        size = self.page_size
        block = np.empty((numbers.size + 1) * size + _PADDING, np.uint8)
        block[numbers.size * size :] = 0
        target = memoryview(block.data)
        ends = [*(np.flatnonzero(np.diff(numbers) != 1) + 1).tolist(), numbers.size]
        first = 0
        for last in ends:
            wanted = target[first * size : last * size]
            try:
                got = os.preadv(self._descriptor, [wanted], (int(numbers[first]) - 1) * size)
            except OSError as error:
                raise LeftToSqlite(f"pages cannot be read ({error.strerror})") from error
            if got != len(wanted):
                raise LeftToSqlite("the file ends early")
            first = last
        return block

    def leaves(self, root: int) -> Integers:
        """Return the numbers of a table's leaf pages, in the order of their rows.

        Raises:
            LeftToSqlite: the tree is not that of an ordinary table, or damaged.
        """
        level = np.array([root], np.int64)
        for _ in range(_MOST_LEVELS):
            if self.read(level[:1])[0] == LEAF:
                return level
            parts = np.array_split(level, range(_INTERIOR_AT_ONCE, level.size, _INTERIOR_AT_ONCE))
            level = np.concatenate([self._children(part) for part in parts])
            self._check_distinct(level)
            if (level == _LOCK_BYTE // self.page_size + 1).any():
                raise LeftToSqlite("the page of the lock byte is in the tree")
        raise LeftToSqlite("the tree is too deep")

    def _check_distinct(self, numbers: Integers) -> None:
        """Make sure that pages exist and none is named twice."""
        if numbers.min() < 2 or numbers.max() > self.pages:
            raise LeftToSqlite("page number out of range")
        is_named = np.zeros(self.pages + 1, np.bool_)
        is_named[numbers] = True
        if np.count_nonzero(is_named) != numbers.size:
            raise LeftToSqlite("a page is in the tree twice")

    def _children(self, numbers: Integers) -> Integers:
        """Return the pages below some interior pages, in order."""
        data = self.read(numbers)
        places, _, counts = self.cells(data, numbers.size, _INTERIOR)
        last = np.arange(numbers.size) * self.page_size + 8
        return np.insert(_page_numbers(data, places), np.cumsum(counts), _page_numbers(data, last))

    def cells(
        self, data: Bytes, pages: int, kind: int, *, may_be_empty: bool = False
    ) -> tuple[Integers, Integers, Integers]:
        """Return where the cells of b-tree pages are.

        Args:
            data: the pages.
            pages: their number.
            kind: what they are to be.
            may_be_empty: whether they may have no cells.

        Returns:
            The place of each cell, the end of the page that it is in, the number of cells by page.

        Raises:
            LeftToSqlite: a page is damaged.
        """
        header = 8 if kind == LEAF else 12
        bases = np.arange(pages) * self.page_size
        if (data[bases] != kind).any():
            raise LeftToSqlite("a page of a table is of the wrong kind")
        counts = data[bases + 3].astype(np.int64) << 8 | data[bases + 4]
        if counts.min() == 0 and not may_be_empty:
            raise LeftToSqlite("a page of a table is empty")
        if counts.max() > (self.usable - header) // _LEAST_CELL:
            raise LeftToSqlite("a page of a table has too many cells")
        ends = np.cumsum(counts)
        slots = np.repeat((bases + header >> 1) - ends + counts, counts)
        slots += np.arange(slots.size)
        pointers = data.view(">u2")[slots].astype(np.int64)
        least = np.repeat(header + 2 * counts, counts)
        if (pointers < least).any() or (pointers > self.usable - 4).any():
            raise LeftToSqlite("a cell pointer is out of range")
        base = np.repeat(bases, counts)
        return base + pointers, base + self.usable, counts

    def chain(self, number: int, size: int) -> bytes:
        """Return the content of a chain of overflow pages.

        Args:
            number: its first page.
            size: bytes in it.

        Raises:
            LeftToSqlite: the chain is damaged.
        """
        parts = []
        while size > 0:
            page = self.read(np.array([number])).tobytes()
            part = page[4 : 4 + min(size, self.usable - 4)]
            parts.append(part)
            size -= len(part)
            (number,) = struct.unpack_from(">I", page)
        return b"".join(parts)

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _page_numbers(data: Bytes, places: Integers) -> Integers:
    words: npt.NDArray[np.uint32] = np.ndarray((data.size - 3,), ">u4", data, strides=(1,))
    return words[places].astype(np.int64)
