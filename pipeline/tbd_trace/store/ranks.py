"""Find the ranks of a distributed job: its files, and the rank of each."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from tbd_trace.errors import InputError, UsageError
from tbd_trace.model.canonical_tables import JOB_RANK
from tbd_trace.sqltext import string
from tbd_trace.store.capture import CaptureFile, capture_files, in_job, is_capture, job_captures

if TYPE_CHECKING:
    from tbd_trace.store.base import TraceStore

_RANK = re.compile(r"(?i)(?:rank[-_=]?|worker[-_]?)(\d{1,9})(?!\d)")
_DIRECTORY = re.compile(r"(?i)rank[-_=]?\d+$")
_SHOWN = 8


def job_files(name: str, paths: Sequence[Path], *, by_name: bool = False) -> list[CaptureFile]:
    """Return the profiler files of a job.

    Args:
        name: name of the job.
        paths: files, folders of files, capture directories, a directory of ``rank=K/``, or one with
            a job.json, each point of which is a job.
        by_name: True to take ranks from the file names only.

    Raises:
        InputError: a directory has no profile of a rank, or a capture is invalid.
    """
    files: list[CaptureFile] = []
    for path in paths:
        points = [] if is_capture(path) else job_captures(path, name, by_name=by_name)
        files += points or [in_job(file, name, by_name=by_name) for file in _files(path)]
    return files


def _files(path: Path) -> list[CaptureFile]:
    if not path.is_dir() or is_capture(path):
        return capture_files(path)
    try:
        entries = sorted(path.iterdir())
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    folders = [entry for entry in entries if entry.is_dir() and _DIRECTORY.match(entry.name)]
    if folders:
        return [file for folder in folders for file in _files(folder)]
    named = [entry for entry in entries if entry.is_file() and _is_of_rank(entry)]
    if not named:
        raise InputError(
            f"{path}: no profile of a rank in it; name the files, or put `rank0` in their names"
        )
    return [CaptureFile(file, f"{path.resolve().name}/{file.name}") for file in named]


def _is_of_rank(file: Path) -> bool:
    if file.name.startswith("."):
        return False
    trace = file.name.endswith((".pt.trace.json", ".pt.trace.json.gz"))
    return trace or bool(_RANK.search(file.name) or _RANK.search(file.parent.name))


def rank_in_name(file: CaptureFile) -> int | None:
    """Return the rank in the name of a file; in a job, also in that of its directory."""
    places = [file.path.name] if file.job is None else [file.path.name, file.path.parent.name]
    return next((int(match[1]) for name in places if (match := _RANK.search(name))), None)


def rank_relation(file: CaptureFile, recorded: str | None) -> str | None:
    """Return the SELECT of ``job_rank`` for one trace, None if nothing is known.

    Args:
        recorded: the row that the profile itself gives, None without one.
    """
    named = rank_in_name(file)
    if recorded is None and named is None and file.job is None:
        return None
    job = "NULL" if file.job is None else string(file.job)
    ranks = file.metadata.get("world_size")
    world = str(ranks) if isinstance(ranks, int) and ranks > 0 else "NULL"
    name = "NULL" if named is None else str(named)
    by_name = "NULL" if named is None else "'file name'"
    if recorded is None:
        return f"SELECT {job} AS job, {name} AS rank, {world} AS world_size, {by_name} AS evidence"
    if not file.rank_by_name or named is None:
        size = f"coalesce(world_size, {world}) AS world_size"
        return f"SELECT * REPLACE ({job} AS job, {size}) FROM ({recorded})"
    columns = f"{job} AS job, {name} AS rank, {by_name} AS evidence"
    return f"SELECT * REPLACE ({columns}) FROM ({recorded})"


def job_notes(store: TraceStore, name: str) -> list[str]:
    """Return notes on missing and unknown ranks of a job.

    Raises:
        UsageError: two traces of the job have the same rank.
    """
    rows = _rows(store, name)
    by_rank: defaultdict[int | None, list[str]] = defaultdict(list)
    for rank, _, trace in rows:
        by_rank[rank].append(trace)
    for rank, traces in by_rank.items():
        if rank is not None and len(traces) > 1:
            raise UsageError(
                f"job {name}: {' and '.join(traces)} are both rank {rank}; "
                "remove one, or take ranks from the file names with --rank-from name"
            )
    notes = [f"job {name}: rank of {trace} unknown" for trace in by_rank.pop(None, [])]
    worlds = sorted({world for _, world, _ in rows if world})
    if len(worlds) > 1:
        notes.append(f"job {name}: world sizes differ: {_listed(worlds)}")
    known = sorted(rank for rank in by_rank if rank is not None)
    expected = range(max([*worlds, *(rank + 1 for rank in known)], default=0))
    missing = [rank for rank in expected if rank not in by_rank]
    if missing:
        notes.append(
            f"job {name}: {len(known)} of {len(expected)} ranks; missing {_listed(missing)}"
        )
    return notes


def _rows(store: TraceStore, name: str) -> list[tuple[int | None, int | None, str]]:
    ids = store.trace_ids()
    ranks, traces = store.relation(JOB_RANK, ids), store.relation("trace", ids)
    with duckdb.connect() as connection:
        return connection.execute(
            f"SELECT rank, world_size, name FROM ({ranks}) JOIN ({traces}) USING (trace_id) "
            f"WHERE job = {string(name)} AND kind = 'timeline' ORDER BY rank, name"
        ).fetchall()


def _listed(numbers: Iterable[int]) -> str:
    texts = list(map(str, numbers))
    return ", ".join(texts[:_SHOWN]) + (", …" if len(texts) > _SHOWN else "")
