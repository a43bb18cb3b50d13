"""Upload an archive to an object store."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from tbd_trace.archive.manifest import FILE, Manifest
from tbd_trace.archive.remote_files import HTTP, remote_errors, remote_file_system
from tbd_trace.archive.storage_backends import RemoteDirectory
from tbd_trace.errors import StoreError, UsageError


class RemoteTarget:
    """The place of a new archive behind a URL.

    ``archive.json`` is written last, so that readers find complete archives only.

    Raises:
        StoreError: the place cannot be reached.
        UsageError: it cannot be written, or there is something already and ``force`` is not set.
    """

    def __init__(self, url: str, *, force: bool) -> None:
        if urlsplit(url).scheme.lower() in HTTP:
            raise UsageError(f"{url}: can only be read; choose a path or an s3:// URL")
        self._url = url
        self.is_zip = urlsplit(url).path.endswith(".zip")
        self._filesystem, self._root = remote_file_system(url)
        with remote_errors(url):
            exists = self._filesystem.exists(self._root if self.is_zip else self._path(FILE))
        if exists and not force:
            raise UsageError(f"{url}: exists; choose another name, or replace it with --force")
        self._replaces = exists

    def upload_zip(self, file: Path) -> None:
        """Upload a zip file, which appears complete or not at all.

        Raises:
            StoreError: it cannot be written.
        """
        with self._writing():
            self._filesystem.put_file(str(file), self._root)

    def upload(self, directory: Path, paths: Sequence[str]) -> None:
        """Upload the files of an archive; after an error, none of them stays.

        Raises:
            StoreError: it cannot be written.
        """
        old = self._old_paths() if self._replaces else set()
        with self._writing():
            if self._replaces:
                self._filesystem.rm_file(self._path(FILE))
            begun = []
            try:
                for path in (*paths, FILE):
                    begun.append(path)
                    self._filesystem.put_file(str(directory / path), self._path(path))
            except BaseException:
                self._remove(begun)
                raise
            self._remove(sorted(old.difference(paths)))

    def _old_paths(self) -> set[str]:
        backend = RemoteDirectory(self._filesystem, self._root, self._url)
        try:
            manifest = Manifest.from_bytes(b"".join(backend.chunks(FILE)), self._url)
        except FileNotFoundError:  # removed by another process
            return set()
        return {file.path for file in manifest.files}

    def _remove(self, paths: Sequence[str]) -> None:
        with contextlib.suppress(Exception):  # the connection is lost
            for path in paths:
                self._filesystem.rm_file(self._path(path))

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            with remote_errors(self._url, "written"):
                yield
        except FileNotFoundError:  # the bucket
            raise StoreError(f"{self._url}: not found; create the bucket first") from None

    def _path(self, path: str) -> str:
        return f"{self._root}/{path}"
