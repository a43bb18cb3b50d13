"""Turn the entries of a dump into rows of ``flight_record``."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

# `nccl:send 0->1` and `nccl:recv 0<-8`: ranks within the group.
_POINT_TO_POINT = re.compile(r"^(?P<operation>\w+) \d+(?:->|<-)(?P<peer>\d+)$")
_OF_TORCH = re.compile(r"(?:^|/)torch/|<frozen |^\?\?$")
# Hooks of `tbd-trace collect`, called by PyTorch.
_OF_COLLECT = re.compile(r"/tbd_models/(?:instrument|auto)/")


def record_row(entry: Mapping[str, Any], number: int) -> dict[str, Any]:
    """Return the row of an entry; ``number`` is its position in the dump, from 0."""
    backend, operation, peer = _operation(entry.get("profiling_name"))
    name, description = group_of(entry)
    return {
        "record_id": number,
        "local_group_id": entry.get("pg_id"),
        "group_name": name,
        "group_description": description,
        "sequence": entry.get("collective_seq_id"),
        "p2p_sequence": entry.get("p2p_seq_id"),
        "operation_id": entry.get("op_id"),
        "is_point_to_point": entry.get("is_p2p") is True,
        "backend": backend,
        "operation": operation,
        "peer": peer,
        "input_shapes": _listed(entry.get("input_sizes")),
        "input_dtypes": _listed(entry.get("input_dtypes")),
        "output_shapes": _listed(entry.get("output_sizes")),
        "output_dtypes": _listed(entry.get("output_dtypes")),
        "state": entry.get("state"),
        "is_retired": entry.get("retired") is True or entry.get("state") == "completed",
        "created_ns": time_ns(entry.get("time_created_ns")),
        "started_ns": time_ns(entry.get("time_discovered_started_ns")),
        "completed_ns": time_ns(entry.get("time_discovered_completed_ns")),
        "timeout_ns": _timeout_ns(entry.get("timeout_ms")),
        **_place(entry.get("frames")),
    }


def group_of(entry: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Return name and description of the process group of an entry."""
    group = entry.get("process_group")
    if not isinstance(group, (list, tuple)) or not group:
        return None, None
    name, description = (*group, None)[:2]
    return str(name), None if description in (None, "", "undefined") else str(description)


def time_ns(value: object) -> int | None:
    """Return a time, None where it is unknown: JSON has 0 there."""
    return value if isinstance(value, int) and value > 0 else None


def _operation(profiling_name: object) -> tuple[str | None, str | None, int | None]:
    if not isinstance(profiling_name, str):
        return None, None, None
    backend, _, rest = profiling_name.rpartition(":")
    if match := _POINT_TO_POINT.match(rest):
        return backend or None, match["operation"], int(match["peer"])
    return backend or None, rest, None


def _listed(value: object) -> str | None:
    return json.dumps(value, separators=(",", ":")) if isinstance(value, (list, tuple)) else None


def _timeout_ns(milliseconds: object) -> int | None:
    is_known = isinstance(milliseconds, int) and 0 < milliseconds < 1 << 40
    return milliseconds * 1_000_000 if isinstance(milliseconds, int) and is_known else None


def _place(frames: object) -> dict[str, Any]:
    # The innermost frame of the program, else the innermost one.
    known = [
        frame
        for frame in (frames if isinstance(frames, (list, tuple)) else ())
        if isinstance(frame, dict)
        and isinstance(frame.get("filename"), str)
        and not _OF_COLLECT.search(frame["filename"])
    ]
    own = [frame for frame in known if not _OF_TORCH.search(frame["filename"])]
    frame = next(iter(own or known), {})
    line = frame.get("line")
    return {
        "function": frame.get("name"),
        "file": frame.get("filename"),
        "line": line if isinstance(line, int) and line > 0 else None,
    }
