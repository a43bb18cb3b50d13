"""Read the GPU memory profile of MXNet: one line per allocation, without times and frees."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tbd_trace.errors import InputError

_HEADER = ["Attribute Name", "Requested Size", "Device", "Actual Size", "Reuse?"]
_UNTRACKED = "nvml_amend"  # device memory in use less all allocations, appended by MXNet

# Scopes are the parts of an attribute name before the last colon; the first match decides.
_CLASS_OF_SCOPE = {
    "arg_grad": "weight_gradient",
    "aux_state": "buffer",
    "optimizer_state": "optimizer_state",
    "resource": "workspace",
    "image_io": "input",
    "kvstore": "communication",
    "comm_dev": "communication",
}
_INPUT = re.compile(r"data\d*|.*label\d*")  # names that data iterators give
_PARAMETER = re.compile(r"(.+)_(?:weight|bias|gamma|beta|moving_mean|moving_var|running_\w+)")
_OUTPUT = re.compile(r"(.+?)(?:_fwd)?(?:_backward)?")
_LAYER_CLASSES = ("weight", "weight_gradient", "buffer", "feature_map")


def is_gpu_memory_csv(head: bytes) -> bool:
    """Return True if a file begins with the header of a GPU memory profile."""
    line = head.split(b"\n", 1)[0].decode("utf-8-sig", "replace").strip()
    return [name.strip('"') for name in line.split(",")] == _HEADER


def gpu_memory_events(path: Path) -> list[dict[str, Any]]:
    """Return rows of ``memory_event`` in file order, which is alphabetical.

    Reused memory has the operation ``reuse``; it is not allocated again. Feature maps include
    their gradients, which the profile does not distinguish. Class ``untracked`` is device memory
    outside the allocator.

    Raises:
        InputError: the file is damaged.
    """
    lines = list(_lines(path))
    if not lines:
        raise InputError(f"{path}: no allocations; profile a run that uses a GPU")
    with_weights = any(_is_weight(name) for name, *_ in lines)
    return [_row(sequence, line, with_weights=with_weights) for sequence, line in enumerate(lines)]


def _lines(path: Path) -> Iterator[tuple[str, int, int, int, bool]]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            if next(reader, []) != _HEADER:
                raise InputError(f"{path}: not a GPU memory profile of MXNet; check the file")
            for fields in reader:
                name, requested, device, actual, reused = fields
                if not name or reused not in ("0", "1"):
                    raise ValueError(fields)
                yield name, _size(requested), _size(device), _size(actual), reused == "1"
    except (ValueError, csv.Error) as error:
        # Includes UnicodeDecodeError, and lines with more or fewer fields.
        problem = f"line {reader.line_num} is not an allocation"
        raise InputError(f"{path}: {problem}; copy or record the file again") from error


def _size(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or int(text) >= 2**63:
        raise ValueError(text)
    return int(text)


def _row(
    sequence: int, line: tuple[str, int, int, int, bool], *, with_weights: bool
) -> dict[str, Any]:
    name, requested, device, actual, reused = line
    kind = memory_class(name, with_weights=with_weights)
    return {
        "sequence": sequence,
        "timestamp_ns": None,
        "device_id": device,
        "operation": "reuse" if reused else "allocate",
        "allocator": "mxnet",
        "requested_bytes": requested,
        "allocated_bytes": actual,
        "address": None,
        "class": kind,
        "layer": _layer(name, kind),
        "name": name,
    }


def memory_class(name: str, *, with_weights: bool) -> str:
    """Return the class of an allocation.

    Args:
        name: attribute name with its scopes, such as ``net:arg_grad:conv0_weight``.
        with_weights: weights are bound as arguments (``in_arg``); otherwise workers own only the
            copies that they pull from the key-value store.
    """
    *scopes, last = name.split(":")
    if last == _UNTRACKED:
        return "untracked"
    if "in_arg" in scopes:
        return "input" if _INPUT.fullmatch(last) else "weight"
    if scopes[-2:] == ["kvstore", "pull"] and not with_weights:
        return "weight"
    return next(
        (_CLASS_OF_SCOPE[scope] for scope in scopes if scope in _CLASS_OF_SCOPE), "feature_map"
    )


def _is_weight(name: str) -> bool:
    return memory_class(name, with_weights=True) == "weight"


def _layer(name: str, kind: str) -> str | None:
    *scopes, last = name.split(":")
    if kind not in _LAYER_CLASSES or scopes[:1] == ["<unk>"]:
        return None
    pattern = _OUTPUT if kind == "feature_map" else _PARAMETER
    match = pattern.fullmatch(last)
    return match[1] if match else None
