"""Where an archive's files are: in a directory, in a zip file, or behind a URL of either."""

from __future__ import annotations

import contextlib
import io
import os
import re
import tempfile
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, BinaryIO, cast
from urllib.parse import urlsplit

from tbd_trace.archive.manifest import FILE, is_safe
from tbd_trace.errors import StoreError, UsageError

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_CONNECT_SECONDS = 10
_SILENT_SECONDS = 30
_CHUNK_BYTES = 1 << 20
_ENCRYPTED = 1  # in a member's flags
_END_RECORD = 22  # bytes of the record before the comment that ends a zip file


class StorageBackend(ABC):
    """Read access to the files of an archive.

    Attributes:
        name: how the user names it.
    """

    name: str

    @abstractmethod
    def _open(self, path: str) -> BinaryIO:
        """Open a file for reading; the caller closes it."""

    def local(self, path: str) -> Path | None:
        """Return a file of this machine that can be read in place, None where there is none."""
        return None

    def paths(self) -> set[str] | None:
        """Return all files that are there, None where that cannot be found out."""
        return None

    def chunks(self, path: str) -> Iterator[bytes]:
        """Yield the bytes of a file.

        Raises:
            FileNotFoundError: there is none.
            StoreError: it cannot be read.
        """
        with contextlib.ExitStack() as stack:
            with self._explained(path):
                file = stack.enter_context(self._open(path))
            while True:
                with self._explained(path):
                    chunk = file.read(_CHUNK_BYTES)
                if not chunk:
                    return
                yield chunk

    def _explained(self, path: str) -> AbstractContextManager[None]:
        """Explain errors of reading a file."""
        return _read(self.name, path)


class Directory(StorageBackend):
    """An archive that is a directory."""

    def __init__(self, root: Path) -> None:
        self.name, self._root = str(root), root

    def _open(self, path: str) -> BinaryIO:
        return self.local(path).open("rb")

    def local(self, path: str) -> Path:
        """Return the file; links out of the archive are refused."""
        file = self._root / path
        if not file.resolve().is_relative_to(self._root.resolve()):
            raise StoreError(f"{self.name}: {path} is a link out of the archive; do not trust it")
        return file

    def paths(self) -> set[str]:
        """Return all files below the directory."""
        return {
            (Path(directory) / file).relative_to(self._root).as_posix()
            for directory, _, files in os.walk(self._root)
            for file in files
        }


class Zip(StorageBackend):
    """An archive that is a zip file.

    Args:
        file: the zip file.
        name: how the user names it.

    Raises:
        StoreError: it is no zip file, incomplete, or has members that lead out of it.
    """

    def __init__(self, file: BinaryIO, name: str) -> None:
        self.name, self.file = name, file
        try:
            self._zip = zipfile.ZipFile(file)
            _check_comment(file, self._zip.comment)
        except (zipfile.BadZipFile, EOFError, ValueError, NotImplementedError) as error:
            raise StoreError(
                f"{name}: no complete zip file ({error}); if it was downloaded, download it again"
            ) from error
        members = [member for member in self._zip.infolist() if not member.is_dir()]
        for member in members:
            if not is_safe(member.filename) or member.flag_bits & _ENCRYPTED:
                raise StoreError(f"{name}: has a member {member.filename!r}; do not trust it")
        self._members = {member.filename: member for member in members}
        if len(self._members) < len(members):
            raise StoreError(f"{name}: has two members of one name; do not trust it")

    def _open(self, path: str) -> BinaryIO:
        if path not in self._members:
            raise FileNotFoundError(path)
        return cast("BinaryIO", self._zip.open(self._members[path]))

    def paths(self) -> set[str]:
        """Return the names of all members."""
        return set(self._members)

    @property
    def comment(self) -> bytes:
        """The comment that ends the file."""
        return self._zip.comment

    def _explained(self, path: str) -> AbstractContextManager[None]:
        return _unpacked(self.name, path)


def _check_comment(file: BinaryIO, comment: bytes) -> None:
    """Make sure that a zip file has the whole comment, which is the last thing in it.

    Raises:
        zipfile.BadZipFile: it is shorter than the record before it says.
    """
    file.seek(-_END_RECORD - len(comment), os.SEEK_END)
    record = file.read(_END_RECORD)
    if record.startswith(b"PK\5\6") and int.from_bytes(record[-2:], "little") > len(comment):
        raise zipfile.BadZipFile("its end is missing")


class RemoteDirectory(StorageBackend):
    """An archive that is a directory behind a URL.

    Args:
        filesystem: its fsspec file system.
        root: the directory, as that has it.
        name: how the user names it.
    """

    def __init__(self, filesystem: Any, root: str, name: str) -> None:
        self.name, self._filesystem, self._root = name, filesystem, root.rstrip("/")

    def _open(self, path: str) -> BinaryIO:
        return io.BytesIO(self._filesystem.cat_file(f"{self._root}/{path}"))

    def _explained(self, path: str) -> AbstractContextManager[None]:
        return _reached(f"{self.name.rstrip('/')}/{path}")


def is_url(text: str) -> bool:
    """Tell whether a text is a URL rather than a path."""
    return _URL.match(text) is not None


def is_archive(location: str) -> bool:
    """Tell whether a URL, a directory with archive.json or a zip file is named."""
    if is_url(location):
        return True
    path = Path(location)
    try:
        return (path / FILE).is_file() or (path.is_file() and _is_zip(path))
    except (OSError, ValueError):  # no path at all: too long, for one
        return False


def _is_zip(path: Path) -> bool:
    if path.suffix == ".zip":
        return True
    with path.open("rb") as file:
        return file.read(4) == b"PK\x03\x04"


def place_of(location: str) -> StorageBackend:
    """Return the place that a path or a URL names.

    Raises:
        StoreError: it cannot be read.
        UsageError: the URL is of a kind that cannot be read here.
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


def _remote(url: str) -> StorageBackend:
    try:
        import fsspec  # noqa: PLC0415 - an extra
    except ImportError:
        raise UsageError(
            f"{url}: reading from a URL takes `pip install 'tbd-trace[remote]'`"
        ) from None
    scheme = url.partition("://")[0].lower()
    try:
        filesystem, root = fsspec.core.url_to_fs(url, **_options(scheme))
    except (ImportError, ValueError) as error:
        raise UsageError(f"{url}: cannot be read here ({error})") from error
    if not urlsplit(url).path.endswith(".zip"):
        return RemoteDirectory(filesystem, root, url)
    try:
        with _reached(url):
            return Zip(_seekable(filesystem, root), url)
    except FileNotFoundError:
        raise StoreError(f"{url}: there is nothing; check the address") from None


def _options(scheme: str) -> dict[str, Any]:
    if scheme not in ("http", "https"):
        return {}
    import aiohttp  # noqa: PLC0415 - an extra

    timeout = aiohttp.ClientTimeout(
        total=None, sock_connect=_CONNECT_SECONDS, sock_read=_SILENT_SECONDS
    )
    return {"client_kwargs": {"timeout": timeout}}


def _seekable(filesystem: Any, root: str) -> BinaryIO:
    """Open a remote file so that parts of it can be read; as a whole where the server cannot."""
    whole_only = "http" in filesystem.protocol and not filesystem.info(root).get("partial")
    if not whole_only:
        return cast("BinaryIO", filesystem.open(root, "rb"))
    copy = tempfile.NamedTemporaryFile(prefix="tbd-trace-")  # noqa: SIM115 - the caller reads it
    filesystem.get_file(root, copy.name)
    return cast("BinaryIO", copy)


@contextlib.contextmanager
def _read(name: str, path: str) -> Iterator[None]:
    """Explain what went wrong with a file of this machine."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        reason = error.strerror or str(error)
        raise StoreError(f"{name}: {path} cannot be read ({reason})") from error


@contextlib.contextmanager
def _unpacked(name: str, path: str) -> Iterator[None]:
    """Explain what went wrong with a member of a zip file, here or behind a URL."""
    try:
        with _reached(name) if is_url(name) else _read(name, path):
            yield
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise StoreError(f"{name}: {path} is damaged ({error}); get the archive again") from error


@contextlib.contextmanager
def _reached(url: str) -> Iterator[None]:
    """Explain what went wrong on the way to a URL; each protocol has errors of its own."""
    try:
        yield
    except (FileNotFoundError, StoreError, zipfile.BadZipFile, zlib.error, EOFError):
        raise
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise StoreError(
            f"{url}: cannot be read ({reason}); check the address and the connection"
        ) from error
