"""Find stalls of the host: far longer pauses than usual at the same place of a step."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from statistics import median

from tbd_trace.why.program import Program

_SHORTEST_NS = 1_000_000
_TIMES_USUAL = 10
_FEWEST_STEPS = 5  # with fewer, the usual pause is unknown


def stalls(program: Program) -> dict[int, int]:
    """Return the usual pause, in ns, before each call that the host reached late.

    Waits for input are not stalls.
    """
    calls, ops = program.calls, program.ops
    firsts = [ops.call[op] for op, _ in program.steps]
    firsts += [ops.call[op] for _, op in program.steps[-1:]]
    begins = [calls.start[call] for call in firsts if call >= 0]
    if len(begins) != len(firsts) or begins != sorted(begins):
        return {}
    place: dict[int, tuple[int, int, str]] = {}
    pauses: dict[tuple[int, int, str], list[int]] = defaultdict(list)
    rank: dict[tuple[int, int], int] = defaultdict(int)
    for call, start in enumerate(calls.start):
        step = bisect_right(begins, start) - 1
        if 0 <= step < len(begins) - 1 and call not in program.input_waits:
            thread = calls.thread[call]
            key = thread, rank[thread, step], calls.name[call]
            rank[thread, step] += 1
            place[call] = key
            pauses[key].append(calls.think[call])
    usual = {key: median(some) for key, some in pauses.items() if len(some) >= _FEWEST_STEPS}
    return {
        call: int(usual[key])
        for call, key in place.items()
        if key in usual and calls.think[call] > max(_SHORTEST_NS, _TIMES_USUAL * usual[key])
    }
