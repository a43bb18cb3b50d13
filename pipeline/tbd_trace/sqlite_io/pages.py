"""Read pages of a SQLite file without SQLite: the header and the b-tree of a table.

Follows https://www.sqlite.org/fileformat2.html; section numbers in comments refer to it. Anything
unusual or damaged raises `UnsupportedLayout`, and SQLite then reads the table or reports the error.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt

from tbd_trace.sqlite_io.errors import UnsupportedLayout
from tbd_trace.sqlite_io.header import SQLITE_MAGIC

Bytes = npt.NDArray[np.uint8]
Integers = npt.NDArray[np.int64]

LEAF = 13  # type bytes of table b-tree pages (section 1.6)
_INTERIOR = 5
_PADDING = 256  # bytes behind the last page, so that wide reads stay inside the buffer
_INTERIOR_AT_ONCE = 1024  # pages
_LEAST_CELL = 6  # bytes: SQLite allocates at least 4 per cell, and 2 for its pointer
_HEADER_BYTES = 100
_MOST_LEVELS = 20  # BTCURSOR_MAX_DEPTH in SQLite's btreeInt.h
_LOCK_BYTE = 1 << 30  # SQLite never uses the page with this byte (section 1.4)


class PageFile:
    """Database file that is read page by page; it must have passed `header.check_complete`.

    Attributes:
        page_size: bytes per page.
        usable: bytes per page without the space reserved for extensions.
        pages: number of pages.
        identity: device, inode, size and modification time; changes when the file does.
    """

    def __init__(self, path: Path) -> None:
        if not hasattr(os, "preadv"):  # Windows
            raise UnsupportedLayout("this system has no preadv")
        try:
            self._descriptor = os.open(path, os.O_RDONLY)
        except OSError as error:
            raise UnsupportedLayout(f"the file cannot be opened ({error.strerror})") from error
        try:
            head = os.pread(self._descriptor, _HEADER_BYTES, 0)
            status = os.fstat(self._descriptor)
            self.identity = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
            self._parse(head, status.st_size)
        except BaseException:
            self.close()
            raise

    def _parse(self, head: bytes, size: int) -> None:
        if len(head) < _HEADER_BYTES or not head.startswith(SQLITE_MAGIC):
            raise UnsupportedLayout("no SQLite header")
        (self.page_size,) = struct.unpack_from(">H", head, 16)
        self.page_size = 65_536 if self.page_size == 1 else self.page_size
        if self.page_size < 512 or self.page_size & (self.page_size - 1):
            raise UnsupportedLayout(f"page size {self.page_size}")
        write_version, read_version, reserved = head[18:21]
        self.usable = self.page_size - reserved
        # Versions 1 and 2 are rollback journal and WAL (1.3.3); at least 480 usable bytes (1.3.4).
        if write_version not in (1, 2) or read_version not in (1, 2) or self.usable < 480:
            raise UnsupportedLayout("format version or reserved bytes")
        if head[21:24] != b"\x40\x20\x20":  # 64, 32, 32 in every valid file (1.3.5)
            raise UnsupportedLayout("payload fractions")
        schema_format, encoding = struct.unpack_from(">I8xI", head, 44)
        if schema_format not in (1, 2, 3, 4) or encoding != 1:  # 1: UTF-8 (1.3.13)
            raise UnsupportedLayout("schema format or text encoding")
        change_counter, self.pages = struct.unpack_from(">II", head, 24)
        (version_valid_for,) = struct.unpack_from(">I", head, 92)
        # The page count is valid only if both counters agree (1.3.7).
        if change_counter != version_valid_for or self.pages * self.page_size != size:
            raise UnsupportedLayout("the page count does not match the file size")

    def read(self, numbers: Integers) -> Bytes:
        """Return pages (numbered from 1) one after the other, and at least a page of zeros."""
        if numbers.size == 0 or numbers.min() < 2 or numbers.max() > self.pages:
            raise UnsupportedLayout("page number out of range")
        size = self.page_size
        block = np.empty((numbers.size + 1) * size + _PADDING, np.uint8)
        block[numbers.size * size :] = 0
        target = memoryview(block.data)
        # Leaves of a table written in one go are mostly adjacent: one read per run of pages.
        run_ends = [*(np.flatnonzero(np.diff(numbers) != 1) + 1).tolist(), numbers.size]
        first = 0
        for last in run_ends:
            run = target[first * size : last * size]
            try:
                received = os.preadv(self._descriptor, [run], (int(numbers[first]) - 1) * size)
            except OSError as error:
                raise UnsupportedLayout(f"pages cannot be read ({error.strerror})") from error
            if received != len(run):
                raise UnsupportedLayout("the file ends early")
            first = last
        return block

    def leaves(self, root: int) -> Integers:
        """Return the numbers of a table's leaf pages in rowid order."""
        level = np.array([root], np.int64)
        for _ in range(_MOST_LEVELS):
            # All leaves of a b-tree have the same depth.
            if self.read(level[:1])[0] == LEAF:
                return level
            chunks = np.array_split(level, range(_INTERIOR_AT_ONCE, level.size, _INTERIOR_AT_ONCE))
            level = np.concatenate([self._children(chunk) for chunk in chunks])
            self._check_distinct(level)
            if (level == _LOCK_BYTE // self.page_size + 1).any():
                raise UnsupportedLayout("the page of the lock byte is in the tree")
        raise UnsupportedLayout("the tree is too deep")

    def _check_distinct(self, numbers: Integers) -> None:
        if numbers.min() < 2 or numbers.max() > self.pages:
            raise UnsupportedLayout("page number out of range")
        is_used = np.zeros(self.pages + 1, np.bool_)
        is_used[numbers] = True
        if np.count_nonzero(is_used) != numbers.size:
            raise UnsupportedLayout("a page is in the tree twice")

    def _children(self, numbers: Integers) -> Integers:
        data = self.read(numbers)
        offsets, _, counts = self.cells(data, numbers.size, _INTERIOR)
        # The rightmost child is in the page header, at byte 8, and not in a cell (1.6).
        last = np.arange(numbers.size) * self.page_size + 8
        cells, rightmost = _page_numbers(data, offsets), _page_numbers(data, last)
        return np.insert(cells, np.cumsum(counts), rightmost)

    def cells(
        self, data: Bytes, pages: int, kind: int, *, may_be_empty: bool = False
    ) -> tuple[Integers, Integers, Integers]:
        """Return the offset of each cell, the end of its page, and the number of cells per page.

        Args:
            data: b-tree pages, as `read` returns them.
        """
        header = 8 if kind == LEAF else 12
        bases = np.arange(pages) * self.page_size
        if (data[bases] != kind).any():
            raise UnsupportedLayout("a page of a table is of the wrong kind")
        counts = data[bases + 3].astype(np.int64) << 8 | data[bases + 4]
        if counts.min() == 0 and not may_be_empty:
            raise UnsupportedLayout("a page of a table is empty")
        if counts.max() > (self.usable - header) // _LEAST_CELL:
            raise UnsupportedLayout("a page of a table has too many cells")
        # Index every cell pointer of all pages at once; pointers are two bytes each.
        ends = np.cumsum(counts)
        slots = np.repeat((bases + header >> 1) - ends + counts, counts)
        slots += np.arange(slots.size)
        pointers = data.view(">u2")[slots].astype(np.int64)
        least = np.repeat(header + 2 * counts, counts)
        if (pointers < least).any() or (pointers > self.usable - 4).any():
            raise UnsupportedLayout("a cell pointer is out of range")
        base = np.repeat(bases, counts)
        return base + pointers, base + self.usable, counts

    def overflow(self, number: int, size: int) -> bytes:
        """Return `size` bytes from the chain of overflow pages that begins with page `number`."""
        chunks = []
        while size > 0:
            page = self.read(np.array([number])).tobytes()
            chunk = page[4 : 4 + min(size, self.usable - 4)]
            chunks.append(chunk)
            size -= len(chunk)
            # The first four bytes are the number of the next page (1.7).
            (number,) = struct.unpack_from(">I", page)
        return b"".join(chunks)

    def close(self) -> None:
        os.close(self._descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _page_numbers(data: Bytes, offsets: Integers) -> Integers:
    words: npt.NDArray[np.uint32] = np.ndarray((data.size - 3,), ">u4", data, strides=(1,))
    return words[offsets].astype(np.int64)
