"""Hash profiler files and derive trace ids."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from tbd_trace.errors import InputError

if TYPE_CHECKING:
    from tbd_trace.store.capture import CaptureFile

_HASH_CHUNK = 1 << 22  # bytes
# Hashing all of a larger file would take longer than reading it, so samples are hashed instead.
_WHOLE_BYTES = 1 << 26
_SAMPLES = 64
_SAMPLE_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class Content:
    """Hash and state of a profiler file."""

    digest: str  # SHA-256 of all bytes; for a large file, of its size and of samples
    sha256: str | None  # of all bytes, None for a large file
    size: int  # bytes
    modified_ns: int


def hash_file(path: Path) -> Content:
    """Hash a file.

    Raises:
        InputError: the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            state = os.fstat(file.fileno())
            is_whole = state.st_size <= _WHOLE_BYTES
            digest = _hash_all(file) if is_whole else _hash_samples(file, state.st_size)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    return Content(digest, digest if is_whole else None, state.st_size, state.st_mtime_ns)


def _hash_all(file: BinaryIO) -> str:
    digest = hashlib.sha256()
    while chunk := file.read(_HASH_CHUNK):
        digest.update(chunk)
    return digest.hexdigest()


def _hash_samples(file: BinaryIO, size: int) -> str:
    # The first sample includes SQLite's change counter, at byte 24 of the header.
    digest = hashlib.sha256(str(size).encode())
    for number in range(_SAMPLES):
        file.seek(number * (size - _SAMPLE_BYTES) // (_SAMPLES - 1))
        digest.update(file.read(_SAMPLE_BYTES))
    return digest.hexdigest()


def check_unchanged(path: Path, content: Content) -> None:
    """Check that a file has not changed since it was hashed.

    Raises:
        InputError: the file has changed, or cannot be read.
    """
    try:
        state = path.stat()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    if (state.st_size, state.st_mtime_ns) != (content.size, content.modified_ns):
        raise InputError(f"{path}: changed while it was read; ingest it when it is complete")


def compute_trace_id(file: CaptureFile, digest: str) -> str:
    """Return the trace id: 12 hexadecimal digits of a hash of content and capture metadata."""
    salted = hashlib.sha256((digest + file.salt).encode()).hexdigest() if file.salt else digest
    return salted[:12]
