"""State the peak of the memory beside a verdict on time."""

from __future__ import annotations

import duckdb

from tbd_trace.why.memory_words import place, size

INPUTS = ("peak_memory", "memory_space")
"""Relations behind the sentence, where a framework's allocations are recorded."""
IS_RECORDED = "FROM memory_event WHERE allocator <> 'cuda' LIMIT 1"
"""SQL that has a row if a framework's allocations are recorded."""
_PEAKS = """
SELECT p.trace_id, s.device_id, p.requested_bytes, p.reserved_bytes
FROM peak_memory AS p JOIN memory_space AS s USING (space)
WHERE s.allocator <> 'cuda' AND s.device_id IS NOT NULL
ORDER BY p.trace_id, p.requested_bytes DESC, s.device_id"""


def memory_peaks(connection: duckdb.DuckDBPyConnection) -> dict[str, str]:
    """Return the peaks of the devices in words, by trace; empty without recorded allocations."""
    if not connection.execute(IS_RECORDED).fetchone():
        return {}
    found: dict[str, list[str]] = {}
    for trace_id, device_id, live, held in connection.execute(_PEAKS).fetchall():
        of_allocator = f" ({size(held)} held)" if held is not None and held >= live else ""
        found.setdefault(trace_id, []).append(
            f"{size(live)} live on {place(device_id)}{of_allocator}"
        )
    return {
        trace_id: f"at the peak {', '.join(texts)}; tbd-trace query memory_at_peak shows its parts"
        for trace_id, texts in found.items()
    }
