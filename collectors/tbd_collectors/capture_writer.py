"""Write capture directories atomically."""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tbd_trace.errors import StoreError, UsageError

FORMAT_VERSION = 1


def check_free(path: Path, force: bool) -> None:
    """Raise UsageError if ``path`` exists; ``force`` permits a capture or an empty directory."""
    if not path.exists() and not path.is_symlink():
        return
    if not force:
        raise UsageError(f"{path} exists; choose another -o, or --force to replace it")
    is_replaceable = path.is_dir() and not path.is_symlink()
    if not is_replaceable or (any(path.iterdir()) and not _is_written(path)):
        raise UsageError(f"{path} is not a capture, so --force does not replace it")


def _is_written(path: Path) -> bool:
    return any((path / name).is_file() for name in ("capture.json", "job.json"))


@contextmanager
def written(path: Path, force: bool = False) -> Iterator[Path]:
    """Yield an empty directory that is renamed to ``path`` if the block ends without an error.

    After an error, neither it nor the parents created for it remain. Raises StoreError if it
    cannot be written, UsageError if ``path`` exists, before or after, and may not be replaced.
    """
    path = path.absolute()
    # In the same directory, hence the same file system, so that the last step is a rename.
    beside = path.parent / f".{path.name}.{os.getpid()}-{uuid.uuid4().hex[:6]}"
    try:
        check_free(path, force)
        absent = [parent for parent in path.parents if not parent.exists()]
        try:
            beside.mkdir(parents=True)
            yield beside
            check_free(path, force)  # another process may have written it since
            _put(beside, path)
        finally:
            shutil.rmtree(beside, ignore_errors=True)
            with suppress(OSError):  # rmdir fails at the first parent with other contents
                for parent in absent:
                    parent.rmdir()
    except OSError as error:
        raise StoreError(
            f"{path}: cannot be written ({error.strerror or error}); "
            "free space or choose another -o"
        ) from error


def _put(new: Path, path: Path) -> None:
    # rename() cannot replace a directory that is not empty: move the old one away first, and back
    # if the new one cannot take its name.
    old = new.with_name(f"{new.name}.old")
    try:
        if path.exists():
            path.rename(old)
        new.rename(path)
    finally:
        if old.exists() and not path.exists():
            old.rename(path)
    try:
        if old.exists():
            shutil.rmtree(old)
    except OSError as error:
        raise StoreError(
            f"{path}: is written, but the old capture cannot be removed ({error.strerror}); "
            f"remove {old}"
        ) from error


def write_json(path: Path, document: dict[str, Any]) -> None:
    """Write a JSON object without the fields that are None (unknown)."""
    known = {name: value for name, value in document.items() if value is not None}
    path.write_text(json.dumps(known, indent=2) + "\n", encoding="utf-8")


def read_json(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file, empty if the file is missing or truncated."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}
