"""Read and write ``archive.json``, the contents and checksums of an archive."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from tbd_trace.errors import StoreError

FILE = "archive.json"
FORMAT = "tbd-trace archive"
VERSION = 1
"""Format version; increased when older readers would misread an archive."""
LARGEST_BYTES = 1 << 26
"""Maximum size of ``archive.json`` in bytes, so that an untrusted one cannot fill the memory."""

# Backslashes and drive colons (Windows), control characters, and surrogates (not valid UTF-8).
_UNSAFE = re.compile(r"[\\:\x00-\x1f\x7f\ud800-\udfff]")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_TRACE_ID = re.compile(r"[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class ArchivedFile:
    """One file of an archive."""

    path: str  # path in the archive, separated by `/`
    size_bytes: int
    sha256: str  # SHA-256, hexadecimal
    rows: int | None = None  # number of rows of a table, None for other files


@dataclass(frozen=True, slots=True)
class ArchivedTrace:
    """One trace of an archive; its tables are ``traces/<trace_id>/<table>.parquet``."""

    trace_id: str
    name: str
    tool: str
    tool_version: str | None  # version of the profiler, None if unknown
    kind: str  # `timeline`, `metrics` or `summary`
    capture_id: str | None  # capture of the trace, None for a single profile
    kernels: int  # number of kernel executions
    # Kinds of private data that were not redacted (`tbd_trace.redact.tables.KINDS`).
    kept: list[str] = field(default_factory=list)
    replaced: dict[str, int] = field(default_factory=dict)  # number of redacted texts by kind


@dataclass(frozen=True, slots=True)
class ArchivedCapture:
    """One capture; ``directory`` has its ``capture.json``, ``layers.json`` and any profiles."""

    capture_id: str
    directory: str
    trace_ids: list[str]


@dataclass(frozen=True, slots=True)
class Manifest:
    """Contents of ``archive.json``."""

    layout: str  # version of the canonical tables
    created_at: str  # UTC time, ISO 8601
    created_by: str  # program and version that wrote it
    captures: list[ArchivedCapture]
    traces: list[ArchivedTrace]  # the traces, in the order given by the user
    files: list[ArchivedFile]  # every file of the archive except `archive.json`

    def to_bytes(self) -> bytes:
        document = {"format": FORMAT, "format_version": VERSION, **asdict(self)}
        return _sealed(document)

    @classmethod
    def from_bytes(cls, content: bytes, name: str) -> Manifest:
        """Parse and validate ``archive.json``.

        Args:
            content: its bytes.
            name: name of the archive for error messages.

        Raises:
            StoreError: the file is damaged, of a newer version, or has paths outside the archive.
        """
        document = _document(content, name)
        version = document.get("format_version")
        if document.get("format") != FORMAT or not isinstance(version, int):
            raise StoreError(f"{name}: its {FILE} is not of a trace archive; name another")
        if version > VERSION:
            raise StoreError(
                f"{name}: archive format {version} is newer than {VERSION}; upgrade tbd-trace"
            )
        # The format comes first: a newer version may compute the checksum differently.
        if _sealed(document) != content:
            raise StoreError(f"{name}: {FILE} was changed or damaged; get the archive again")
        try:
            manifest = cls(
                layout=str(document["layout"]),
                created_at=str(document["created_at"]),
                created_by=str(document["created_by"]),
                captures=[ArchivedCapture(**entry) for entry in document["captures"]],
                traces=[ArchivedTrace(**entry) for entry in document["traces"]],
                files=[ArchivedFile(**entry) for entry in document["files"]],
            )
        except (KeyError, TypeError) as error:
            raise StoreError(f"{name}: {FILE} is incomplete ({error}); create it again") from error
        manifest._check(name)
        return manifest

    def _check(self, name: str) -> None:
        # An archive may come from a stranger, and its paths and ids become paths on this machine.
        for file in self.files:
            if not is_safe(file.path) or not _SHA256.fullmatch(str(file.sha256)):
                raise StoreError(f"{name}: {FILE} names the file {file.path!r}; do not trust it")
            if not isinstance(file.size_bytes, int) or file.size_bytes < 0:
                raise StoreError(
                    f"{name}: {FILE} has an invalid size of {file.path!r}; do not trust it"
                )
        paths = Counter(file.path for file in self.files)
        for path, times in paths.most_common(1):
            if times > 1:
                raise StoreError(f"{name}: {FILE} lists {path!r} twice; do not trust it")
        ids = [trace.trace_id for trace in self.traces]
        if len(set(ids)) < len(ids):
            raise StoreError(f"{name}: {FILE} lists a trace id twice; do not trust it")
        for trace_id in ids:
            if not _TRACE_ID.fullmatch(str(trace_id)):
                raise StoreError(f"{name}: {FILE} has the trace id {trace_id!r}; do not trust it")
            if table_path(trace_id, "trace") not in paths:
                raise StoreError(
                    f"{name}: {FILE} does not list trace {trace_id}; create the archive again"
                )

    def check_members(self, paths: Iterable[str], name: str) -> None:
        """Raise StoreError if a zip file has members that are not listed."""
        if others := set(paths) - {FILE, *(file.path for file in self.files)}:
            raise StoreError(f"{name}: {min(others)} is not listed in {FILE}; do not trust it")

    def tables_of(self, trace_id: str) -> list[ArchivedFile]:
        return [file for file in self.files if file.path.startswith(f"traces/{trace_id}/")]


def table_path(trace_id: str, table: str) -> str:
    """Return the path of a table of a trace in an archive."""
    return f"traces/{trace_id}/{table}.parquet"


def is_safe(path: object) -> bool:
    """Return True if a relative path cannot leave the directory it is unpacked into."""
    if not isinstance(path, str) or _UNSAFE.search(path):
        return False
    return not {"", ".", ".."} & set(path.split("/"))


def _document(content: bytes, name: str) -> dict[str, Any]:
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise StoreError(
            f"{name}: {FILE} is not valid JSON ({error}); get the archive again"
        ) from error
    if not isinstance(document, dict):
        raise StoreError(f"{name}: {FILE} is not a JSON object; get the archive again")
    return document


def _sealed(document: Mapping[str, Any]) -> bytes:
    # Readers serialize the parsed document again, so the same document must give the same bytes.
    body = {key: value for key, value in document.items() if key != "checksum"}
    digest = hashlib.sha256(_json(body)).hexdigest()
    return _json({**body, "checksum": digest})


def _json(document: Mapping[str, Any] | Sequence[Any]) -> bytes:
    return (json.dumps(document, indent=1, ensure_ascii=False) + "\n").encode()
