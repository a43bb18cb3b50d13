"""Write a trace in a private directory and publish it by one rename."""

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
    """Create a private directory beside the target, and remove it at the end.

    Raises:
        StoreError: it cannot be created.
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
    """Translate DuckDB's errors into errors about the profile or the database.

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
    """Rename a private directory and apply the user's umask.

    Returns:
        False if another process published ``target`` first; its result stays.

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
    """Give a private directory or file the permissions of the user's umask."""
    mask = os.umask(0)
    os.umask(mask)
    made.chmod((0o777 if made.is_dir() else 0o666) & ~mask)


def _reason(text: str, source: Path, table: str | None) -> str:
    # The reader's own message about a damaged file, otherwise DuckDB's first line.
    # DuckDB turns an exception of a stream into text; the reader's own message is in it.
    said = re.search(r"InputError: (.+)", text)
    if said:
        return said[1]
    what = f"its {table} rows" if table else "it"
    return f"{source}: {what} cannot be read ({text.splitlines()[0]})"
