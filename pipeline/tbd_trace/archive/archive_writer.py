"""Writing an archive: in a private directory, which takes its place in one step."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from tbd_trace.archive.manifest import (
    FILE,
    ArchivedCapture,
    ArchivedFile,
    ArchivedTrace,
    Manifest,
)
from tbd_trace.archive.storage_backends import is_archive
from tbd_trace.errors import StoreError, UsageError
from tbd_trace.store.database import LAYOUT
from tbd_trace.store.staging import everybodys
from tbd_trace.version import __version__

_SEAL = b"sha256:"
_DIGEST_LENGTH = 64


@dataclass(slots=True)
class ArchiveWriter:
    """An archive that is being written.

    Attributes:
        root: private directory with its files so far.
        files: those files.
        captures: the captures in it.
        traces: the traces in it.
    """

    root: Path
    files: list[ArchivedFile] = field(default_factory=list)
    captures: list[ArchivedCapture] = field(default_factory=list)
    traces: list[ArchivedTrace] = field(default_factory=list)

    def place(self, path: str) -> Path:
        """Return where a file of the archive is to be written."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        return file

    def list(self, path: str, rows: int | None = None) -> None:
        """Take a file that has been written into the archive."""
        with (self.root / path).open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            size = file.tell()
        self.files.append(ArchivedFile(path, size, digest, rows))

    def add(self, path: str, content: Iterable[bytes], rows: int | None = None) -> None:
        """Write a file and take it into the archive."""
        with self.place(path).open("wb") as file:
            file.writelines(content)
        self.list(path, rows)

    def finish(self) -> Manifest:
        """Write ``archive.json``."""
        manifest = Manifest(
            layout=LAYOUT,
            created_at=datetime.now(UTC).isoformat(timespec="seconds"),
            created_by=f"tbd-trace {__version__}",
            captures=self.captures,
            traces=self.traces,
            files=sorted(self.files, key=lambda file: file.path),
        )
        (self.root / FILE).write_bytes(manifest.to_bytes())
        return manifest


@contextlib.contextmanager
def new_archive(target: Path, *, force: bool = False) -> Iterator[ArchiveWriter]:
    """Write an archive; it appears complete, or not at all.

    Args:
        target: where it goes: a zip file if its name ends in ``.zip``, else a directory.
        force: replace an archive that is there.

    Raises:
        StoreError: it cannot be written.
        UsageError: something is there already that is not to be replaced.
    """
    _check_target(target, force)
    try:
        with tempfile.TemporaryDirectory(prefix=f".{target.name}-", dir=target.parent) as made_for:
            private = Path(made_for)
            draft = ArchiveWriter(private / "archive")
            draft.root.mkdir()
            yield draft
            made = draft.root
            if target.suffix == ".zip":
                made = _zipped(draft, private / "archive.zip")
            _publish(made, target, private / "replaced")
    except OSError as error:
        raise StoreError(f"{target}: cannot be written ({error.strerror})") from error


def _check_target(target: Path, force: bool) -> None:
    if not target.exists():
        return
    if not force:
        raise UsageError(f"{target}: exists; choose another name, or replace it with --force")
    if not is_archive(str(target)) or target.is_dir() != (target.suffix != ".zip"):
        raise UsageError(f"{target}: exists and is no archive of that form; choose another name")


def _publish(made: Path, target: Path, replaced: Path) -> None:
    """Give a finished archive its place; the one that was there stays until then."""
    everybodys(made)
    if target.is_dir():
        target.rename(replaced)
        try:
            made.rename(target)
        except OSError:
            replaced.rename(target)
            raise
    else:
        made.replace(target)


def _zipped(draft: ArchiveWriter, path: Path) -> Path:
    """Return the draft as a zip file; the same files always give the same bytes.

    Tables are stored as they are, for they are compressed already and can then be read from the
    middle of the file.
    """
    with zipfile.ZipFile(path, "w") as archive:
        for name in [FILE, *sorted(file.path for file in draft.files)]:
            member = zipfile.ZipInfo(name)
            member.external_attr = 0o644 << 16
            member.file_size = (draft.root / name).stat().st_size  # tells whether it is large
            small = name.endswith(".json")
            member.compress_type = zipfile.ZIP_DEFLATED if small else zipfile.ZIP_STORED
            with (draft.root / name).open("rb") as source, archive.open(member, "w") as copy:
                shutil.copyfileobj(source, copy)
        archive.comment = _SEAL + b"0" * _DIGEST_LENGTH
    with path.open("r+b") as file:
        digest = _digest_before_seal(file)
        file.seek(-_DIGEST_LENGTH, os.SEEK_END)
        file.write(digest)
    return path


def seal_is_broken(file: BinaryIO, comment: bytes) -> bool:
    """Tell whether any byte of a zip archive is not as it was written.

    One that another program packed again has no checksum as a whole, and so none that is broken.
    """
    return bool(comment) and comment != _SEAL + _digest_before_seal(file)


def _digest_before_seal(file: BinaryIO) -> bytes:
    left = file.seek(-_DIGEST_LENGTH, os.SEEK_END)
    file.seek(0)
    digest = hashlib.sha256()
    while left > 0 and (chunk := file.read(min(left, 1 << 20))):
        digest.update(chunk)
        left -= len(chunk)
    return digest.hexdigest().encode()
