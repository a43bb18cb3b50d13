"""The map of the memory sample's segments, block by block, as their generator left them."""

from __future__ import annotations

from itertools import groupby

from memory_facts import DEVICE, Row, traces, training


def segment_map(top: int = 20) -> list[Row]:
    (trace,) = (trace for trace in traces() if not trace.is_log)
    segments = sorted(training().allocator.segments, key=lambda s: (-s.size, s.address))
    held = sum(segment.size for segment in segments)
    rows = []
    for number, segment in enumerate(segments[: top or None], 1):
        place = 0
        for is_free, group in groupby(segment.blocks, key=lambda b: b.requested is None):
            run = list(group)
            size = sum(block.size for block in run)
            used = size if is_free else sum(block.requested or 0 for block in run)
            state = "free" if is_free else "live"
            for part, length, blocks in ((state, used, len(run)), ("rounding", size - used, None)):
                if length == 0:
                    continue
                rows.append(
                    {"trace_id": trace.trace_id, "process_id": None, "device_id": DEVICE}
                    | {"segment_id": number}
                    | {"segment_type": "small" if segment.is_small else "large"}
                    | {"pool": "0,0", "stream_id": 0, "segment_bytes": segment.size}
                    | {"offset_bytes": place, "bytes": length, "state": part, "blocks": blocks}
                    | {"segments": len(segments), "reserved_bytes": held}
                )
                place += length
    return rows
