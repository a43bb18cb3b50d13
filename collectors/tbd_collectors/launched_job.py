"""Collect a job whose ranks a launcher starts: each writes its part, the last one job.json."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tbd_collectors.capture_writer import check_free, has_records, read_json, write_json
from tbd_collectors.job import JOB, JobResult, statistics_of, times_of
from tbd_collectors.launcher import LauncherRank
from tbd_trace.errors import StoreError, UsageError

_PART = re.compile(r"rank=(\d+)")


def part(launched: LauncherRank) -> Path:
    """Return the directory of a rank."""
    return launched.directory / f"rank={launched.rank}"


def prepare(launched: LauncherRank, *, force: bool) -> None:
    """Make the directory of the job, and remove what this rank has left in it before.

    Raises:
        UsageError: there is an earlier job, and ``force`` is False.
        StoreError: the directory cannot be written.
    """
    try:
        check_free(part(launched), force)
        launched.directory.mkdir(parents=True, exist_ok=True)
        if (launched.directory / JOB).exists() and has_records(launched.directory) and not force:
            raise UsageError(
                f"{launched.directory} exists; choose another -o, or --force to replace it"
            )
        (launched.directory / JOB).unlink(missing_ok=True)
        launched.noted(launched.rank).unlink(missing_ok=True)
        if part(launched).exists():
            shutil.rmtree(part(launched))
    except OSError as error:
        raise StoreError(
            f"{launched.directory}: cannot be written ({error.strerror}); choose another -o"
        ) from error


def finish(directory: Path, *, incomplete: bool = False) -> JobResult | None:
    """Write the job.json of the parts in a directory, if all ranks have written theirs.

    Args:
        directory: of the job.
        incomplete: True to write it without those of some ranks, too.

    Returns:
        The outcome; None if parts are missing.

    Raises:
        UsageError: the directory has no part of a job.
    """
    parts = _parts(directory)
    if not parts:
        raise UsageError(f"{directory}: no rank=K/ with a capture of a launched job")
    world_size = max(int(content.get("world_size") or 1) for content in parts.values())
    missing = sorted(set(range(world_size)) - parts.keys())
    if missing and not incomplete:
        return None
    result = JobResult()
    # A launcher interrupts the others when a rank fails.
    ended = sorted(parts, key=lambda rank: (parts[rank].get("status") == "interrupted", rank))
    failed = [rank for rank in ended if parts[rank].get("status") != "ok"]
    if failed:
        content = parts[failed[0]]
        result.status = str(content.get("status"))
        result.reason = f"rank {failed[0]}: {content.get('reason')}"
    elif missing:
        result.status = "failed"
        result.reason = f"rank{'s' if len(missing) > 1 else ''} {_listed(missing)} wrote no capture"
    result.exit_code = 0 if result.status == "ok" else 1
    times = times_of(list(parts.values()))
    result.document = {
        "format_version": 1,
        "status": result.status,
        "reason": result.reason or None,
        "world_size": world_size,
        "profiler": parts[min(parts)].get("profiler"),
        "points": [
            {
                "directory": ".",
                "world_size": world_size,
                "bandwidth_bits_per_s": None,
                "latency_added_s": None,
                "status": result.status,
                "is_readable": True,  # also if a rank failed: each has written its own part
                "iteration_s": times,
                **statistics_of(times),
                "load": {"before": None},
                "link": [],
            }
        ],
    }
    beside = directory / f".{JOB}.{os.getpid()}"
    write_json(beside, result.document)
    beside.replace(directory / JOB)
    for noted in directory.glob(".recorded.*"):
        noted.unlink(missing_ok=True)
    return result


def _parts(directory: Path) -> Mapping[int, dict[str, Any]]:
    found = {}
    for path in directory.glob("rank=*/capture.json"):
        if number := _PART.fullmatch(path.parent.name):
            found[int(number[1])] = read_json(path)
    return found


def _listed(ranks: list[int]) -> str:
    shown = ", ".join(map(str, ranks[:5]))
    return f"{shown} …" if len(ranks) > 5 else shown
