"""Causes of the steps of the sample, found for each interval in which nothing changes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from itertools import groupby, pairwise

from sample_facts import DEVICE, PID, Call, Operation, Row, row, timeline
from worked_time import between, idle_gaps
from worked_window import steady

KERNELS = {
    "scudnn": "gpu_matmul_no_tensor_core",
    "s16816gemm": "gpu_matmul_tensor_core",
    "im2col": "gpu_matmul",
    "wgrad_alg0_engine<float": "gpu_matmul_no_tensor_core",
    "bn_": "gpu_normalization",
    "elementwise": "gpu_elementwise",
    "multi_tensor_apply": "gpu_optimizer",
    "softmax": "gpu_reduction",
    "nll_loss": "gpu_reduction",
    "reduce_kernel": "gpu_reduction",
    "max_pool": "gpu_pooling",
}
"""Cause of the kernels whose names contain a text; the first one counts."""
SHORTEST_PAUSE_NS = 20_000  # below it no thread waits for another, or for data
LONG_CALL_NS = 1_000_000
"""Longer launches and calls about modules load or compile."""


@cache
def edges() -> tuple[Operation, Operation]:
    """Return the beginning and the end of the steps of the window, as operations of no length.

    The host sets both: the thread of the iterations works from the beginning to its first call, and
    from its last call to the end.
    """
    window = steady()
    assert window.iterations is not None
    tid = timeline().iterations[0].tid

    def edge(name: str, at: int, iteration: int) -> Operation:
        call = Call(name, at, at, tid)
        return Operation("step", "", at, at, -1, call, (), iteration, {})

    return (
        edge("step begins", window.start, window.iterations[0]),
        edge("step ends", window.end, window.iterations[-1]),
    )


def steps() -> int:
    return len(steady().iterations or ())


def cause_times() -> dict[str, float]:
    """Return the time of each cause per step, in ns."""
    window = steady()
    spent: dict[str, float] = defaultdict(float)
    for begin, end, causes in cause_spans(window.start, window.end):
        for cause in causes:
            spent[cause] += (end - begin) / len(causes) / steps()
    return spent


def cause_spans(first: int, last: int) -> Iterator[tuple[int, int, list[str]]]:
    """Yield the times between ``first`` and ``last`` in which nothing changes, with the causes.

    A cause appears once for each of its kernels.
    """
    operations, calls = [*timeline().operations, edges()[1]], chain()
    times = {time for one in (*operations, *calls) for time in (one.start, one.end)}
    times |= {first, last}
    times |= {time for call in calls[1:] for wait in input_wait(call) for time in wait}
    for begin, end in pairwise(sorted(time for time in times if first <= time <= last)):
        yield begin, end, _working(operations, begin) or [_idle(operations, calls, begin)]


def idle_causes() -> list[Row]:
    window = steady()
    stretches: dict[str, list[int]] = defaultdict(list)
    idle_between: Counter[str] = Counter()
    gaps: Counter[str] = Counter()
    for gap in idle_gaps(window):
        is_between = between(window, [gap]) > 0
        spans = [(causes, end - begin) for begin, end, causes in cause_spans(*gap)]
        found = [
            (cause, sum(ns for _, ns in same))
            for (cause,), same in groupby(spans, key=lambda span: span[0])
        ]
        for cause, ns in found:
            stretches[cause].append(ns)
            idle_between[cause] += ns if is_between else 0
        gaps.update({cause for cause, _ in found})
    idle = sum(sum(found) for found in stretches.values())
    return [
        row(
            pid=PID,
            device_id=DEVICE,
            cause=cause,
            title=cause.replace("_", " "),
            idle_ns=sum(found),
            between_ns=idle_between[cause],
            share_pct=100 * sum(found) / idle,
            elapsed_pct=100 * sum(found) / window.elapsed,
            gaps=gaps[cause],
            longest_ns=max(found),
            evidence="estimated",
            measured_over=window.measured_over,
            iterations=len(window.iterations or ()),
            reason=None,
        )
        for cause, found in sorted(stretches.items(), key=lambda item: (-sum(item[1]), item[0]))
    ]


def launching_calls() -> list[Call]:
    """Return the calls of the threads that launch, in order of start."""
    threads = {one.launch.tid for one in timeline().operations}
    return [call for call in timeline().calls if call.tid in threads]


@cache
def chain() -> list[Call]:
    """Return these calls with the beginning and the end of the steps, in order of start."""
    marks = [edge.launch for edge in edges()]
    return sorted([*launching_calls(), *marks], key=lambda call: call.start)


def cause_of(one: Operation) -> str:
    """Return the cause that an operation is while it runs."""
    if one.kind != "kernel":
        return "copies"
    return next(KERNELS[text] for text in KERNELS if text in one.name)


def input_wait(call: Call) -> list[tuple[int, int]]:
    """Return the times of the pause before a call in which its thread loads data."""
    begin = _followed(chain(), call).end
    inside = [
        (max(r.start, begin), min(r.end, call.start))
        for r in timeline().ranges
        if r.text == "phase:data" and r.tid == call.tid and r.start < call.start and r.end > begin
    ]
    return inside if sum(b - a for a, b in inside) > SHORTEST_PAUSE_NS else []


def _working(operations: list[Operation], time: int) -> list[str]:
    running = [one for one in operations if one.start <= time < one.end]
    kernels = [cause_of(one) for one in running if one.kind == "kernel"]
    return kernels or ["copies"] * bool(running)


def _idle(operations: list[Operation], calls: list[Call], time: int) -> str:
    # The part of the chain of calls behind the next operation that holds the time.
    call = min((one for one in operations if one.start > time), key=lambda one: one.start).launch
    if call.start <= time:
        return "warm_up" if _is_long(call) and time < call.end else "launch_latency"
    while True:
        before = _followed(calls, call)
        if before.end <= time:
            loads = any(a <= time < b for a, b in input_wait(call))
            return "input_pipeline" if loads else "host"
        if before.start <= time:
            return _kind(before)
        call = before


def _followed(calls: list[Call], call: Call) -> Call:
    own = [one for one in calls if one.tid == call.tid and one.start < call.start]
    previous = max(own, key=lambda one: one.start, default=None)
    ended = [one for one in calls if one.end <= call.start and one is not call]
    last = max(ended, key=lambda one: one.end)
    if previous is None or call.start - previous.end > SHORTEST_PAUSE_NS:
        return last
    return previous


def _is_long(call: Call) -> bool:
    return call.end - call.start > LONG_CALL_NS


def _kind(call: Call) -> str:
    if "Synchronize" in call.name:
        return "synchronization"
    if "Malloc" in call.name or "Free" in call.name:
        return "memory_allocation"
    return "warm_up" if "Mem" not in call.name and _is_long(call) else "host"
