"""What layers take on the host, and the answers about a run without a GPU.

Exclusive time is worked out from the definition: a range's length without that of the layers'
ranges directly inside it. What no layer owns is found by looking at every moment between two marks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from itertools import pairwise

import cpu_trace
from cpu_trace import LAYERS, Marked
from sample_facts import Row, timeline
from worked_time import COUNTED, statistics_of
from worked_window import after_warm_up, is_slow_start, steady

Key = tuple[str | None, str | None, str | None]  # layer, phase, evidence
CPU = {"trace_id": "cpu_only"}
# The first iteration alone is long.
STEADY = slice(1, len(cpu_trace.DELAYS_US))
MARKED = {"method": "nvtx range", "confidence": 1.0}
WAYS = {"layer:": "nvtx", "layer_backward:": "nvtx backward"}


def is_layer(marked: Marked) -> bool:
    return marked.text.startswith(tuple(WAYS))


def holds(outer: Marked, inner: Marked) -> bool:
    """Tell whether a range holds another one of its thread."""
    return (
        outer is not inner
        and outer.tid == inner.tid
        and outer.start <= inner.start
        and inner.end <= outer.end
    )


def exclusive(marked: Marked, among: Sequence[Marked]) -> int:
    inside = [r for r in among if holds(marked, r)]
    children = [r for r in inside if not any(holds(other, r) for other in inside)]
    return marked.end - marked.start - sum(r.end - r.start for r in children)


def phase_at(moment: int, phases: Sequence[Marked]) -> str | None:
    around = [r for r in phases if r.start <= moment < r.end]
    return max(around).text.split(":")[1] if around else None


def host_times(window: Sequence[Marked], marked: Sequence[Marked]) -> dict[Key, int]:
    """Return the host time, ns, of what each layer does in some iterations, and of the rest.

    Args:
        window: the iterations, all of one thread.
        marked: the ranges of phases and layers of all threads.
    """
    times: dict[Key, int] = defaultdict(int)
    driver = window[0].tid
    for iteration in window:
        inside = [r for r in marked if iteration.start <= r.start < iteration.end]
        layers = [r for r in inside if is_layer(r)]
        phases = [r for r in inside if r.text.startswith("phase:") and r.tid == driver]
        for layer in layers:
            way, name = layer.text.split(":", 1)
            backward = way == "layer_backward"
            phase = "backward" if backward else phase_at(layer.start, phases)
            times[name, phase, WAYS[f"{way}:"]] += exclusive(layer, layers)
        moments = sorted({t for r in [iteration, *inside] for t in (r.start, r.end)})
        for start, end in pairwise(moments):
            if not any(r.start <= start < r.end for r in layers):
                times[None, phase_at(start, phases), None] += end - start
    return dict(times)


@cache
def sample_host_times() -> dict[Key, int]:
    """Return the host times of the sample's steady state."""
    window = steady().iterations
    assert window is not None
    every = [Marked(r.text, r.start, r.end, r.tid) for r in timeline().ranges]
    chosen = [Marked(r.text, r.start, r.end, r.tid) for r in timeline().iterations]
    return host_times([chosen[i] for i in window], [r for r in every if r not in chosen])


# -- the run without a GPU -------------------------------------------------------------------------


@cache
def cpu_host_times() -> dict[Key, int]:
    return host_times(cpu_trace.iterations()[STEADY], cpu_trace.ranges())


def last(value: str | None) -> tuple[bool, str]:
    """Return a key that sorts NULL after every text."""
    return value is None, str(value)


def cpu_layer_time() -> list[Row]:
    times = cpu_host_times()
    total = sum(times.values())
    count = len(cpu_trace.DELAYS_US[STEADY])
    rows = [
        CPU
        | {
            "layer": layer,
            "layer_type": layer and LAYERS[layer],
            "phase": phase,
            "kernels": None,
            "gpu_ns": None,
            "host_ns": time,
            "clock": "host",
            "iteration_ns": time / count,
            "share_pct": 100 * time / total,
            "evidence": evidence,
            "measured_over": "steady state",
        }
        for (layer, phase, evidence), time in times.items()
    ]
    return sorted(rows, key=lambda r: (-r["host_ns"], last(r["layer"]), last(r["phase"])))


def cpu_dominant_layer(by: str = "layer") -> list[Row]:
    total = sum(r.end - r.start for r in cpu_trace.iterations()[STEADY])
    times: dict[tuple[str | None, str | None], int] = defaultdict(int)
    ways: dict[tuple[str | None, str | None], set[str]] = defaultdict(set)
    for (layer, _, evidence), time in cpu_host_times().items():
        key = layer if by == "layer" else None, layer and LAYERS[layer]
        times[key] += time
        ways[key] |= {evidence} - {None}
    nobody = times[None, None]
    owned = sorted(times.keys() - {(None, None)}, key=lambda k: (-times[k], *map(last, k)))
    return [
        CPU
        | {
            "rank": rank,
            "layer": key[0],
            "layer_type": key[1],
            "gpu_ns": None,
            "host_ns": times[key],
            "clock": "host",
            "share_pct": 100 * times[key] / sum(times.values()),
            "unattributed_pct": 100 * nobody / total,
            "kernels": None,
            "evidence": " + ".join(sorted(ways[key])) or None,
            "measured_over": "steady state",
        }
        for rank, key in [*enumerate(owned, 1), (None, (None, None))]
    ]


def cpu_iteration_timing() -> list[Row]:
    times = cpu_trace.periods()
    assert [is_slow_start(times, i, set()) for i in range(len(times))] == [True] + 6 * [False]
    assert after_warm_up(times, {0}) == STEADY.start
    dropped = {0: "slow start"}
    return [
        CPU
        | {
            "pid": cpu_trace.PID,
            "iteration": number,
            "label": marked.text,
            "start_ns": marked.start,
            "host_ns": marked.end - marked.start,
            "gpu_ns": None,
            "period_ns": times[number],
            "clock": "host",
            "kernels": None,
            "kernel_ns": None,
            "in_window": number not in dropped,
            "dropped": dropped.get(number),
        }
        | MARKED
        for number, marked in enumerate(cpu_trace.iterations())
    ]


def cpu_iteration_summary() -> list[Row]:
    times = {
        "period_ns": cpu_trace.periods()[STEADY],
        "host_ns": [r.end - r.start for r in cpu_trace.iterations()[STEADY]],
        "gpu_ns": [],
    }
    unknown = dict.fromkeys(statistics_of(times["host_ns"])) | {"n": 0, "stalls": 0}
    return [
        CPU
        | {"pid": cpu_trace.PID, "measure": measure}
        | (statistics_of(values) if values else unknown | {"stability": "not known"})
        | COUNTED
        | {"dropped": "slow start: 0"}
        | MARKED
        for measure, values in times.items()
    ]


def cpu_throughput() -> list[Row]:
    counted = cpu_trace.periods()[STEADY]
    rate = len(counted) / (sum(counted) / 1e9)
    return [
        CPU
        | {
            "pid": cpu_trace.PID,
            "iterations": len(counted),
            "elapsed_ns": sum(counted),
            "iterations_per_s": rate,
            "stall_share_pct": statistics_of(counted)["stall_share_pct"],
            "batch_size": cpu_trace.BATCH_SIZE,
            "samples_per_s": cpu_trace.BATCH_SIZE * rate,
            "unprofiled_samples_per_s": None,
            "unprofiled_units_per_s": None,
            "throughput_unit": None,
            "real_units_per_s": None,
            "real_unit": None,
            "padding_pct": None,
            "profiler_slowdown_pct": None,
            "stability": statistics_of(counted)["stability"],
        }
        | COUNTED
        | MARKED
        | {"evidence": "capture.json"}
    ]
