"""Writing a capture directory: whole, or not at all."""

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
    """Check that a capture may be written.

    Raises:
        UsageError: something is there already; without ``force`` it stays, and what is no capture
            stays in any case.
    """
    if not path.exists() and not path.is_symlink():
        return
    if not force:
        raise UsageError(f"{path} exists; choose another -o, or --force to replace it")
    is_replaceable = path.is_dir() and not path.is_symlink()
    if not is_replaceable or (any(path.iterdir()) and not (path / "capture.json").is_file()):
        raise UsageError(f"{path} is not a capture, so --force does not replace it")


@contextmanager
def written(path: Path, force: bool = False) -> Iterator[Path]:
    """Yield an empty directory that becomes ``path`` when the block ends without an error.

    It is made beside ``path``, so that becoming it is one rename. With an error, nothing of it
    stays, nor the parents that were made for it.

    Raises:
        StoreError: the directory cannot be written, or what it replaced cannot be removed.
        UsageError: ``path`` exists, before or after the block, and may not be replaced.
    """
    path = path.absolute()
    beside = path.parent / f".{path.name}.{os.getpid()}-{uuid.uuid4().hex[:6]}"
    try:
        check_free(path, force)
        absent = [parent for parent in path.parents if not parent.exists()]
        try:
            beside.mkdir(parents=True)
            yield beside
            check_free(path, force)
            _put(beside, path)
        finally:
            shutil.rmtree(beside, ignore_errors=True)
            with suppress(OSError):  # the first that holds something is to stay, as those above it
                for parent in absent:
                    parent.rmdir()
    except OSError as error:
        raise StoreError(
            f"{path}: cannot be written ({error.strerror or error}); "
            "free space or choose another -o"
        ) from error


def _put(new: Path, path: Path) -> None:
    """Let a directory become ``path``, and only then remove the one that was there."""
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
            f"{path}: is written, but the capture before it cannot be removed ({error.strerror}); "
            f"remove {old}"
        ) from error


def write_json(path: Path, document: dict[str, Any]) -> None:
    """Write a JSON file; fields that are None are unknown and left out."""
    known = {name: value for name, value in document.items() if value is not None}
    path.write_text(json.dumps(known, indent=2) + "\n", encoding="utf-8")


def read_json(path: Path) -> dict[str, Any]:
    """Return a JSON object, an empty one where there is no such file or it is cut off."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}
