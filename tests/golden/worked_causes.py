"""Causes of the steps of the sample, found for each interval in which nothing changes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from sample_facts import Call, Operation, timeline

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


def step_begins() -> list[int]:
    """Return the start of the first operation of each iteration."""
    begins: dict[int, int] = {}
    for one in timeline().operations:
        begins[one.iteration] = min(one.start, begins.get(one.iteration, one.start))
    return [begins[iteration] for iteration in sorted(begins)]


def cause_times() -> dict[str, float]:
    """Return the time of each cause per step, in ns."""
    begins = step_begins()
    spent: dict[str, float] = defaultdict(float)
    for begin, end, causes in cause_spans(begins[0], begins[-1]):
        for cause in causes:
            spent[cause] += (end - begin) / len(causes) / (len(begins) - 1)
    return spent


def cause_spans(first: int, last: int) -> Iterator[tuple[int, int, list[str]]]:
    """Yield the times between ``first`` and ``last`` in which nothing changes, with the causes.

    A cause appears once for each of its kernels.
    """
    operations, calls = timeline().operations, launching_calls()
    times = {time for one in (*operations, *calls) for time in (one.start, one.end)}
    times |= {first, last}
    for begin, end in pairwise(sorted(time for time in times if first <= time <= last)):
        yield begin, end, _working(operations, begin) or [_idle(operations, calls, begin)]


def launching_calls() -> list[Call]:
    """Return the calls of the threads that launch, in order of start."""
    threads = {one.launch.tid for one in timeline().operations}
    return [call for call in timeline().calls if call.tid in threads]


def cause_of(one: Operation) -> str:
    """Return the cause that an operation is while it runs."""
    if one.kind != "kernel":
        return "copies"
    return next(KERNELS[text] for text in KERNELS if text in one.name)


def input_wait(call: Call) -> tuple[int, int] | None:
    """Return the pause before a call if its thread loads data then."""
    before = _followed(launching_calls(), call)
    return (before.end, call.start) if _loads(before.end, call) else None


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
            return "input_pipeline" if _loads(before.end, call) else "host"
        if before.start <= time:
            return _kind(before)
        call = before


def _followed(calls: list[Call], call: Call) -> Call:
    own = [one for one in calls if one.tid == call.tid and one.start < call.start]
    previous = max(own, key=lambda one: one.start, default=None)
    last = max((one for one in calls if one.end <= call.start), key=lambda one: one.end)
    if previous is None or call.start - previous.end > SHORTEST_PAUSE_NS:
        return last
    return previous


def _loads(begin: int, call: Call) -> bool:
    pause = call.start - begin
    inside = sum(
        max(0, min(r.end, call.start) - max(r.start, begin))
        for r in timeline().ranges
        if r.text == "phase:data" and r.tid == call.tid
    )
    return pause > SHORTEST_PAUSE_NS and inside > pause / 2


def _is_long(call: Call) -> bool:
    return call.end - call.start > LONG_CALL_NS


def _kind(call: Call) -> str:
    if "Synchronize" in call.name:
        return "synchronization"
    if "Malloc" in call.name or "Free" in call.name:
        return "memory_allocation"
    return "warm_up" if "Mem" not in call.name and _is_long(call) else "host"
