"""``archive.json``: what an archive holds, and the checksums of its files."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from tbd_trace.errors import StoreError

FILE = "archive.json"
FORMAT = "tbd-trace archive"
VERSION = 1
"""Raised when a reader of an earlier version would misunderstand an archive."""
LARGEST_BYTES = 1 << 26
"""No ``archive.json`` is larger; what is was not written by tbd-trace."""

_UNSAFE = re.compile(r"[\\:\x00-\x1f\x7f\ud800-\udfff]")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_TRACE_ID = re.compile(r"[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class ArchivedFile:
    """One file of an archive.

    Attributes:
        path: where it is in the archive, with ``/`` between names.
        size_bytes: its size.
        sha256: SHA-256 of its bytes, hexadecimal.
        rows: rows of a table, None for other files.
    """

    path: str
    size_bytes: int
    sha256: str
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class ArchivedTrace:
    """One trace of an archive; its tables are ``traces/<trace_id>/<table>.parquet``.

    Attributes:
        trace_id: its id.
        name: its name.
        tool: the profiler, and ``tool_version`` its version, None when unknown.
        kind: ``timeline``, ``metrics`` or ``summary``.
        capture_id: the capture that it belongs to, None for a lone profile.
        kernels: number of kernel executions.
        kept: kinds of private texts that were left in (see :mod:`tbd_trace.redact.tables`).
        replaced: number of texts replaced, by kind.
    """

    trace_id: str
    name: str
    tool: str
    tool_version: str | None
    kind: str
    capture_id: str | None
    kernels: int
    kept: list[str] = field(default_factory=list)
    replaced: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ArchivedCapture:
    """One capture of an archive.

    Attributes:
        capture_id: its id.
        directory: where its ``capture.json`` and ``layers.json`` are, and profiles if any.
        trace_ids: its traces.
    """

    capture_id: str
    directory: str
    trace_ids: list[str]


@dataclass(frozen=True, slots=True)
class Manifest:
    """What ``archive.json`` says.

    Attributes:
        layout: version of the canonical tables.
        created_at: UTC time, ISO 8601.
        created_by: the program that wrote it.
        captures: the captures.
        traces: the traces, in the order in which they were given.
        files: every file of the archive but ``archive.json``.
    """

    layout: str
    created_at: str
    created_by: str
    captures: list[ArchivedCapture]
    traces: list[ArchivedTrace]
    files: list[ArchivedFile]

    def to_bytes(self) -> bytes:
        """Return the file: JSON that ends with a checksum of all the rest of it."""
        document = {"format": FORMAT, "format_version": VERSION, **asdict(self)}
        return _sealed(document)

    @classmethod
    def from_bytes(cls, content: bytes, name: str) -> Manifest:
        """Read the file.

        Args:
            content: its bytes.
            name: the archive, for messages.

        Raises:
            StoreError: it is damaged, of a newer version, or names files outside the archive.
        """
        document = _document(content, name)
        version = document.get("format_version")
        if document.get("format") != FORMAT or not isinstance(version, int):
            raise StoreError(f"{name}: its {FILE} is not of a trace archive; name another")
        if version > VERSION:
            raise StoreError(
                f"{name}: of archive format {version}, and this version of tbd-trace reads up to "
                f"{VERSION}; upgrade tbd-trace"
            )
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
        """Refuse what no archive that tbd-trace wrote can say."""
        for file in self.files:
            if not is_safe(file.path) or not _SHA256.fullmatch(str(file.sha256)):
                raise StoreError(f"{name}: {FILE} names the file {file.path!r}; do not trust it")
            if not isinstance(file.size_bytes, int) or file.size_bytes < 0:
                raise StoreError(f"{name}: {FILE} has no size of {file.path!r}; do not trust it")
        paths = Counter(file.path for file in self.files)
        for path, times in paths.most_common(1):
            if times > 1:
                raise StoreError(f"{name}: {FILE} names {path!r} twice; do not trust it")
        ids = [trace.trace_id for trace in self.traces]
        if len(set(ids)) < len(ids):
            raise StoreError(f"{name}: {FILE} has two traces of one id; do not trust it")
        for trace_id in ids:
            if not _TRACE_ID.fullmatch(str(trace_id)):
                raise StoreError(f"{name}: {FILE} has the trace id {trace_id!r}; do not trust it")
            if table_path(trace_id, "trace") not in paths:
                raise StoreError(f"{name}: {FILE} lacks the table of trace {trace_id}")

    def of_trace(self, trace_id: str) -> list[ArchivedFile]:
        """Return the tables of a trace."""
        return [file for file in self.files if file.path.startswith(f"traces/{trace_id}/")]


def table_path(trace_id: str, table: str) -> str:
    """Return where an archive has a table of a trace."""
    return f"traces/{trace_id}/{table}.parquet"


def is_safe(path: object) -> bool:
    """Tell whether a path stays inside the archive wherever it is unpacked."""
    if not isinstance(path, str) or _UNSAFE.search(path):
        return False
    return not {"", ".", ".."} & set(path.split("/"))


def _document(content: bytes, name: str) -> dict[str, Any]:
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise StoreError(f"{name}: {FILE} is no JSON ({error}); get the archive again") from error
    if not isinstance(document, dict):
        raise StoreError(f"{name}: {FILE} is no JSON object; get the archive again")
    return document


def _sealed(document: Mapping[str, Any]) -> bytes:
    """Return a document as JSON with a checksum; the same document always gives the same bytes."""
    body = {key: value for key, value in document.items() if key != "checksum"}
    digest = hashlib.sha256(_json(body)).hexdigest()
    return _json({**body, "checksum": digest})


def _json(document: Mapping[str, Any] | Sequence[Any]) -> bytes:
    return (json.dumps(document, indent=1, ensure_ascii=False) + "\n").encode()
