"""Divide the elapsed time of the captured steps among causes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence

from tbd_trace.why.program import Program

LONG_CALL_NS = 1_000_000  # a longer launch loads modules or compiles


def shares(program: Program, stalls: Collection[int]) -> dict[str, float]:
    """Return the time of each cause in ns; they are disjoint and sum to the time of the steps.

    Without steps, they sum to the time from the first to the last operation.

    At each moment the GPU's kernels count first, divided equally among kernels that run together,
    then communication, copies, and the reason for which the next operation has not begun.

    Args:
        stalls: calls before which the host stalled.
    """
    ops = program.ops
    if program.steps:
        begin, end = ops.start[program.steps[0][0]], ops.start[program.steps[-1][1]]
    else:
        begin, end = min(ops.start), max(ops.end)
    spent: dict[str, float] = defaultdict(float)
    here = [op for op, device in enumerate(ops.device) if device == program.device_id]
    changes = sorted(
        (at, is_end, op) for op in here for at, is_end in ((ops.start[op], 0), (ops.end[op], 1))
    )
    running: dict[str, int] = {}
    knows_launches = program.knows_launches
    at = begin
    for time, is_end, op in changes:
        now = min(max(time, begin), end)
        if now > at:
            if active := _active(running):
                total = sum(running[cause] for cause in active)
                for cause in active:
                    spent[cause] += (now - at) * running[cause] / total
            elif knows_launches:
                for cause, ns in idle_causes(program, stalls, (at, now), op).items():
                    spent[cause] += ns
            else:
                spent["unknown"] += now - at
            at = now
        cause = ops.cause[op]
        running[cause] = running.get(cause, 0) + (-1 if is_end else 1)
        if not running[cause]:
            del running[cause]
    spent["unknown"] += end - at
    return {cause: ns for cause, ns in spent.items() if ns > 0}


def _active(running: dict[str, int]) -> Sequence[str]:
    # The causes of the operations that count.
    if kernels := [cause for cause in running if cause.startswith("gpu_")]:
        return kernels
    return [cause for cause in ("communication", "copies") if cause in running][:1]


def idle_causes(
    program: Program, stalls: Collection[int], gap: tuple[int, int], op: int
) -> dict[str, int]:
    """Return the ns of each cause of a gap before an operation, back from its launch."""
    calls = program.calls
    begin, at = gap
    call = program.ops.call[op]
    if call < 0:
        return {"unknown": at - begin}
    parts: Counter[str] = Counter()

    def back_to(time: int, cause: str) -> None:
        nonlocal at
        time = max(time, begin)
        if time < at:
            parts[cause] += at - time
            at = time

    if _call(program, call) == "warm_up":
        back_to(calls.end[call], "launch_latency")
        back_to(calls.start[call], "warm_up")
    back_to(calls.start[call], "launch_latency")
    while at > begin:
        back_to(calls.start[call] - calls.think[call], _pause(program, stalls, call))
        call = calls.waited[call]
        if call < 0:
            back_to(begin, "unknown")
            break
        back_to(calls.start[call], _call(program, call))
    return parts


def _pause(program: Program, stalls: Collection[int], call: int) -> str:
    if call in program.input_waits:
        return "input_pipeline"
    return "host_stalls" if call in stalls else "host"


def _call(program: Program, call: int) -> str:
    calls = program.calls
    kind = calls.kind[call]
    if kind == "sync":
        return "synchronization"
    if kind == "alloc":
        return "memory_allocation"
    if kind in ("launch", "other") and calls.end[call] - calls.start[call] > LONG_CALL_NS:
        return "warm_up"
    return "host"
