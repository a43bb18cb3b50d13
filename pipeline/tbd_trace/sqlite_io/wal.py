"""Check whether a write-ahead log holds changes that its database file lacks."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import BinaryIO

# Section 4.1 of https://www.sqlite.org/fileformat2.html; the last bit of the magic number is the
# byte order of the checksums.
_HEADER = struct.Struct(">8I")
_FRAME = struct.Struct(">6I")
_MAGIC = (0x377F0682, 0x377F0683)


def holds_changes(database: Path, log: Path) -> bool:
    """Return True if a write-ahead log has committed pages that differ from the database file.

    A program killed after a checkpoint leaves a log whose pages are all in the database.

    Raises:
        OSError: one of the files cannot be read.
    """
    with log.open("rb") as frames, database.open("rb") as pages:
        header = frames.read(_HEADER.size)
        # An empty or zeroed log is one that SQLite has reset.
        if header[:1] in (b"", b"\x00"):
            return False
        if len(header) < _HEADER.size or _HEADER.unpack(header)[0] not in _MAGIC:
            return True
        size = _HEADER.unpack(header)[2]
        latest, page_count = _committed(frames, size, header[16:24])
        if page_count * size > os.fstat(pages.fileno()).st_size:
            return True
        return any(
            _read_at(frames, offset, size) != _read_at(pages, (number - 1) * size, size)
            for number, offset in latest.items()
            if number <= page_count
        )


def _committed(frames: BinaryIO, size: int, salts: bytes) -> tuple[dict[int, int], int]:
    # Returns the offset of the latest version of each page, and the page count of the database.
    latest: dict[int, int] = {}
    uncommitted: dict[int, int] = {}
    page_count = 0
    offset = _HEADER.size
    end = os.fstat(frames.fileno()).st_size
    while offset + _FRAME.size + size <= end:
        frame = _read_at(frames, offset, _FRAME.size)
        # Frames with other salts are from before the log was last reset (section 4.4).
        if frame[8:16] != salts:
            break
        number, commit_size, *_ = _FRAME.unpack(frame)
        uncommitted[number] = offset + _FRAME.size
        if commit_size:  # nonzero only in the last frame of a transaction
            latest |= uncommitted
            uncommitted, page_count = {}, commit_size
        offset += _FRAME.size + size
    return latest, page_count


def _read_at(file: BinaryIO, offset: int, size: int) -> bytes:
    file.seek(offset)
    return file.read(size)
