"""Read job.json, which ``collect --ranks`` writes beside the captures of the ranks."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tbd_trace.errors import InputError
from tbd_trace.store.layers import is_count, read_json

JOB = "job.json"
_RANK = re.compile(r"rank=\d+$")
_OUTER = 2  # a rank is in the directory of the job, or in that of a point in it


@dataclass(frozen=True, slots=True)
class JobPoint:
    """One job of job.json."""

    directory: str  # of its ranks, relative to that of job.json
    is_readable: bool  # False if a rank failed and the captures of the others may be cut off
    row: dict[str, Any]  # of ``job_point``, without ``is_own``


@dataclass(frozen=True, slots=True)
class JobDocument:
    """The content of job.json."""

    points: list[JobPoint]
    digest: str  # SHA-256 of the file


@dataclass(frozen=True, slots=True)
class MeasuredPoints:
    """What job.json says to the capture of a rank."""

    rows: list[dict[str, Any]] = field(default_factory=list)  # of ``job_point``
    digest: str = ""


def read_job(directory: Path) -> JobDocument | None:
    """Return the content of a directory's job.json, None without the file.

    Raises:
        InputError: the file is invalid (docs/reference/capture_directory.md).
    """
    path = directory / JOB
    try:
        content = path.read_bytes()
    except OSError:
        return None
    document = read_json(path)
    points = document.get("points")
    if not isinstance(points, list) or not all(isinstance(point, dict) for point in points):
        raise InputError(f"{path}: expected a list `points` of objects; collect the job again")
    scheme, host = document.get("scheme"), _large(path, document.get("host_link"))
    job_points = [
        JobPoint(
            _inside(path, point.get("directory")),
            point.get("status") == "ok" or point.get("is_readable") is True,
            _row(path, number, point, scheme, host),
        )
        for number, point in enumerate(points)
    ]
    return JobDocument(job_points, hashlib.sha256(content).hexdigest())


def measured_points(capture: Path) -> MeasuredPoints:
    """Return what the job.json around a capture says to it, nothing without one.

    Raises:
        InputError: the file is invalid.
    """
    capture = capture.resolve()
    if not _RANK.fullmatch(capture.name):
        return MeasuredPoints()
    for place in list(capture.parents)[:_OUTER]:
        own = str(capture.parent.relative_to(place))
        document = read_job(place)
        if document is not None and any(point.directory == own for point in document.points):
            rows = [point.row | {"is_own": point.directory == own} for point in document.points]
            return MeasuredPoints(rows, document.digest)
    return MeasuredPoints()


def _inside(path: Path, directory: object) -> str:
    root = path.parent.resolve()
    if isinstance(directory, str) and (root / directory).resolve().is_relative_to(root):
        return directory
    raise InputError(f"{path}: directory of a point is {directory!r}; name one beside job.json")


def _row(
    path: Path, number: int, point: Mapping[str, Any], scheme: object, host: float | None
) -> dict[str, Any]:
    world, times = point.get("world_size"), point.get("iteration_s") or []
    if not is_count(world) or not world:
        raise InputError(f"{path}: world_size of point {number} is {world!r}; collect it again")
    if not isinstance(times, list):
        raise InputError(f"{path}: iteration_s of point {number} is not a list; collect it again")
    link = _samples(path, point.get("link"))
    return {
        "point_id": number,
        "scheme": scheme if isinstance(scheme, str) else None,
        "world_size": world,
        **{
            name: _number(path, point, name)
            for name in ("bandwidth_bits_per_s", "latency_added_s", "median_s", "quietest_s")
        },
        "iterations": len(times),
        "is_stable": point.get("is_stable") if isinstance(point.get("is_stable"), bool) else None,
        "all_reduce_s": _number(path, link[0], "median_s") if link else None,
        "busbw_bytes_per_s": _number(path, link[-1], "bus_bytes_per_s") if link else None,
        "host_bytes_per_s": host,
    }


def _large(path: Path, samples: object) -> float | None:
    valid = _samples(path, samples)
    return _number(path, valid[-1], "algorithm_bytes_per_s") if valid else None


def _samples(path: Path, samples: object) -> Sequence[Mapping[str, Any]]:
    if samples is None:
        return []
    if not isinstance(samples, list) or not all(isinstance(sample, dict) for sample in samples):
        raise InputError(f"{path}: expected lists of objects for links; collect the job again")
    return samples


def _number(path: Path, fields: Mapping[str, Any], name: str) -> float | None:
    value = fields.get(name)
    if value is None:
        return None
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or value < 0:
        raise InputError(f"{path}: {name} is {value!r}, expected a number; collect the job again")
    return float(value)
