"""Read capture directories: capture.json, layers.json and the profiler files beside them."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tbd_trace.errors import InputError
from tbd_trace.store.job_document import measured_points, read_job
from tbd_trace.store.layers import is_count, read_json, read_layers

# What a capture may say about its run; anything else (environments, for one) stays in the file.
# An object's fields are listed in turn; None stands for a single value.
_SPAN = dict.fromkeys(("first", "last"))
_KEPT: dict[str, Any] = {
    **dict.fromkeys(
        (
            *("format_version", "capture_id", "status", "reason"),
            *("synthetic", "notice", "application", "model"),
            *("framework", "framework_version", "dataset", "batch_size", "batch_definition"),
            *("sequence_policy", "precision", "optimizer", "seed", "scale", "world_size", "gpu"),
            *("warmup", "iterations", "profiler", "profiler_version"),
            *("variant", "device", "parameters", "autocast", "profiler_slowdown"),
            *("peak_device_bytes", "gradient_accumulation", "activation_checkpointing"),
        )
    ),
    "iteration_window": _SPAN,
    "files": [{**dict.fromkeys(("file", "role", "tool", "tool_version")), "iterations": _SPAN}],
    "profiled": dict.fromkeys(("execution", "samples_per_iteration", "padding_pct")),
    "unprofiled": dict.fromkeys(("iterations", "seconds")),
    "throughput": dict.fromkeys(
        (
            *("samples_per_second", "iterations", "seconds", "unit", "units_per_sample"),
            *("execution", "real_unit", "real_units_per_second", "padding_pct"),
        )
    ),
}
# Names of the traces that torch.profiler writes for each rank of a job.
_RANK = re.compile(r"(?i)(?:rank.*\.json|\.pt\.trace\.json)(?:\.gz)?$")
_METADATA = {"capture.json", "layers.json"}


@dataclass(frozen=True, slots=True)
class CaptureFile:
    """One profiler file with the metadata of its capture."""

    path: Path  # the profiler file
    name: str  # display name: file name, or directory/file of a capture
    capture_id: str | None = None  # identity of the capture, None for a single file
    metadata: dict[str, Any] = field(default_factory=dict)  # the kept part of capture.json
    # entries of layers.json, in forward order
    layers: list[dict[str, Any]] = field(default_factory=list)
    # rows of job_point from the job.json of the capture
    job_points: list[dict[str, Any]] = field(default_factory=list)
    salt: str = ""  # SHA-256 of the metadata files, so that changed metadata makes another trace
    job: str | None = None  # distributed job of the trace, None for a trace by itself
    labels: dict[str, Any] = field(default_factory=dict)  # metadata that the user gave
    is_named: bool = False  # True if the user gave the name
    python_frames: bool = False  # True to store the frames of Python, too
    rank_by_name: bool = False  # True if the file name gives the rank, whatever the profile says

    @property
    def batch_size(self) -> int | None:
        value = self.metadata.get("batch_size")
        return value if isinstance(value, int) else None


def is_capture(path: Path) -> bool:
    """Return True if a path is a capture directory.

    Raises:
        InputError: the directory cannot be read.
    """
    try:
        return (path / "capture.json").is_file()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error


def capture_files(path: Path) -> list[CaptureFile]:
    """Return the profiler files of a path: of a capture, a job or a directory, or itself.

    Raises:
        InputError: the capture's metadata is invalid, a file that it names is missing, or a
            directory contains no profile.
    """
    return profiles_in(path)[0]


def profiles_in(path: Path) -> tuple[list[CaptureFile], list[str]]:
    """Return the profiler files of a path as :func:`capture_files`, and the names of other files.

    A directory is searched for profiles and capture directories, without their subdirectories.
    """
    if is_capture(path):
        return _files_of_capture(path), []
    if files := job_captures(path):
        return files, []
    if not path.is_dir():
        return [CaptureFile(path, path.name)], []
    return _profiles_of_directory(path)


def job_captures(
    path: Path, name: str | None = None, *, by_name: bool = False
) -> list[CaptureFile]:
    """Return the profiler files of all points in a job.json, none without the file.

    Each of several points is a job. One rank alone is none, and only its first profile is read,
    because the last one repeats it.

    Args:
        path: directory with the job.json.
        name: name of the job (default: that of the directory).
        by_name: True to take ranks from the names only.

    Raises:
        InputError: job.json or a capture is invalid.
    """
    document = read_job(path)
    if document is None:
        return []
    name, files, seen = name or path.resolve().name, [], False
    for point in document.points:
        is_alone = point.row["world_size"] == 1 and point.directory != "."
        if not point.is_readable or (is_alone and seen):
            continue
        seen |= is_alone
        title = name if point.directory == "." else f"{name}/{point.directory}"
        for folder in sorted((path / point.directory).glob("rank=*")):
            for file in _files_of_capture(folder):
                named = replace(file, name=f"{title}/{folder.name}/{file.path.name}")
                files.append(named if is_alone else in_job(named, title, by_name=by_name))
    return files


def in_job(file: CaptureFile, name: str, *, by_name: bool = False) -> CaptureFile:
    """Return a file as one of a job; the same file in another job is another trace."""
    salt = hashlib.sha256(f"{file.salt}\0{name}\0{by_name}".encode()).hexdigest()
    return replace(file, job=name, rank_by_name=by_name, salt=salt)


def _files_of_capture(path: Path) -> list[CaptureFile]:
    document = read_json(path / "capture.json")
    metadata = _kept(document, _KEPT)
    if metadata.get("status") == "ok":
        del metadata["status"]
    _check_batch_size(path / "capture.json", document.get("batch_size"))
    layers = read_layers(path / "layers.json")
    measured = measured_points(path)
    salt = hashlib.sha256()
    for name in sorted(_METADATA):
        if (path / name).is_file():
            salt.update((path / name).read_bytes())
    capture_id = str(metadata.get("capture_id") or salt.hexdigest()[:12])
    salt.update(measured.digest.encode())
    return [
        CaptureFile(
            file,
            f"{path.resolve().name}/{file.name}",
            capture_id,
            metadata,
            layers,
            measured.rows,
            salt.hexdigest(),
        )
        for file in _profiler_files(path, document)
    ]


def with_python_frames(file: CaptureFile) -> CaptureFile:
    """Return the file with its frames of Python, which makes another trace of it."""
    salt = hashlib.sha256(f"{file.salt}\0python frames".encode()).hexdigest()
    return replace(file, python_frames=True, salt=salt)


def _profiles_of_directory(path: Path) -> tuple[list[CaptureFile], list[str]]:
    from tbd_trace.sources.registry import identify  # noqa: PLC0415 - single files need it later

    profiles: list[CaptureFile] = []
    others = []
    try:
        entries = sorted(entry for entry in path.iterdir() if not entry.name.startswith("."))
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    for entry in entries:
        if entry.is_dir():
            if is_capture(entry):
                profiles += _files_of_capture(entry)
            else:
                others.append(f"{entry.name}/")
            continue
        if _RANK.search(entry.name):  # names of ranks repeat in the directories of jobs
            profiles.append(CaptureFile(entry, f"{path.resolve().name}/{entry.name}"))
            continue
        try:
            identify(entry)
        except InputError:
            others.append(entry.name)
        else:
            profiles.append(CaptureFile(entry, entry.name))
    if not profiles:
        raise InputError(
            f"{path}: a directory without capture.json or profiles; name a profiler file, or a "
            "directory that contains some"
        )
    return profiles, others


def _kept(value: Any, fields: Any) -> Any:
    # None for a field of another shape.
    if isinstance(fields, dict):
        known = fields.keys() & value.keys() if isinstance(value, dict) else ()
        return {name: _kept(value[name], fields[name]) for name in fields if name in known}
    if isinstance(fields, list):
        return [_kept(entry, fields[0]) for entry in value] if isinstance(value, list) else None
    return None if isinstance(value, (dict, list)) else value


def _check_batch_size(path: Path, value: object) -> None:
    if value is not None and not (is_count(value) and value):
        raise InputError(f"{path}: batch_size is {value!r}, expected a whole number above 0")


def _profiler_files(path: Path, document: dict[str, Any]) -> list[Path]:
    listed = document.get("files")
    if not isinstance(listed, list | None):
        raise InputError(f"{path}: capture.json has `files` that are no list; list the profiles")
    status = document.get("status", "ok")
    if status != "ok" and not listed:
        reason = document.get("reason") or "it says no more"
        raise InputError(f"{path}: the run ended as {status} ({reason}); collect it again")
    if listed:
        names = [entry.get("file") if isinstance(entry, dict) else entry for entry in listed]
        return [_inside(path, name) for name in names]
    try:
        files = [f for f in sorted(path.iterdir()) if f.is_file() and _may_be_profile(f)]
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    if not files:
        raise InputError(f"{path}: a capture directory without profiler files; collect it again")
    return files


def _may_be_profile(file: Path) -> bool:
    return file.name not in _METADATA and not file.name.startswith(".")


def _inside(directory: Path, name: object) -> Path:
    # Refuses paths that leave the directory.
    said = f"{directory}: capture.json names {name!r}"
    if not isinstance(name, str) or not name or "\0" in name:
        raise InputError(f"{said} as a profiler file; name a file in the directory")
    file = directory / name
    if not file.resolve().is_relative_to(directory.resolve()):
        raise InputError(f"{said}, outside the capture; copy the file in and name it there")
    if not file.is_file():
        raise InputError(f"{said}, which is missing; copy it too")
    return file
