"""Load a Flight Recorder dump: a pickle or a JSON document, of version 2.x.

Layout: ``torch/csrc/distributed/c10d/FlightRecorder.hpp``. A dump has ``entries`` (the last
operations), ``pg_config`` (process groups by name) and ``pg_status`` (process groups by local id).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tbd_trace.errors import InputError
from tbd_trace.sources import plain_pickle

TABLES = ("flight_group", "flight_record", "job_rank")
"""Canonical tables that dumps have."""
RECORD = (
    "write it again with `TORCH_FR_BUFFER_SIZE=2000`, or "
    "`torch._C._distributed_c10d._dump_fr_trace()`"
)
_KEYS = re.compile(rb"pg_config|pg_status|collective_seq_id")
_VERSIONS = "2."
_RANK = re.compile(r"(?i)rank[-_=.]?(\d{1,9})(?!\d)")
# The last number before the extensions, as in `_dump_3` and `dump_3.pickle`.
_LAST_NUMBER = re.compile(r"(?<!\d)(\d{1,9})(?:\.[A-Za-z]\w*)*$")


def looks_like_dump(head: bytes) -> bool:
    """Return True if the first bytes of a file are those of a dump."""
    start = plain_pickle.unpacked_head(head)
    return _is_document(start) and bool(_KEYS.search(start))


def rank_in_name(name: str) -> int | None:
    """Return the rank in the name of a dump, None without a number."""
    match = _RANK.search(name) or _LAST_NUMBER.search(name)
    return int(match[1]) if match else None


def load_dump(path: Path) -> dict[str, Any]:
    """Return the content of a dump.

    Raises:
        InputError: the file is damaged, of another version, or no dump; or a pickle that names a
            class or function. Nothing that it names is imported or called.
    """
    document = _loaded(path)
    version = document.get("version") if isinstance(document, dict) else None
    if not isinstance(document, dict) or version is None:
        raise InputError(f"{path}: not a Flight Recorder dump; name the dumps of one job")
    if not str(version).startswith(_VERSIONS):
        raise InputError(f"{path}: dump of version {version}; record it with PyTorch 2.2 or newer")
    if not isinstance(document.get("entries", []), list):
        raise InputError(f"{path}: `entries` is not a list; {RECORD}")
    return document


def entries_of(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the recorded operations of a dump, without values of another type."""
    return [entry for entry in document.get("entries", []) if isinstance(entry, dict)]


def _is_document(start: bytes) -> bool:
    return plain_pickle.is_pickle(start) or start.lstrip()[:1] == b"{"


def _loaded(path: Path) -> Any:
    try:
        with path.open("rb") as file:
            start = file.read(64)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    if start.lstrip()[:1] != b"{":
        return plain_pickle.load(path, "a Flight Recorder dump", RECORD)
    try:
        return json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: damaged JSON ({error}); copy it again, or {RECORD}") from None
