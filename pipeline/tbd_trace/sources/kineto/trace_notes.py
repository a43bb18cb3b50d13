"""Write the notes of a trace: rank, damage, dropped and unread events."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from tbd_trace.sources.base import Ask
from tbd_trace.sources.kineto.devices import device_names
from tbd_trace.sources.kineto.event_block import FRAME
from tbd_trace.sources.kineto.event_list import EventList
from tbd_trace.sources.kineto.kept_events import KeptEvents

_RANK = re.compile(r"(?i)rank[-_]?(\d+)")
# Derived from other events.
_DERIVED = {"gpu_user_annotation", "ac2g", "async", "async_gpu", "async_cpu_to_gpu", "fwdbwd"}
_DERIVED |= {"Trace"}
_DEVICE_CATEGORY = re.compile(r"(?:mtia|privateuse1|hpu|tpu)_")  # categories of devices not read
_LAUNCHED = """
    SELECT count(*), count(*) FILTER (c.correlation_id IS NULL),
        count(*) FILTER (c.is_graph), sum(k.duration_ns),
        coalesce(sum(k.duration_ns) FILTER (c.is_graph), 0)
    FROM kernel AS k
    LEFT JOIN (
        SELECT process_id, correlation_id, bool_or(contains(name, 'GraphLaunch')) AS is_graph
        FROM api_call WHERE api = 'cuda' GROUP BY ALL
    ) AS c ON c.process_id = k.process_id AND c.correlation_id = k.correlation_id"""


def trace_notes(name: str, events: EventList, kept: KeptEvents, damage: str | None) -> list[str]:
    """Return the notes on the content of a file.

    Args:
        name: file name, which may contain the rank.
        damage: why the content ends early, None if it does not.
    """
    return [
        *_rank(name, events.header),
        *_ending(events, kept, damage),
        *_damaged(events),
        *_dropped(kept),
        *_repeated(kept),
        *_left_out(kept),
        *_unread_device(events.header, kept),
    ]


def launch_notes(ask: Ask) -> list[str]:
    """Return notes on kernels of graphs and on kernels without a launch.

    Args:
        ask: runs a SELECT on the ingested canonical tables.
    """
    ((kernels, alone, in_graphs, total_ns, graph_ns),) = ask(_LAUNCHED)
    notes = []
    if in_graphs:
        share = f" ({100 * graph_ns / total_ns:.1f} % of the kernel time)" if total_ns else ""
        notes.append(
            f"kernels launched by graphs: {in_graphs:,} of {kernels:,}{share}; the operators and "
            "modules inside a graph are not recorded"
        )
    if alone:
        notes.append(
            f"kernels without a launching call: {alone:,} of {kernels:,}; without operator, module "
            "and step"
        )
    return notes


def _rank(name: str, header: Mapping[str, Any]) -> list[str]:
    info = header.get("distributedInfo")
    job = info if isinstance(info, dict) else {}
    if "rank" in job:
        size = f" of {job['world_size']}" if "world_size" in job else ""
        backend = f" ({job['backend']})" if "backend" in job else ""
        return [f"rank {job['rank']}{size}{backend} of a distributed job"]
    match = _RANK.search(name)
    return [f"rank {match[1]} of a distributed job, by the file name"] if match else []


def _ending(events: EventList, kept: KeptEvents, damage: str | None) -> list[str]:
    if events.is_complete and damage is None:
        return []
    last = f", last at {kept.last_ns:,} ns" if kept.last_ns is not None else ""
    if events.is_complete:
        return [f"damaged after its events: {damage}"]
    why = f" ({damage})" if damage else ""
    return [f"ends in the middle{why}: {kept.events:,} events read{last}"]


def _damaged(events: EventList) -> list[str]:
    notes = []
    if events.decoded.dropped:
        notes.append(f"invalid JSON: {events.decoded.dropped:,} events dropped")
    if events.decoded.repaired:
        notes.append(f"invalid JSON: {events.decoded.repaired:,} events repaired")
    if events.decoded.has_bad_utf8:
        notes.append("bytes that are not UTF-8 were replaced")
    return notes


def _dropped(kept: KeptEvents) -> list[str]:
    defects: Counter[str] = Counter()
    for (_, _, kind, defect), number in kept.groups.items():
        if defect is not None and (kind != FRAME or FRAME in kept.kinds):
            defects[defect] += number
    return [f"events {defect}: {number:,}; dropped" for defect, number in sorted(defects.items())]


def _repeated(kept: KeptEvents) -> list[str]:
    number = kept.repeated
    return [f"operators and ranges that stand twice: {number:,}; left out"] if number else []


def _left_out(kept: KeptEvents) -> list[str]:
    derived: Counter[str] = Counter()
    unknown: Counter[str] = Counter()
    frames = 0
    for (phase, category, kind, _), number in kept.groups.items():
        if kind == FRAME and FRAME not in kept.kinds:
            frames += number
        elif kind is None and phase not in ("M", None) and category is not None:
            if not _DEVICE_CATEGORY.match(category):
                (derived if category in _DERIVED else unknown)[category] += number
        elif kind is None and phase == "X":
            unknown["without a category"] += number
    notes = []
    if frames:
        notes.append(f"frames of Python not stored, except calls of modules: {frames:,}")
    if derived:
        notes.append(f"events derived from others, not stored: {_listed(derived.items())}")
    if unknown:
        notes.append(f"events of unknown categories, not stored: {_listed(unknown.items())}")
    return notes


def _unread_device(header: Mapping[str, Any], kept: KeptEvents) -> list[str]:
    # Advice on missing kernels cites this note (query/needs.py).
    counts: Counter[str] = Counter()
    for (_, category, kind, _), number in kept.groups.items():
        if kind is None and category is not None and _DEVICE_CATEGORY.match(category):
            counts[category] += number
    if not counts:
        return []
    names = list(dict.fromkeys(device_names(header)))
    device = ", ".join(names) or "the device"
    return [f"work of {device} is not read: {_listed(counts.items())}"]


def _listed(counts: Iterable[tuple[str, int]]) -> str:
    return ", ".join(f"{name} {number:,}" for name, number in sorted(counts))
