"""Read the rank of a trace from its header."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_LARGEST = 2**31


def rank_row(header: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the row of ``job_rank`` that a header gives, None if it names no rank."""
    info = header.get("distributedInfo")
    job = info if isinstance(info, dict) else {}
    rank = _whole(job.get("rank"))
    if rank is None:
        return None
    size = _whole(job.get("world_size"))
    return {
        "rank": rank,
        "world_size": size if size else None,
        "backend": _text(job.get("backend")),
        "host": _text(header.get("host_name")),
        "evidence": "distributedInfo",
    }


def _whole(value: object) -> int | None:
    text = value if isinstance(value, str) else repr(value)
    whole = text.isdecimal() and text.isascii() and len(text) < 12
    return int(text) if whole and int(text) < _LARGEST else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
