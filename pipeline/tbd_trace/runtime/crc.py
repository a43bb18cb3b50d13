"""CRC-32 of files, which finds bits that a disk or a copy has changed."""

from __future__ import annotations

import zlib
from pathlib import Path

try:
    from isal.isal_zlib import crc32
except ImportError:  # no wheel for this processor; a third as fast
    crc32 = zlib.crc32

_CHUNK_BYTES = 1 << 22


def crc32_of(path: Path) -> int:
    """Return the CRC-32 of a file's bytes.

    A CRC-32 finds every change of up to 32 neighbouring bits, and others but for one in 4 billion.

    Raises:
        OSError: the file cannot be read.
    """
    value = 0
    with path.open("rb", buffering=0) as file:
        while chunk := file.read(_CHUNK_BYTES):
            value = crc32(chunk, value)
    return value


def crc_file(path: Path) -> Path:
    """Return the file that holds the CRC-32 of a file."""
    return path.with_suffix(".crc32")


def replace_with_crc(beside: Path, path: Path) -> None:
    """Rename a file to ``path`` and write its CRC-32 beside it.

    Raises:
        OSError: a file cannot be read or written.
    """
    value = crc32_of(beside)
    beside.replace(path)
    crc_file(path).write_text(str(value), encoding="ascii")


def is_sound(path: Path) -> bool:
    """Return True if a file has the CRC-32 that is recorded beside it."""
    try:
        return crc32_of(path) == int(crc_file(path).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return False
