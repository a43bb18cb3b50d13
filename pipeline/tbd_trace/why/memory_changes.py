"""Rank the changes that lower the peak of the memory, with their bytes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from tbd_trace import resources
from tbd_trace.why.diagnosis import TryFirst
from tbd_trace.why.memory_diagnosis import FailedRequest, MemoryChange

_COPIED = ("change", "measure", "how", "now_bytes", "best_bytes", "likely_bytes", "worst_bytes")
_LEAST_SAVING = 0.03  # of the bytes now, below which a change is not advised


@cache
def _texts() -> dict[str, dict[str, str]]:
    return {row["change"]: row for row in resources.data_rows("memory_changes")}


def ranked_changes(
    rows: Iterable[Mapping[str, Any]], failed: FailedRequest | None
) -> list[MemoryChange]:
    """Return the changes that save at least 3 %, or enough for the failed request.

    Changes that are enough come first, of these the cheapest; then the largest savings, where
    changes that cost time or accuracy count less (``data/memory_changes.csv``).

    Args:
        rows: of the relation ``memory_saving``, of one memory space.
        failed: the request that failed, if one did.
    """
    lacking = None
    if failed is not None and failed.requested_bytes is not None:
        lacking = failed.requested_bytes - (failed.device_free_bytes or 0)
    ranked = []
    for row in rows:
        text = _texts()[row["change"]]
        advice = text["advice" if row["allocator"] == "torch" else "other_frameworks"]
        saved = row["now_bytes"] - row["likely_bytes"]
        suffices = None if lacking is None else saved >= lacking
        if advice and (saved >= _LEAST_SAVING * row["now_bytes"] or suffices):
            change = MemoryChange(
                **{key: row[key] for key in _COPIED},
                title=text["title"],
                advice=advice,
                suffices=suffices,
            )
            weight = float(text["weight"])
            order = suffices is False, -weight if suffices else 0.0, -saved * weight
            ranked.append((order, change))
    return [change for _, change in sorted(ranked, key=lambda item: item[0])]


def first_of(changes: Sequence[MemoryChange]) -> TryFirst | None:
    """Return the change to try first, None without one."""
    if not changes:
        return None
    first = changes[0]
    return TryFirst(
        change=first.change,
        cause=_texts()[first.change]["cause"],
        unit="bytes",
        now=first.now_bytes,
        best=first.best_bytes,
        likely=first.likely_bytes,
        worst=first.worst_bytes,
        advice=first.advice,
    )
