"""What is live in the memory sample: peaks, classes, layers, instants, growth, fragmentation."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable
from itertools import combinations
from typing import Any

from memory_facts import DEVICE, EVENT_NS, Life, Row, Stack, Trace, traces, training

GROUPS = {
    "weight": "weights",
    "weight_gradient": "weight gradients",
    "feature_map": "feature maps",
    "activation_gradient": "feature maps",
    "workspace": "workspace",
    "temporary": "workspace",
    "unknown": "unknown",
}
TENSORS = ("weights", "weight gradients", "feature maps", "workspace")
DRAWN_FIRST = (
    *("weight", "buffer", "optimizer_state", "weight_gradient", "unknown", "input"),
    "feature_map",
)


def _grouped(lives: Iterable[Life], key: Callable[[Life], Any]) -> dict[Any, list[Life]]:
    groups = defaultdict(list)
    for life in lives:
        groups[key(life)].append(life)
    return groups


def _bytes(lives: Iterable[Life]) -> int:
    return sum(life.bytes for life in lives)


def _space(trace: Trace, **columns: Any) -> Row:
    head = {"trace_id": trace.trace_id, "process_id": None, "device_id": DEVICE}
    return head | {"allocator": "torch"} | columns


def _nulls_last(value: Any) -> tuple[bool, Any]:
    return value is None, value or ""


def memory_peak() -> list[Row]:
    return [
        _space(
            trace,
            memory_kind=None,
            peak_requested_bytes=trace.total(trace.peak),
            peak_reserved_bytes=max(trace.held),
            peak_sequence=trace.peak,
            peak_ns=trace.peak * EVENT_NS,
            start_requested_bytes=trace.total(-1),
            end_requested_bytes=trace.total(trace.changes[-1]),
            end_reserved_bytes=trace.held[-1],
            allocations=sum(life.born is not None for life in trace.lives),
            unmatched_frees=sum(
                life.born is None and life.died is not None for life in trace.lives
            ),
            reason=None,
        )
        for trace in traces()
    ]


def _chosen(trace: Trace, at: str) -> list[Life]:
    if at == "peak":
        return trace.live(trace.peak)
    if at == "end":
        return trace.live(trace.changes[-1])
    born = [
        life.born
        for life in trace.lives
        if life.born is not None and (not trace.is_log or life.iteration == len(trace.ends) - 1)
    ]
    return [
        life
        for life in trace.lives
        if (life.born or 0) <= max(born) and (life.died is None or life.died >= min(born))
    ]


def memory_breakdown(
    at: str = "peak", denominator: str = "allocated", sizes: str = "requested"
) -> list[Row]:
    rows = []
    for trace in traces():
        classes = _grouped(_chosen(trace, at), lambda life: life.kind)
        counted = {
            kind: sum(life.allocated if sizes == "allocated" else life.bytes for life in lives)
            for kind, lives in classes.items()
        }
        groups = {kind: GROUPS.get(kind, "dynamic") for kind in classes}
        parts = [k for k in classes if denominator == "allocated" or groups[k] in TENSORS]
        whole = sum(counted[kind] for kind in parts)
        rows += [
            _space(
                trace,
                memory_kind=None,
                **{"class": kind},
                group_name=groups[kind],
                requested_bytes=_bytes(lives),
                allocated_bytes=sum(life.allocated for life in lives),
                recomputed_bytes=_bytes(
                    life for life in lives if (kind, life.phase) == ("feature_map", "recompute")
                ),
                allocations=len(lives),
                share_pct=100 * counted[kind] / whole if kind in parts else None,
                evidence=lives[0].evidence,
                why_not=None,
            )
            for kind, lives in sorted(classes.items(), key=lambda item: (-_bytes(item[1]), item[0]))
        ]
    return rows


def memory_vs_batch() -> list[Row]:
    order = ("weights", "dynamic", "weight gradients", "workspace", "feature maps", "unknown")
    return [
        {
            "sweep": "small-cnn pytorch fp32",
            "trace_id": trace.trace_id,
            "device_id": DEVICE,
            "batch_size": 8,
            "group_name": group,
            "requested_bytes": _bytes(groups[group]),
            "peak_requested_bytes": trace.total(trace.peak),
            "peak_reserved_bytes": max(trace.held),
            **dict.fromkeys(
                (
                    "samples_per_s",
                    "bytes_per_sample",
                    "largest_batch",
                    "largest_evidence",
                    "why_not",
                )
            ),
            "evidence": "measured",
        }
        for trace in traces()
        for groups in [_grouped(trace.live(trace.peak), lambda x: GROUPS.get(x.kind, "dynamic"))]
        for group in order
    ]


def memory_by_layer(iteration: int = -1) -> list[Row]:
    rows = []
    for trace in traces():
        number = (iteration if iteration >= 0 else len(trace.ends) - 1) if trace.is_log else None
        counted = [life for life in trace.lives if _is_counted(trace, life, number)]
        found = [
            _layer(layer, lives) for layer, lives in _grouped(counted, lambda x: x.layer).items()
        ]
        shown = [r for r in found if r["layer"] or any(r["sums"].values())]
        whole = sum(r["total"] for r in shown)
        rows += [
            {"trace_id": trace.trace_id, "process_id": None, "device_id": DEVICE}
            | {"layer": r["layer"], **r["sums"], "total_bytes": r["total"]}
            | {"share_pct": 100 * r["total"] / whole}
            | {"measured_over": "peak" if number is None else f"iteration {number}"}
            | {"evidence": r["evidence"]}
            for r in sorted(shown, key=lambda r: (-r["total"], r["first"], r["layer"]))
        ]
    return rows


def _is_counted(trace: Trace, life: Life, iteration: int | None) -> bool:
    if life.kind in ("weight", "optimizer_state", "buffer"):
        return life.died is None
    if iteration is None:
        return life.live_after(trace.peak)
    if life.kind == "weight_gradient" and life.iteration is not None:
        return life.iteration == iteration or (life.iteration < iteration and life.died is None)
    return life.iteration == iteration


def _layer(layer: str | None, lives: list[Life]) -> Row:
    def total(*kinds: str, again: bool | None = None) -> int:
        return _bytes(
            life
            for life in lives
            if life.kind in kinds and again in (None, life.phase == "recompute")
        )

    sums = {
        "weight_bytes": total("weight"),
        "weight_gradient_bytes": total("weight_gradient"),
        "optimizer_state_bytes": total("optimizer_state"),
        "buffer_bytes": total("buffer"),
        "feature_map_bytes": total("feature_map", again=False),
        "recomputed_bytes": total("feature_map", again=True),
        "activation_gradient_bytes": total("activation_gradient"),
        "workspace_bytes": total("workspace", "temporary"),
    }
    maps = [life.born for life in lives if life.kind == "feature_map" and life.born is not None]
    return {
        "layer": layer,
        "sums": sums,
        "total": sum(list(sums.values())[:5]),
        "first": min(maps, default=1 << 60),
        "evidence": ",".join(sorted({life.evidence for life in lives})),
    }


def _code(stack: Stack) -> str | None:
    frames = [
        f"{function} ({file.rsplit('/', 1)[-1]}:{line})"
        for function, file, line in stack
        if file.endswith(".py") and function != "_call_impl"
    ]
    return " < ".join(frames[:4]) or None


def memory_at_peak(top: int = 30) -> list[Row]:
    rows = []
    for trace in traces():
        live = trace.live(trace.peak)
        groups = _grouped(live, lambda x: (x.kind, x.layer, x.operator, x.stack, x.evidence))
        ranked = sorted(
            groups.items(),
            key=lambda item: (-_bytes(item[1]), item[0][0], *map(_nulls_last, item[0][1:3])),
        )
        rows += [
            _space(
                trace,
                **{"class": kind},
                layer=layer,
                operator=operator,
                allocations=len(lives),
                requested_bytes=_bytes(lives),
                share_pct=100 * _bytes(lives) / _bytes(live),
                largest_bytes=max(life.bytes for life in lives),
                code=_code(stack),
                evidence=evidence,
            )
            for (kind, layer, operator, stack, evidence), lives in ranked[:top]
        ]
    return rows


def memory_timeline(by: str = "class", points: int = 12) -> list[Row]:
    rows = []
    for trace in traces():
        parts = _grouped(
            trace.lives,
            lambda life: getattr(life, "kind" if by == "class" else by) or "unknown",
        )
        order = {part: i for i, part in enumerate(DRAWN_FIRST)}
        stretches = defaultdict(list)
        first, last = min(trace.changes), max(trace.changes)
        for position in trace.changes:
            stretches[(position - first) * points // (last - first + 1)].append(position)
        for positions in stretches.values():
            at = max(positions, key=lambda position: (trace.total(position), -position))
            rows += [
                _space(
                    trace,
                    memory_kind=None,
                    sequence=at,
                    timestamp_ns=at * EVENT_NS,
                    part=part,
                    requested_bytes=_bytes(x for x in parts[part] if x.live_after(at)),
                    total_bytes=trace.total(at),
                    reserved_bytes=trace.held_at(at),
                )
                for part in sorted(parts, key=lambda part: (order.get(part, 99), part))
            ]
    return rows


def memory_leak(min_iterations: int = 3) -> list[Row]:
    rows = []
    for trace in traces():
        ends = trace.ends[1:]
        key = lambda x: (x.kind, x.layer, x.operator)  # noqa: E731
        groups = _grouped(trace.lives, key)
        whole = _growth(trace, ("all", None, None), trace.lives, ends)
        grown = [_growth(trace, part, lives, ends) for part, lives in groups.items()]
        grown = [r for r in grown if r["growth_bytes_per_iteration"] > 0]
        grown.sort(key=lambda r: (-r["growth_bytes_per_iteration"], r["part"]))
        for row in (whole, *grown):
            if len(ends) < min_iterations:
                row["growth_bytes_per_iteration"] = None
            rows.append(row)
    return rows


def _growth(
    trace: Trace, part: tuple[str, str | None, str | None], lives: list[Life], ends: list[int]
) -> Row:
    sizes = [_bytes(life for life in lives if life.live_after(end)) for end in ends]
    slopes = [(sizes[b] - sizes[a]) / (b - a) for a, b in combinations(range(len(sizes)), 2)]
    live = [life for life in lives if life.live_after(ends[-1])]
    stack = max(live, key=lambda life: life.bytes).stack if live and part[0] != "all" else ()
    return _space(
        trace,
        part=part[0],
        layer=part[1],
        operator=part[2],
        iterations=len(ends),
        first_bytes=sizes[0],
        last_bytes=sizes[-1],
        growth_bytes_per_iteration=float(statistics.median(slopes)),
        code=_code(stack),
    )


def fragmentation(by: str = "device") -> list[Row]:
    (trace,) = (trace for trace in traces() if not trace.is_log)
    pools = defaultdict(list)
    for segment in training().allocator.segments:
        kind = "small" if segment.is_small else "large"
        pools[(kind, "0,0", 0) if by == "pool" else (None, None, None)].append(segment)
    rows = []
    for (kind, pool, stream), segments in sorted(pools.items(), key=str):
        used = [s for s in segments if any(b.requested is not None for b in s.blocks)]
        free = [b.size for s in segments for b in s.blocks if b.requested is None]
        live = [b for s in segments for b in s.blocks if b.requested is not None]
        reserved = sum(s.size for s in segments)
        inside = sum(b.size for s in used for b in s.blocks if b.requested is None)
        requested = sum(b.requested or 0 for b in live)
        rows.append(
            {"trace_id": trace.trace_id, "process_id": None, "device_id": DEVICE}
            | {"segment_type": kind, "pool": pool, "stream_id": stream}
            | {"segments": len(segments), "reserved_bytes": reserved}
            | {
                "requested_bytes": requested,
                "rounding_bytes": sum(b.size for b in live) - requested,
            }
            | {"pending_bytes": 0, "free_inside_bytes": inside}
            | {"free_segment_bytes": sum(free) - inside, "largest_free_bytes": max(free, default=0)}
            | {"fragmentation_pct": 100 * inside / reserved}
        )
    return rows
