"""SQLite's write-ahead log: whether it holds anything that the database file lacks."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import BinaryIO

_HEADER = struct.Struct(">8I")
_FRAME = struct.Struct(">6I")
_MAGIC = (0x377F0682, 0x377F0683)


def holds_changes(database: Path, log: Path) -> bool:
    """Tell whether a write-ahead log has pages that are not in the database as they are there.

    A program that was killed after a checkpoint leaves a log of which nothing is missing in the
    database. The format: https://www.sqlite.org/fileformat2.html#walformat

    Args:
        database: the database file.
        log: its log; one that is empty, or begins with zeros, holds nothing.

    Raises:
        OSError: one of them cannot be read.
    """
    with log.open("rb") as frames, database.open("rb") as pages:
        header = frames.read(_HEADER.size)
        if header[:1] in (b"", b"\x00"):
            return False
        if len(header) < _HEADER.size or _HEADER.unpack(header)[0] not in _MAGIC:
            return True
        size = _HEADER.unpack(header)[2]
        latest, length = _committed(frames, size, header[16:24])
        if length * size > os.fstat(pages.fileno()).st_size:
            return True
        return any(
            _page(frames, offset, size) != _page(pages, (number - 1) * size, size)
            for number, offset in latest.items()
            if number <= length
        )


def _committed(frames: BinaryIO, size: int, salts: bytes) -> tuple[dict[int, int], int]:
    """Return where the last version of each committed page is, and the pages of the database."""
    latest: dict[int, int] = {}
    pending: dict[int, int] = {}
    length = 0
    offset = _HEADER.size
    end = os.fstat(frames.fileno()).st_size
    while offset + _FRAME.size + size <= end:
        frame = _page(frames, offset, _FRAME.size)
        if frame[8:16] != salts:  # what an earlier use of the log left behind
            break
        number, pages, *_ = _FRAME.unpack(frame)
        pending[number] = offset + _FRAME.size
        if pages:  # the last frame of a transaction
            latest |= pending
            pending, length = {}, pages
        offset += _FRAME.size + size
    return latest, length


def _page(file: BinaryIO, offset: int, size: int) -> bytes:
    file.seek(offset)
    return file.read(size)
