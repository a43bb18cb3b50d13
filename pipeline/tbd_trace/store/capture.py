"""Capture directories: capture.json, layers.json and the profiler files beside them."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tbd_trace.errors import InputError

# What a capture may say about its run; anything else (environments, for one) stays in the file.
_KEPT = (
    "format_version",
    "capture_id",
    "application",
    "model",
    "framework",
    "framework_version",
    "dataset",
    "batch_size",
    "batch_definition",
    "sequence_policy",
    "precision",
    "optimizer",
    "seed",
    "scale",
    "world_size",
    "gpu",
    "warmup",
    "iterations",
    "iteration_window",
    "profiler",
    "profiler_version",
    "files",
    "throughput",
    "synthetic",
    "notice",
)
_METADATA = {"capture.json", "layers.json"}


@dataclass(frozen=True, slots=True)
class CaptureFile:
    """One profiler file and what the capture around it says.

    Attributes:
        path: the profiler file.
        name: how people refer to it: file name, or directory/file of a capture.
        capture_id: identity of the capture, None for a lone file.
        metadata: the kept part of capture.json.
        layers: entries of layers.json, in forward order.
        salt: SHA-256 of the metadata files, so that changed metadata makes another trace.
    """

    path: Path
    name: str
    capture_id: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    layers: list[dict[str, Any]] = field(default_factory=list)
    salt: str = ""

    @property
    def batch_size(self) -> int | None:
        """Samples per iteration and process, where the capture says."""
        value = self.metadata.get("batch_size")
        return value if isinstance(value, int) and not isinstance(value, bool) else None


def is_capture(path: Path) -> bool:
    """Tell whether a path is a capture directory."""
    return (path / "capture.json").is_file()


def capture_files(path: Path) -> list[CaptureFile]:
    """Return the profiler files of a path: a capture directory's, or the lone file itself.

    Raises:
        InputError: the capture's metadata cannot be understood, or a file that it names is missing.
    """
    if not is_capture(path):
        return [CaptureFile(path, path.name)]
    document = _json(path / "capture.json")
    metadata = {key: document[key] for key in _KEPT if key in document}
    layers = _layers(path / "layers.json")
    salt = hashlib.sha256()
    for name in sorted(_METADATA):
        if (path / name).is_file():
            salt.update((path / name).read_bytes())
    capture_id = str(document.get("capture_id") or salt.hexdigest()[:12])
    return [
        CaptureFile(
            file,
            f"{path.resolve().name}/{file.name}",
            capture_id,
            metadata,
            layers,
            salt.hexdigest(),
        )
        for file in _profiler_files(path, document)
    ]


def _profiler_files(path: Path, document: dict[str, Any]) -> list[Path]:
    listed = document.get("files")
    if isinstance(listed, list) and listed:
        names = [entry.get("file") if isinstance(entry, dict) else entry for entry in listed]
        return [_inside(path, name) for name in names]
    found = [f for f in sorted(path.iterdir()) if f.is_file() and f.name not in _METADATA]
    if not found:
        raise InputError(f"{path}: a capture directory without profiler files; collect it again")
    return found


def _inside(directory: Path, name: object) -> Path:
    """Return a file that capture.json names, refusing paths that lead out of the directory."""
    file = directory / str(name)
    if not file.resolve().is_relative_to(directory.resolve()):
        raise InputError(f"{directory}: capture.json names {name!r}, outside the capture")
    if not file.is_file():
        raise InputError(f"{directory}: capture.json names {name!r}, which is missing; copy it too")
    return file


def _json(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise InputError(f"{path}: not readable as JSON ({error}); collect it again") from error
    if not isinstance(document, dict):
        raise InputError(f"{path}: expected a JSON object; collect it again")
    return document


def _layers(path: Path) -> list[dict[str, Any]]:
    if not path.is_file():
        return []
    layers = _json(path).get("layers", [])
    if not isinstance(layers, list) or not all(
        isinstance(layer, dict) and isinstance(layer.get("name"), str) for layer in layers
    ):
        raise InputError(f"{path}: expected a list `layers` of objects with a `name`")
    return layers
