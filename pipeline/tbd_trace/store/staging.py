"""The private directory in which a trace is written, and how it becomes part of the database."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import duckdb

from tbd_trace.errors import InputError, StoreError
from tbd_trace.runtime.sigint import translate_interrupts

_WRITING_FAILS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EIO)


@contextlib.contextmanager
def private_directory(target: Path) -> Iterator[Path]:
    """Make a private directory beside the target; remove it whatever happens.

    Args:
        target: where the directory is going to be published.

    Raises:
        StoreError: it cannot be made there.
    """
    made = _make(target)
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)
        for directory in (target.parent, target.parent.parent):
            with contextlib.suppress(OSError):
                directory.rmdir()  # made for nothing, if it is empty


def _make(target: Path, attempts: int = 10) -> Path:
    """Make a directory beside the target, and the directories above it."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    except OSError as error:
        # Another ingest may have failed and removed the directory while it was empty.
        if isinstance(error, FileNotFoundError) and attempts > 1:
            return _make(target, attempts - 1)
        raise _unwritable(target.parent, error) from error


def _unwritable(directory: Path, error: OSError) -> StoreError:
    return StoreError(f"{directory}: cannot be written ({error.strerror})")


@contextlib.contextmanager
def explain_errors(source: Path, directory: Path, table: str | None = None) -> Iterator[None]:
    """Tell whether the profile or the database is to blame for an error of DuckDB.

    Args:
        source: the profile that is read.
        directory: the private directory that is written.
        table: the canonical table that is made.

    Raises:
        InputError: the profile is damaged.
        StoreError: the database's directory cannot be written.
    """
    try:
        with translate_interrupts():
            yield
    except duckdb.Error as error:
        text = str(error)
        failed = next((os.strerror(n) for n in _WRITING_FAILS if os.strerror(n) in text), None)
        if failed and directory.name in text:
            raise StoreError(f"{directory.parent}: cannot be written ({failed})") from error
        raise InputError(_reason(text, source, table)) from error


def publish(directory: Path, target: Path) -> bool:
    """Give a private directory its place and everybody's permissions.

    Returns:
        False if another process made ``target`` in the meantime (its result stands).

    Raises:
        StoreError: the directory cannot be renamed.
    """
    try:
        directory.rename(target)
    except OSError as error:
        if target.is_dir():  # another process was first; both wrote the same content
            return False
        raise _unwritable(target, error) from error
    apply_umask(target)
    return True


def apply_umask(made: Path) -> None:
    """Give a private directory or file the permissions that others get."""
    mask = os.umask(0)
    os.umask(mask)
    made.chmod((0o777 if made.is_dir() else 0o666) & ~mask)


def _reason(text: str, source: Path, table: str | None) -> str:
    """Return what a reader itself said about a damaged file, else DuckDB's first line."""
    # DuckDB turns an exception of a stream into text; the reader's own message is in it.
    said = re.search(r"InputError: (.+)", text)
    if said:
        return said[1]
    what = f"its {table} rows" if table else "it"
    return f"{source}: {what} cannot be read ({text.splitlines()[0]})"
