"""What the memory rules have to say about the two files of the memory sample."""

from __future__ import annotations

import statistics
from itertools import combinations

from memory_facts import Row, Trace, traces, training

MIB = 1 << 20
MAPS = ("feature_map", "activation_gradient")
RULES = ("MEM01", "MEM02", "MEM03", "MEM04", "MEM05", "OBS11")


def memory_checks() -> list[Row]:
    rows = [row for trace in traces() for row in _rows(trace)]
    return sorted(rows, key=lambda row: (row["rule"], row["trace_id"]))


def _rows(trace: Trace) -> list[Row]:
    evidence = "collector" if trace.is_log else "stack"
    answers = (
        _fragmented(trace),
        _growing(trace),
        _optimizer(trace),
        # The sample was made on no device.
        ("not evaluable", None, None, 2, "times the batch", None),
        ("not evaluable", None, None, None, None, None),
        ("finding", "note", _map_share(trace), 50, "%", evidence),
    )
    columns = ("verdict", "severity", "value", "threshold", "unit", "evidence")
    return [
        {"rule": rule, "trace_id": trace.trace_id} | dict(zip(columns, answer, strict=True))
        for rule, answer in zip(RULES, answers, strict=True)
    ]


Answer = tuple[str, str | None, float | None, float | None, str | None, str | None]


def _map_share(trace: Trace) -> float:
    live = trace.live(trace.peak)
    share = 100 * sum(life.bytes for life in live if life.kind in MAPS) / trace.total(trace.peak)
    assert share >= 50
    return share


def _fragmented(trace: Trace) -> Answer:
    """Return the answer for a program whose 20 MiB segment is nearly empty."""
    held = trace.held_at(trace.peak)
    live = trace.live(trace.peak)
    # A log has no segments, so that rounding counts as free. In the snapshot, each small segment
    # (2 MiB) and the large one have live blocks: none could be returned.
    free = held - sum(life.bytes if trace.is_log else life.allocated for life in live)
    sizes = sorted(s.size for s in training().allocator.segments)
    assert (sum(sizes), sizes[-1]) == (held, 20 * MIB)
    assert sum(life.allocated for life in live if life.allocated <= MIB) > sum(sizes[:-2])
    assert any(life.allocated > MIB for life in live)
    assert free < 128 * MIB
    return ("pass", None, 100 * free / held, 15, "%", "modelled" if trace.is_log else "allocator")


def _growing(trace: Trace) -> Answer:
    sizes = [trace.total(end) for end in trace.ends[1:]]
    pairs = list(combinations(enumerate(sizes), 2))
    slope = statistics.median((b - a) / (j - i) for (i, a), (j, b) in pairs)
    assert slope > 4096
    assert all(b > a for (_, a), (_, b) in pairs)
    assert slope * 10_000 > trace.total(trace.peak)
    return ("finding", "warning", float(slope), 4096, "bytes per iteration", "allocator")


def _optimizer(trace: Trace) -> Answer:
    without = max(
        sum(life.bytes for life in trace.live(at) if life.kind != "optimizer_temporary")
        for at in trace.changes
    )
    assert without == trace.total(trace.peak)  # the peak is in the backward pass
    return ("pass", None, 0.0, 5, "%", "allocator")
