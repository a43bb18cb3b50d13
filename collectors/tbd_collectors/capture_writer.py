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
    """Raise UsageError if ``path`` exists, unless it is an empty directory or an empty capture.

    ``force`` permits a capture with records, too.
    """
    if not path.exists() and not path.is_symlink():
        return
    is_directory = path.is_dir() and not path.is_symlink()
    if is_directory and (not any(path.iterdir()) or (_is_written(path) and not has_records(path))):
        return
    if not force:
        raise UsageError(f"{path} exists; choose another -o, or --force to replace it")
    if not is_directory or not _is_written(path):
        raise UsageError(f"{path} is not a capture, so --force does not replace it")


def _is_written(path: Path) -> bool:
    return any((path / name).is_file() for name in ("capture.json", "job.json"))


def has_records(path: Path) -> bool:
    """Return True if something was recorded in a capture or a job, also if it is damaged."""
    for capture in path.rglob("capture.json"):
        document = read_json(capture)
        # A model whose timeline failed still has its throughput.
        if document.get("files") != [] or document.get("throughput"):
            return True
    if not (path / "job.json").is_file():
        return False
    job = read_json(path / "job.json")
    return job.get("status") in (None, "ok") or any(p.get("link") for p in job["points"])


def keeps_earlier(path: Path, new: Path) -> bool:
    """Return True if ``path`` has records and is not to be replaced by ``new``, which has none."""
    return path.is_dir() and has_records(path) and not has_records(new)


@contextmanager
def written(path: Path, force: bool = False) -> Iterator[Path]:
    """Yield an empty directory that is renamed to ``path`` if the block ends without an error.

    A capture with records stays in place of one without, also with ``force``.

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
            if not keeps_earlier(path, beside):
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
    if path.is_dir() and not any(path.iterdir()):
        _move_into(new, path)
        return
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


def _move_into(new: Path, path: Path) -> None:
    # The user has made this directory: it may be the current one, or have other permissions.
    for child in sorted(new.iterdir(), key=lambda child: child.suffix == ".json"):
        shutil.move(child, path / child.name)


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
