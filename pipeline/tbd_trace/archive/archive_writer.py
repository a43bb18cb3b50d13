"""Write an archive in a private directory and publish it atomically."""

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
from tbd_trace.archive.remote_target import RemoteTarget
from tbd_trace.archive.storage_backends import is_archive, is_url
from tbd_trace.errors import StoreError, UsageError
from tbd_trace.runtime.private_files import private_prefix, remove_abandoned, temporary_directory
from tbd_trace.store.database import LAYOUT
from tbd_trace.store.staging import apply_umask
from tbd_trace.version import __version__

# The comment of a zip archive: the SHA-256 of every byte before the digest.
_SEAL = b"sha256:"
_DIGEST_LENGTH = 64


@dataclass(slots=True)
class ArchiveWriter:
    """An archive that is being written to the private directory ``root``."""

    root: Path
    files: list[ArchivedFile] = field(default_factory=list)
    captures: list[ArchivedCapture] = field(default_factory=list)
    traces: list[ArchivedTrace] = field(default_factory=list)

    def path_for(self, path: str) -> Path:
        """Return the path to write a file of the archive to; make its directory."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        return file

    def register(self, path: str, rows: int | None = None) -> None:
        """Register a written file with its size and checksum; ``rows`` is set for tables."""
        with (self.root / path).open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            size = file.tell()
        self.files.append(ArchivedFile(path, size, digest, rows))

    def add(self, path: str, content: Iterable[bytes], rows: int | None = None) -> None:
        with self.path_for(path).open("wb") as file:
            file.writelines(content)
        self.register(path, rows)

    def finish(self) -> Manifest:
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
def new_archive(target: Path | str, *, force: bool = False) -> Iterator[ArchiveWriter]:
    """Write an archive; it appears complete, or not at all.

    Args:
        target: path or URL of the archive: a zip file if it ends in ``.zip``, else a directory.

    Raises:
        StoreError: the archive cannot be written.
        UsageError: the target exists, and ``force`` is not set or it is not such an archive.
    """
    if is_url(str(target)):
        with _uploaded(str(target), force) as writer:
            yield writer
        return
    target = Path(target)
    _check_target(target, force)
    try:
        # Beside the target, because a rename is atomic only within a file system.
        remove_abandoned(target.parent, target.name)
        prefix = private_prefix(target)
        with tempfile.TemporaryDirectory(prefix=prefix, dir=target.parent) as temporary:
            private = Path(temporary)
            writer = ArchiveWriter(private / "archive")
            writer.root.mkdir()
            yield writer
            finished = writer.root
            if target.suffix == ".zip":
                finished = _zipped(writer, private / "archive.zip")
            _publish(finished, target, private / "replaced")
    except OSError as error:
        raise StoreError(f"{target}: cannot be written ({error.strerror})") from error


@contextlib.contextmanager
def _uploaded(url: str, force: bool) -> Iterator[ArchiveWriter]:
    remote = RemoteTarget(url, force=force)
    try:
        with temporary_directory() as temporary:
            writer = ArchiveWriter(Path(temporary) / "archive")
            writer.root.mkdir()
            yield writer
            if remote.is_zip:
                remote.upload_zip(_zipped(writer, Path(temporary) / "archive.zip"))
            else:
                remote.upload(writer.root, [file.path for file in writer.files])
    except OSError as error:
        raise StoreError(f"{tempfile.gettempdir()}: cannot be written ({error})") from error


def _check_target(target: Path, force: bool) -> None:
    if not target.exists():
        return
    if not force:
        raise UsageError(f"{target}: exists; choose another name, or replace it with --force")
    if not is_archive(str(target)) or target.is_dir() != (target.suffix != ".zip"):
        raise UsageError(f"{target}: exists and is not such an archive; choose another name")


def _publish(finished: Path, target: Path, replaced: Path) -> None:
    # Temporary directories have mode 0700; the archive gets the permissions of the umask.
    apply_umask(finished)
    if target.is_dir():
        # rename(2) does not replace a directory with files, so the old archive steps aside first.
        target.rename(replaced)
        try:
            finished.rename(target)
        except OSError:
            replaced.rename(target)
            raise
    else:
        finished.replace(target)


def _zipped(writer: ArchiveWriter, path: Path) -> Path:
    # Sorted members with ZipInfo's fixed date (1980) and mode: equal files give equal bytes.
    with zipfile.ZipFile(path, "w") as archive:
        for name in [FILE, *sorted(file.path for file in writer.files)]:
            member = zipfile.ZipInfo(name)
            member.external_attr = 0o644 << 16  # Unix mode in the upper half
            # zipfile needs the size in advance to choose zip64 for members above 2 GiB.
            member.file_size = (writer.root / name).stat().st_size
            # Parquet is compressed already; stored members can be read from the middle.
            small = name.endswith(".json")
            member.compress_type = zipfile.ZIP_DEFLATED if small else zipfile.ZIP_STORED
            with (writer.root / name).open("rb") as source, archive.open(member, "w") as copy:
                shutil.copyfileobj(source, copy)
        archive.comment = _SEAL + b"0" * _DIGEST_LENGTH
    # The digest covers the end record, which is complete only after the file is closed.
    with path.open("r+b") as file:
        digest = _digest_before_seal(file)
        file.seek(-_DIGEST_LENGTH, os.SEEK_END)
        file.write(digest)
    return path


def seal_is_broken(file: BinaryIO, comment: bytes) -> bool:
    """Return True if a zip file differs from the checksum in its comment."""
    # A program that repacks the archive drops the comment, and with it the checksum.
    return bool(comment) and comment != _SEAL + _digest_before_seal(file)


def _digest_before_seal(file: BinaryIO) -> bytes:
    left = file.seek(-_DIGEST_LENGTH, os.SEEK_END)
    file.seek(0)
    digest = hashlib.sha256()
    while left > 0 and (chunk := file.read(min(left, 1 << 20))):
        digest.update(chunk)
        left -= len(chunk)
    return digest.hexdigest().encode()
