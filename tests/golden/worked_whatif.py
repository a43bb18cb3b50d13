"""Steps of the sample after changes.

Calls and operations start when the jobs before them allow it. All starts are computed again until
none changes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from statistics import fmean, median, stdev

from sample_facts import Call, Operation, timeline
from worked_causes import cause_of, chain, edges, input_wait, launching_calls
from worked_time import idle_gaps
from worked_window import bounds, steady

STREAM_SYNCHRONIZED = 7
READY_BATCH_NS = 200_000
FAST_CALL_NS, FAST_PAUSE_NS, GAP_NS = 700, 500, 1_200  # of a CUDA graph
PINNED_BYTES_PER_NS = 20
AMP = {
    "gpu_matmul_no_tensor_core": (0.27, 0.38, 0.48),
    "gpu_elementwise": (0.58, 0.72, 0.88),
    "gpu_reduction": (0.5, 0.7, 1),
    "gpu_normalization": (0.5, 0.85, 1),
    "gpu_pooling": (0.5, 0.75, 1),
}
"""Times of kernels in half precision: best, likely and worst."""
SLOWER_HOST = 1.3  # of autocast, at worst
COMPILE = {
    "gpu_elementwise": (0.5, 0.75, 1.1),
    "gpu_reduction": (0.5, 0.8, 1),
    "gpu_normalization": (0.5, 0.85, 1),
}
SAVED = {
    "channels_last": (1, 0.7, 0.3),
    "fused_optimizer": (1.1, 1, 0.7),
    "graph": (1.1, 0.95, 0.55),
    "host_stalls": (1.1, 1, 0.85),
    "input": (1.15, 1, 0.75),
    "no_alloc": (1.3, 1.1, 0.8),
    "no_sync": (1.3, 1, 0.5),
    "overlap_copies": (1.2, 1, 0.6),
    "pinned": (1.2, 1, 0.6),
    "straggler": (1.1, 0.97, 0.8),
}
"""Parts of the time that a change removes here, which programs have saved: best, likely, worst."""
OF_HOST = {"graph", "host_stalls", "input", "no_alloc", "no_sync"}
LEAST_WIDTH = 0.02  # of the likely step, on each side
LONGEST_PAUSE_NS = 20_000  # until the next call of a thread that waits for no other thread
UNEXPLAINED_NS = 8_000


@dataclass
class Job:
    """A call or an operation.

    Attributes:
        ns: how long it takes, waiting apart.
        after: gives the earliest start from the times of other jobs; None for a fixed start.
        until: gives the earliest end of a call that waits for the GPU.
        late_ns: time after the earliest start that nothing explains.
    """

    start: int
    end: int
    ns: int
    pause_ns: int = 0
    after: Callable[[], int] | None = None
    until: Callable[[], int] | None = None
    late_ns: int = 0

    def move(self) -> bool:
        before = self.start, self.end
        if self.after is not None:
            self.start = self.after() + self.late_ns
        self.end = self.start + self.ns
        if self.until is not None:
            self.end = max(self.end, self.until())
        return (self.start, self.end) != before


@dataclass
class Program:
    """The calls and operations of the sample, with the beginning and the end of the steps."""

    calls: list[tuple[Call, Job]] = field(default_factory=list)
    operations: list[tuple[Operation, Job]] = field(default_factory=list)
    gap_ns: int = field(default_factory=lambda: _usual()[0])

    def settle(self) -> None:
        jobs = [job for _, job in (*self.calls, *self.operations)]
        while sum(job.move() for job in jobs):
            pass

    def mean_step_ns(self) -> float:
        # From the beginning to the first operation of the second step, from there to the first of
        # the third one and so on, and from the first of the last step to the end.
        begin, end = edges()
        firsts: dict[int, Job] = {}
        for one, job in self.operations:
            if one is begin or begin.iteration < one.iteration:
                firsts.setdefault(one.iteration, job)
        last = next(job for one, job in self.operations if one is end)
        return fmean(b.start - a.start for a, b in pairwise([*firsts.values(), last]))


def program() -> Program:
    """Return the sample with the times of the file."""
    made = Program()
    calls = {call: Job(call.start, call.end, call.end - call.start) for call in chain()}
    every = sorted([*timeline().operations, *edges()], key=lambda one: one.start)
    operations = {id(one): Job(one.start, one.end, one.duration) for one in every}
    made.calls = list(calls.items())
    made.operations = [(one, operations[id(one)]) for one in every]
    for call, job in made.calls:
        if (before := _followed(call)) is not None:
            job.pause_ns = call.start - before.end
            job.after = _after(calls[before], job)
        if (awaited := _awaited(call)) is not None:
            waits = awaited.end > call.start
            job.ns = 0 if waits else job.ns
            tail = call.end - awaited.end if waits else _usual_tail()
            job.until = _after(operations[id(awaited)], tail)
    for one, job in made.operations:
        job.after = _start(made, one, calls[one.launch], operations)
    return made


def _after(before: Job, pause: Job | int) -> Callable[[], int]:
    return lambda: before.end + (pause if isinstance(pause, int) else pause.pause_ns)


def _start(
    made: Program, one: Operation, launch: Job, operations: dict[int, Job]
) -> Callable[[], int]:
    before = _previous(one)
    previous = operations[id(before)] if before is not None else None
    _, lag = _usual()

    def ready() -> int:
        launched = launch.start + lag
        return launched if previous is None else max(launched, previous.end + made.gap_ns)

    late = one.start - ready()
    if late <= UNEXPLAINED_NS:
        return ready
    other = _just_ended(one)
    if other is None or other.end <= ready():
        operations[id(one)].late_ns = late
        return ready
    awaited, pause = operations[id(other)], one.start - other.end
    return lambda: max(ready(), awaited.end + pause)


@cache
def _followed(call: Call) -> Call | None:
    own = [one for one in chain() if one.tid == call.tid and one.start < call.start]
    last = [one for one in chain() if one.end <= call.start and one is not call]
    before = own[-1] if own else None
    if before is not None and call.start - before.end <= LONGEST_PAUSE_NS:
        return before
    return max(last, key=lambda one: one.end, default=before)


@cache
def _awaited(call: Call) -> Operation | None:
    # The last operation that ended before the call: what a synchronization waits for. Copies that
    # block, and calls that free memory, wait if it ended during them.
    synchronizes = "Synchronize" in call.name
    ended = [
        one
        for one in timeline().operations
        if one.end <= call.end
        and (not synchronizes or one.details["streamId"] == STREAM_SYNCHRONIZED)
    ]
    last = max(ended, key=lambda one: (one.end, one.start), default=None)
    if last is None or synchronizes:
        return last
    blocks = call.name.startswith(("cudaMemcpy_", "cudaFree_"))
    return last if blocks and last.end > call.start else None


@cache
def _usual_tail() -> int:
    waits = [(call, op) for call in launching_calls() if (op := _awaited(call)) is not None]
    return int(median(call.end - op.end for call, op in waits if op.end > call.start))


@cache
def _usual() -> tuple[int, int]:
    # Time between kernels that waited for each other, and from a launch to a kernel on an idle
    # stream.
    gaps, lags = [], []
    for one in timeline().kernels:
        before = _previous(one)
        # Of all streams: an operation may wait for another stream.
        last = max((o.end for o in timeline().operations if o.end <= one.start), default=0)
        if max(last, 0 if before is None else before.end) < one.launch.start:
            lags.append(one.start - one.launch.start)
        elif before is not None and one.launch.start < before.end - 20_000 and last <= before.end:
            gaps.append(one.start - before.end)
    return round(median(gaps)), round(median(lags))


def _previous(one: Operation) -> Operation | None:
    begin, end = edges()
    if one is begin:
        return None
    if one is end:  # the steps do not end before their last operation
        return max(timeline().operations, key=lambda o: o.end)
    stream = [o for o in timeline().operations if o.details["streamId"] == one.details["streamId"]]
    return next((o for o in reversed(stream) if o.start < one.start), None)


def _just_ended(one: Operation) -> Operation | None:
    ended = [o for o in timeline().operations if o.end <= one.start]
    last = max(ended, key=lambda o: (o.end, o.start), default=None)
    return last if last is not None and one.start - last.end <= 20_000 else None


def _input(made: Program) -> None:
    for call, job in made.calls:
        job.pause_ns -= max(_loading_ns(call) - READY_BATCH_NS, 0)


def _loading_ns(call: Call) -> int:
    if call is launching_calls()[0]:
        return 0
    return sum(end - begin for begin, end in input_wait(call))


def _graph(made: Program) -> None:
    made.gap_ns = min(made.gap_ns, GAP_NS)
    for call, job in made.calls:
        job.ns = min(job.ns, FAST_CALL_NS)
        if not _loading_ns(call):
            job.pause_ns = min(job.pause_ns, FAST_PAUSE_NS)
    for _, job in made.operations:
        job.late_ns = 0


def _no_sync(made: Program) -> None:
    for call, job in made.calls:
        if "Synchronize" in call.name:
            job.until = None


def _no_alloc(made: Program) -> None:
    for call, job in made.calls:
        if "Malloc" in call.name or "Free" in call.name:
            job.ns, job.until = 0, None


def _overlap_copies(made: Program) -> None:
    for one, job in made.operations:
        if one.kind == "memcpy":
            job.ns = 0


def _pinned(made: Program) -> None:
    for one, job in made.operations:
        if one.kind == "memcpy" and _is_pageable(one):
            job.ns = min(job.ns, round(one.details["bytes"] / PINNED_BYTES_PER_NS))


def _is_pageable(one: Operation) -> bool:
    kinds = (timeline().memory_kinds[one.details[side]] for side in ("srcKind", "dstKind"))
    return "Pageable" in kinds


def _scaled(made: Program, factors: dict[str, tuple[float, ...]], case: int) -> None:
    for one, job in made.operations:
        if one.kind == "kernel" and (cause := cause_of(one)) in factors:
            job.ns = round(job.ns * factors[cause][case])


def _slower_host(made: Program) -> None:
    for call, job in made.calls:
        job.ns = round(job.ns * SLOWER_HOST)
        if not _loading_ns(call):
            job.pause_ns = round(job.pause_ns * SLOWER_HOST)


AT_BEST: dict[str, Callable[[Program], None] | None] = {
    "channels_last": None,  # no kernel converts layouts
    "compress": None,  # one rank
    "overlap_comm": None,
    "bucket": None,
    "fused_optimizer": None,  # one kernel updates all tensors
    "graph": _graph,
    "host_stalls": None,
    "input": _input,
    "no_alloc": _no_alloc,
    "no_sync": _no_sync,
    "overlap_copies": _overlap_copies,
    "pinned": _pinned,
    "straggler": None,  # one rank
}
"""Changes, each with what it does to the sample in the best case; None for nothing."""


@dataclass(frozen=True)
class Steps:
    """Mean steps after the warm-up, in ns."""

    best: float
    likely: float
    worst: float


def steps_after_changes() -> dict[str, Steps]:
    """Return the steps after each change by itself."""
    now = measured_ns()
    found = {"amp": _of_kernels(AMP, is_autocast=True), "compile": _of_kernels(COMPILE)}
    for name, change in AT_BEST.items():
        saved = now - _step_ns(change) if change is not None else 0.0
        least = _busy_ns() if name in OF_HOST else 0.0
        after = (max(now - part * saved, least) for part in SAVED.get(name, (1, 1, 1)))
        found[name] = _not_too_narrow(*after, least)
    return {name: found[name] for name in sorted(found)}


def _of_kernels(factors: dict[str, tuple[float, ...]], *, is_autocast: bool = False) -> Steps:
    def changed(case: int) -> Callable[[Program], None]:
        def change(made: Program) -> None:
            _scaled(made, factors, case)
            if is_autocast and case == 2:
                _slower_host(made)

        return change

    return _not_too_narrow(*(_step_ns(changed(case)) for case in range(3)), 0.0)


def _not_too_narrow(best: float, likely: float, worst: float, least: float) -> Steps:
    steps = [end - start for start, end in (bounds()[i] for i in steady().iterations or ())]
    of_mean = stdev(steps) / len(steps) ** 0.5 / fmean(steps)
    of_replay = abs(_unchanged_ns() / measured_ns() - 1)
    width = likely * max(LEAST_WIDTH, of_mean, of_replay)
    best = max(min(best, likely - width), least)
    return Steps(*(round(ns, 3) for ns in (best, likely, max(worst, likely + width))))


def _busy_ns() -> float:
    # Time of a step with an operation on the GPU.
    window = steady()
    idle = sum(end - begin for begin, end in idle_gaps(window))
    return (window.elapsed - idle) / len(window.iterations or ())


@cache
def measured_ns() -> float:
    return program().mean_step_ns()


@cache
def _unchanged_ns() -> float:
    unchanged = program()
    unchanged.settle()
    return unchanged.mean_step_ns()


def _step_ns(change: Callable[[Program], None]) -> float:
    # Corrected by the error of the times without a change.
    changed = program()
    change(changed)
    changed.settle()
    return measured_ns() * changed.mean_step_ns() / _unchanged_ns()
