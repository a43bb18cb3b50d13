"""Write a trace in a private directory and publish it by one rename."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb

from tbd_trace.errors import InputError, StoreError
from tbd_trace.runtime.private_files import private_prefix, remove_abandoned
from tbd_trace.runtime.sigint import translate_interrupts
from tbd_trace.runtime.write_failure import write_failure
from tbd_trace.store.checksums import write_checksums

_STALE_SECONDS = 24 * 3600


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


def remove_stale(parent: Path) -> None:
    """Remove the private directories that killed processes left.

    Those of other machines are removed after a day.
    """
    remove_abandoned(parent)
    for entry in parent.glob(".*"):
        with contextlib.suppress(OSError):
            if entry.is_dir() and time.time() - entry.stat().st_mtime > _STALE_SECONDS:
                shutil.rmtree(entry, ignore_errors=True)


def _make(target: Path, attempts: int = 10) -> Path:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix=private_prefix(target), dir=target.parent))
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
        if failed := write_failure(error, directory):
            raise _unwritable(directory.parent, failed) from error
        raise InputError(_reason(str(error), source, table)) from error


def publish(directory: Path, target: Path) -> bool:
    """Write checksums into a private directory, rename it and apply the user's umask.

    Returns:
        False if another process published ``target`` first; its result stays.

    Raises:
        StoreError: the directory cannot be renamed.
    """
    try:
        write_checksums(directory)
        directory.rename(target)
    except OSError as error:
        if target.is_dir():  # another process was first; both wrote the same content
            return False
        raise _unwritable(target, error) from error
    apply_umask(target)
    return True


def unpublish(directory: Path) -> None:
    """Remove a published directory; readers see it complete or not at all.

    Raises:
        StoreError: it cannot be removed.
    """
    try:
        with tempfile.TemporaryDirectory(
            prefix=private_prefix(directory), dir=directory.parent
        ) as hidden:
            directory.rename(Path(hidden) / directory.name)
    except FileNotFoundError:
        pass  # another process was first
    except OSError as error:
        raise StoreError(f"{directory}: cannot be removed ({error.strerror})") from error


def replace_published(directory: Path, target: Path) -> None:
    """Rename a private directory to a published one, which is removed.

    Between two renames, readers find no trace and say that it was removed.

    Raises:
        StoreError: a directory cannot be renamed.
    """
    try:
        with tempfile.TemporaryDirectory(
            prefix=private_prefix(target), dir=target.parent
        ) as hidden:
            old = target.rename(Path(hidden) / target.name)
            try:
                directory.rename(target)
            except OSError:
                old.rename(target)
                raise
    except OSError as error:
        raise _unwritable(target, error) from error
    apply_umask(target)


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
