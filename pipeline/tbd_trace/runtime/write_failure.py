"""Translate DuckDB's errors about files that it could not write into OSError."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

import duckdb

_CODES = (
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EFBIG,
    errno.EROFS,
    errno.EACCES,
    errno.EIO,
    errno.ENOENT,
    errno.ENOTDIR,
    errno.ENAMETOOLONG,
)


@contextlib.contextmanager
def os_errors(path: Path) -> Iterator[None]:
    """Raise the OSError behind a failure of DuckDB to write ``path``; other errors pass."""
    try:
        yield
    except duckdb.Error as error:
        if failed := write_failure(error, path):
            raise failed from error
        raise


def write_failure(error: duckdb.Error, path: Path) -> OSError | None:
    """Return the OSError behind an error of DuckDB, None if it is not about writing a file.

    Args:
        path: the file, or a directory that it is in.
    """
    text = str(error)
    code = next((code for code in _CODES if os.strerror(code) in text), None)
    if code is None or path.name not in text:
        return None
    return OSError(code, os.strerror(code), str(path))
