"""Note allocations and releases in a trace that do not fit together."""

from __future__ import annotations

from tbd_trace.sources.base import Ask

_UNMATCHED = """
    SELECT
        count(*) FILTER (operation = 'free' AND before IS DISTINCT FROM 'allocate'),
        count(*) FILTER (operation = 'allocate' AND before = 'allocate')
    FROM (
        SELECT operation, lag(operation) OVER (
            PARTITION BY process_id, device_id, context_id, allocator, memory_kind, address
            ORDER BY sequence
        ) AS before
        FROM memory_event WHERE operation IN ('allocate', 'free') AND address IS NOT NULL
    )
"""


def memory_notes(ask: Ask) -> list[str]:
    """Return notes on releases and allocations without their counterpart.

    Args:
        ask: runs a SELECT on the ingested canonical tables.
    """
    ((frees, repeated),) = ask(_UNMATCHED)
    notes = []
    if frees:
        notes.append(f"releases of memory that was allocated before the recording: {frees:,}")
    if repeated:
        notes.append(
            f"allocations at an address that was still in use: {repeated:,}; the earlier "
            "allocation ends there, its release is missing"
        )
    return notes
