"""Storage backends of archives: directory, zip file, and remote directory or zip file."""

from __future__ import annotations

import contextlib
import io
import os
import re
import stat
import tempfile
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, BinaryIO, cast
from urllib.parse import urlsplit

from tbd_trace.archive.manifest import FILE, LARGEST_BYTES, Manifest, is_safe
from tbd_trace.archive.remote_files import remote_errors, remote_file_system
from tbd_trace.errors import StoreError
from tbd_trace.runtime.private_files import private_prefix, shared_place

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_CHUNK_BYTES = 1 << 20
_ENCRYPTED = 1  # bit 0 of a member's flags
_END_RECORD = 22  # bytes of the end of central directory record, which the comment follows


class StorageBackend(ABC):
    """Read access to the files of an archive."""

    name: str  # path or URL as the user gave it, for error messages

    @abstractmethod
    def _open(self, path: str) -> BinaryIO:
        """Open a file for reading; the caller closes it."""

    def local(self, path: str) -> Path | None:
        """Return the local path of a file, None if it must be copied to be read."""
        return None

    def paths(self) -> set[str] | None:
        """Return the paths of all files, None if the backend cannot list them."""
        return None

    def chunks(self, path: str) -> Iterator[bytes]:
        """Yield the bytes of a file.

        Raises:
            FileNotFoundError: the file does not exist.
            StoreError: the file cannot be read.
        """
        # Errors are translated around each call only: an exception that the consumer throws into
        # this generator at the yield is not an error of reading.
        with contextlib.ExitStack() as stack:
            with self._errors(path):
                file = stack.enter_context(self._open(path))
            while True:
                with self._errors(path):
                    chunk = file.read(_CHUNK_BYTES)
                if not chunk:
                    return
                yield chunk

    def _errors(self, path: str) -> AbstractContextManager[None]:
        return _local_errors(self.name, path)


class Directory(StorageBackend):
    """An archive in a local directory."""

    def __init__(self, root: Path) -> None:
        self.name, self._root = str(root), root

    def _open(self, path: str) -> BinaryIO:
        return self.local(path).open("rb")

    def local(self, path: str) -> Path:
        """Return the path of a file.

        Raises:
            StoreError: a symbolic link leads out of the archive.
        """
        file = self._root / path
        if not file.resolve().is_relative_to(self._root.resolve()):
            raise StoreError(f"{self.name}: {path} is a link out of the archive; do not trust it")
        return file

    def paths(self) -> set[str]:
        return {
            (Path(directory) / file).relative_to(self._root).as_posix()
            for directory, _, files in os.walk(self._root)
            for file in files
        }


class Zip(StorageBackend):
    """An archive in a seekable zip file.

    Raises:
        StoreError: it is not a complete zip file, or a member is a link or has an unsafe name.
    """

    def __init__(self, file: BinaryIO, name: str) -> None:
        self.name, self.file = name, file
        try:
            self._zip = zipfile.ZipFile(file)
            _check_comment(file, self._zip.comment)
        except (zipfile.BadZipFile, EOFError, ValueError, NotImplementedError) as error:
            raise StoreError(
                f"{name}: not a complete zip file ({error}); get the archive again"
            ) from error
        entries = self._zip.infolist()
        # `is_dir` fails for a member without a name.
        members = [entry for entry in entries if not entry.filename.endswith("/")]
        for member in members:
            if not _is_plain(member):
                raise StoreError(f"{name}: has a member {member.filename!r}; do not trust it")
        self._members = {member.filename: member for member in members}
        if len(self._members) < len(members):
            raise StoreError(f"{name}: has two members with the same name; do not trust it")

    def _open(self, path: str) -> BinaryIO:
        if path not in self._members:
            raise FileNotFoundError(path)
        return cast("BinaryIO", self._zip.open(self._members[path]))

    def paths(self) -> set[str]:
        return set(self._members)

    @property
    def comment(self) -> bytes:
        return self._zip.comment

    def _errors(self, path: str) -> AbstractContextManager[None]:
        return _zip_errors(self.name, path)


def _is_plain(member: zipfile.ZipInfo) -> bool:
    # The upper half is the mode of Unix; programs of other systems leave it 0.
    kind = stat.S_IFMT(member.external_attr >> 16)
    is_file = kind in (0, stat.S_IFREG)
    return is_safe(member.filename) and is_file and not member.flag_bits & _ENCRYPTED


def _check_comment(file: BinaryIO, comment: bytes) -> None:
    # The comment comes last, and zipfile accepts a file that ends in the middle of it.
    file.seek(-_END_RECORD - len(comment), os.SEEK_END)
    record = file.read(_END_RECORD)
    if record.startswith(b"PK\5\6") and int.from_bytes(record[-2:], "little") > len(comment):
        raise zipfile.BadZipFile("its end is missing")


class RemoteDirectory(StorageBackend):
    """An archive in the directory ``root`` of a file system of fsspec."""

    def __init__(self, filesystem: Any, root: str, name: str) -> None:
        self.name, self._filesystem, self._root = name, filesystem, root.rstrip("/")

    def _open(self, path: str) -> BinaryIO:
        return io.BytesIO(self._filesystem.cat_file(f"{self._root}/{path}"))

    def _errors(self, path: str) -> AbstractContextManager[None]:
        return remote_errors(f"{self.name.rstrip('/')}/{path}")


def is_url(text: str) -> bool:
    """Return True if a location is a URL, not a path."""
    return _URL.match(text) is not None


def is_archive(location: str) -> bool:
    """Return True for any URL, a directory with ``archive.json``, or a zip file."""
    if is_url(location):
        return True
    path = Path(location)
    try:
        return (path / FILE).is_file() or (path.is_file() and _is_zip(path))
    except (OSError, ValueError):  # not a path: too long, or with a NUL character
        return False


def _is_zip(path: Path) -> bool:
    if path.suffix == ".zip":
        return True
    with path.open("rb") as file:
        return file.read(4) == b"PK\x03\x04"  # header of the first member


def open_backend(location: str) -> StorageBackend:
    """Open an archive's storage by path or URL.

    Raises:
        StoreError: it cannot be read.
        UsageError: the scheme of the URL is unknown, or its package is not installed.
    """
    if is_url(location):
        return _remote(location)
    path = Path(location)
    if path.is_dir():
        return Directory(path)
    try:
        return Zip(path.open("rb"), location)
    except OSError as error:
        raise StoreError(f"{location}: cannot be read ({error.strerror})") from error


def read_manifest(backend: StorageBackend) -> Manifest:
    """Read ``archive.json``.

    Raises:
        StoreError: it is missing, damaged or of a newer version, or does not list all members of a
            zip file. Users may add files to a directory.
    """
    content = b""
    try:
        for chunk in backend.chunks(FILE):
            content += chunk
            if len(content) > LARGEST_BYTES:
                raise StoreError(f"{backend.name}: {FILE} is too large; do not trust it")
    except (FileNotFoundError, NotADirectoryError):
        raise StoreError(
            f"{backend.name}: not a trace archive ({FILE} is missing); "
            "make one with `tbd-trace archive create`"
        ) from None
    manifest = Manifest.from_bytes(content, backend.name)
    if isinstance(backend, Zip):
        manifest.check_members(backend.paths(), backend.name)
    return manifest


def _remote(url: str) -> StorageBackend:
    filesystem, root = remote_file_system(url)
    if not urlsplit(url).path.endswith(".zip"):
        return RemoteDirectory(filesystem, root, url)
    try:
        with remote_errors(url):
            return Zip(_seekable(filesystem, root), url)
    except FileNotFoundError:
        raise StoreError(f"{url}: not found; check the address") from None


def _seekable(filesystem: Any, root: str) -> BinaryIO:
    # A zip file is read from the end. HTTP servers without range requests send whole files only,
    # so these are downloaded first.
    whole_only = "http" in filesystem.protocol and not filesystem.info(root).get("partial")
    if not whole_only:
        return cast("BinaryIO", filesystem.open(root, "rb"))
    place = shared_place()
    copy = tempfile.NamedTemporaryFile(  # noqa: SIM115 - the caller reads it
        prefix=private_prefix(place), dir=place.parent
    )
    filesystem.get_file(root, copy.name)
    return cast("BinaryIO", copy)


@contextlib.contextmanager
def _local_errors(name: str, path: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:  # part of the interface: see StorageBackend.chunks
        raise
    except OSError as error:
        reason = error.strerror or str(error)
        raise StoreError(f"{name}: {path} cannot be read ({reason})") from error


@contextlib.contextmanager
def _zip_errors(name: str, path: str) -> Iterator[None]:
    try:
        with remote_errors(name) if is_url(name) else _local_errors(name, path):
            yield
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise StoreError(f"{name}: {path} is damaged ({error}); get the archive again") from error
