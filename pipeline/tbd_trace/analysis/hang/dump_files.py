"""Find the Flight Recorder dumps of a job in a directory, and ingest them into the cache."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path

from tbd_trace.errors import CannotAnswerError, InputError, UsageError
from tbd_trace.query.profile_cache import cache_database
from tbd_trace.sources.flight_recorder.dump import (
    TABLES,
    load_dump,
    looks_like_dump,
    rank_in_name,
)
from tbd_trace.sources.plain_pickle import NamesCodeError, is_pickle
from tbd_trace.store import Database
from tbd_trace.store.capture import CaptureFile, in_job
from tbd_trace.store.identified_file import identify_file

_HEAD_BYTES = 1 << 16
_PICKLES = (".pickle", ".pkl")
_LOGS = (".log", ".txt", ".out", ".err", ".csv", ".md", ".py", ".yaml", ".yml", ".html")


@dataclass(slots=True)
class DumpFiles:
    """Files of a directory."""

    directory: Path
    dumps: dict[int, Path] = field(default_factory=dict)  # by rank
    empty: list[int] = field(default_factory=list)  # ranks of dumps of 0 bytes, or cut ones
    logs: list[Path] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # on files that cannot be read


def find_dumps(directory: Path) -> DumpFiles:
    """Return the dumps of a directory and its subdirectories, and the other files as logs.

    Raises:
        InputError: the directory is missing, or a pickle names a class or function.
        UsageError: two dumps have the same rank.
        CannotAnswerError: the directory has no dump.
    """
    if not directory.is_dir():
        raise InputError(f"{directory}: not a directory; name the directory with the dumps")
    found = DumpFiles(directory)
    try:
        for path in sorted(directory.rglob("*")):
            if path.is_file() and not path.name.startswith("."):
                _add(found, path)
    except OSError as error:
        raise InputError(f"{error.filename}: cannot be read ({error.strerror})") from error
    found.empty = sorted(set(found.empty) - found.dumps.keys())
    if not found.dumps:
        raise CannotAnswerError(
            f"{directory}: no Flight Recorder dump; set TORCH_FR_BUFFER_SIZE=2000 and "
            "TORCH_FR_DUMP_TEMP_FILE, or record with `tbd-trace collect --ranks N`"
        )
    return found


def _add(found: DumpFiles, path: Path) -> None:
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    rank = rank_in_name(path.name)
    if not head:
        if rank is not None and path.suffix not in _LOGS:
            found.empty.append(rank)
        return
    if not _may_be_dump(path, head):
        found.logs.append(path)
        return
    try:
        load_dump(path)
    except NamesCodeError:
        raise
    except InputError as error:
        found.notes.append(str(error))
        if rank is not None and (is_pickle(head) or looks_like_dump(head)):
            found.empty.append(rank)  # cut while it was written
        return
    if rank is None:
        found.notes.append(f"{path}: no rank in its name; name it after its rank, as `dump_0`")
        return
    _set_dump(found, rank, path)


def _may_be_dump(path: Path, head: bytes) -> bool:
    if looks_like_dump(head) or is_pickle(head):
        return True
    is_named = path.suffix in _PICKLES or rank_in_name(path.name) is not None
    return is_named and path.suffix not in (*_LOGS, ".json") and head.lstrip()[:1] != b"{"


def _set_dump(found: DumpFiles, rank: int, path: Path) -> None:
    earlier = found.dumps.get(rank)
    if earlier is not None:
        texts = {earlier.suffix == ".json", path.suffix == ".json"}
        if len(texts) == 1:
            raise UsageError(f"{earlier} and {path}: both are of rank {rank}; remove one")
        path = path if earlier.suffix == ".json" else earlier  # JSON has no stacks
    found.dumps[rank] = path


def ingest_dumps(found: DumpFiles, world_size: int | None = None) -> tuple[Database, list[str]]:
    """Ingest dumps as one job into a cache; return it, and the trace ids.

    Args:
        world_size: number of ranks, None if only the dumps show it.
    """
    # No other tables: a file for each table of each rank would take most of the time.
    cache = Database(
        cache_database().path.with_name("flight_recorder.duckdb"), "TBD_TRACE_CACHE", TABLES
    )
    known = [*found.dumps, *found.empty]
    size = world_size if not found.empty else max([world_size or 0, 1 + max(known)])
    files = [
        identify_file(_capture_file(found, rank, path, size))
        for rank, path in sorted(found.dumps.items())
    ]
    cache.ingest_identified(files)
    return cache, [file.trace_id for file in files]


def _capture_file(found: DumpFiles, rank: int, path: Path, size: int | None) -> CaptureFile:
    job = found.directory.resolve().name
    metadata = {"written_ns": path.stat().st_mtime_ns, "empty_ranks": found.empty}
    if size:
        metadata["world_size"] = size
    # Dumps of equal content, such as those without records, are those of several ranks.
    salt = hashlib.sha256(json.dumps([rank, metadata], sort_keys=True).encode()).hexdigest()
    file = CaptureFile(path, f"{job}/{path.name}", metadata=metadata, salt=salt)
    return in_job(file, job)
