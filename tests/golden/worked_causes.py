"""Causes of the steps of the sample, found for each interval in which nothing changes."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

from sample_facts import Call, Operation, Range, timeline

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
    operations, begins = timeline().operations, step_begins()
    threads = {one.launch.tid for one in operations}
    calls = [call for call in timeline().calls if call.tid in threads]
    ranges = [r for r in timeline().ranges if r.text == "phase:data"]
    times = {time for one in (*operations, *calls) for time in (one.start, one.end)}
    times |= {begins[0], begins[-1]}
    spent: dict[str, float] = defaultdict(float)
    for begin, end in pairwise(sorted(t for t in times if begins[0] <= t <= begins[-1])):
        causes = _working(operations, begin) or [_idle(operations, calls, ranges, begin)]
        for cause in causes:
            spent[cause] += (end - begin) / len(causes) / (len(begins) - 1)
    return spent


def _working(operations: list[Operation], time: int) -> list[str]:
    running = [one for one in operations if one.start <= time < one.end]
    kernels = [one.name for one in running if one.kind == "kernel"]
    if kernels:
        return [next(KERNELS[text] for text in KERNELS if text in name) for name in kernels]
    return ["copies"] if running else []


def _idle(operations: list[Operation], calls: list[Call], ranges: list[Range], time: int) -> str:
    # The part of the chain of calls behind the next operation that holds the time.
    call = min((one for one in operations if one.start > time), key=lambda one: one.start).launch
    if call.start <= time:
        return "warm_up" if _is_long(call) and time < call.end else "launch_latency"
    while True:
        before = _followed(calls, call)
        if before.end <= time:
            return "input_pipeline" if _loads(ranges, before.end, call) else "host"
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


def _loads(ranges: list[Range], begin: int, call: Call) -> bool:
    pause = call.start - begin
    inside = sum(
        max(0, min(r.end, call.start) - max(r.start, begin)) for r in ranges if r.tid == call.tid
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
