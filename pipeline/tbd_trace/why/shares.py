"""Divide the elapsed time of the captured steps among causes."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from tbd_trace.why.copies import CHECKPOINT
from tbd_trace.why.program import Program

LONG_CALL_NS = 1_000_000  # a longer launch loads modules or compiles


class Interval(NamedTuple):
    """Time of one cause; causes that run together share it."""

    start_ns: int
    end_ns: int
    cause: str
    share: float = 1.0

    @property
    def ns(self) -> float:
        """Time that counts as the cause."""
        return (self.end_ns - self.start_ns) * self.share


def shares(program: Program, stalls: Collection[int]) -> dict[str, float]:
    """Return the time of each cause in ns; they are disjoint and sum to the time of the steps."""
    ns_by_cause: dict[str, float] = defaultdict(float)
    for interval in intervals(program, stalls):
        ns_by_cause[interval.cause] += interval.ns
    return dict(ns_by_cause)


def shares_and_warm_up(
    program: Program, stalls: Collection[int]
) -> tuple[dict[str, float], dict[str, float]]:
    """Return the time of each cause in ns, in the steps used and in those left out as warm-up."""
    used: dict[str, float] = defaultdict(float)
    warm_up: dict[str, float] = defaultdict(float)
    warm = program.base.warm_up
    begin = warm[-1][1] if warm else 0
    for interval in _intervals(program, stalls, [*warm, *_stretches(program)]):
        (used if interval.start_ns >= begin else warm_up)[interval.cause] += interval.ns
    return dict(used), dict(warm_up)


def intervals(program: Program, stalls: Collection[int]) -> Iterator[Interval]:
    """Return the causes of all moments of the steps, in order of time.

    Without steps, they fill the time from the first to the last operation of the device.
    Steps that were left out of a program leave gaps.

    At each moment the GPU's kernels count first, divided equally among kernels that run together,
    then communication, waits of communication for other ranks, copies, and the reason for which
    the next operation has not begun.

    Args:
        stalls: calls before which the host stalled.
    """
    return _intervals(program, stalls, _stretches(program))


def _intervals(
    program: Program, stalls: Collection[int], stretches: Sequence[tuple[int, int]]
) -> Iterator[Interval]:
    unclipped = _causes(program, stalls, stretches[0][0], stretches[-1][1])
    return unclipped if len(stretches) == 1 else _within(unclipped, stretches)


def _stretches(program: Program) -> list[tuple[int, int]]:
    # Times of steps that follow each other.
    if stretches := program.base.stretches:
        return stretches
    own = np.equal(program.ops.device, program.device_id)
    start, end = np.asarray(program.ops.start)[own], np.asarray(program.ops.end)[own]
    return [(int(start.min()), int(end.max()))]


def _within(
    unclipped: Iterator[Interval], stretches: Sequence[tuple[int, int]]
) -> Iterator[Interval]:
    for interval in unclipped:
        for begin, end in stretches:
            first, last = max(interval.start_ns, begin), min(interval.end_ns, end)
            if first < last:
                yield interval._replace(start_ns=first, end_ns=last)


def _causes(program: Program, stalls: Collection[int], begin: int, end: int) -> Iterator[Interval]:
    ops = program.ops
    running: dict[str, int] = {}
    explains_idle = program.explains_idle
    at = begin
    for time, is_end, op, is_wait in _changes(program):
        cause = "straggler" if is_wait else ops.cause[op]
        now = min(max(time, begin), end)
        if now > at:
            if active := _active(running):
                total = sum(running[cause] for cause in active)
                for each in active:
                    yield Interval(at, now, each, running[each] / total)
            elif explains_idle:
                yield from idle_intervals(program, stalls, (at, now), op)
            else:
                yield Interval(at, now, "unknown")
            at = now
        running[cause] = running.get(cause, 0) + (-1 if is_end else 1)
        if not running[cause]:
            del running[cause]
    if at < end:
        yield Interval(at, end, "unknown")


def _changes(program: Program) -> Iterator[tuple[int, bool, int, bool]]:
    # Beginnings and ends of operations and of their waits for other ranks, in order of time: time,
    # whether it is an end, operation, whether it is a wait. A collective waits for the last rank
    # before it communicates.
    start, end = np.asarray(program.ops.start), np.asarray(program.ops.end)
    begun = start.copy()
    for op, (ns, _) in program.rank_waits.items():
        begun[op] = min(start[op] + ns, end[op])
    is_own = np.equal(program.ops.device, program.device_id)
    working = np.flatnonzero(is_own)
    waiting = np.array([op for op in program.rank_waits if is_own[op]], dtype=np.int64)
    number = len(working) + len(waiting)
    event_op = np.tile(np.concatenate([working, waiting]), 2)
    is_wait = np.tile(np.arange(number) >= len(working), 2)
    is_end = np.arange(2 * number) >= number
    time = np.concatenate([begun[working], start[waiting], end[working], begun[waiting]])
    order = np.lexsort((is_wait, event_op, is_end, time))
    # As views of memory their elements are Python's, without a list of millions.
    return zip(*(each[order].data for each in (time, is_end, event_op, is_wait)), strict=True)


def _active(running: dict[str, int]) -> Sequence[str]:
    # The causes of the operations that count.
    if kernels := [cause for cause in running if cause.startswith("gpu_")]:
        return kernels
    return [
        cause for cause in ("communication", "straggler", "copies", CHECKPOINT) if cause in running
    ][:1]


def idle_intervals(
    program: Program, stalls: Collection[int], gap: tuple[int, int], op: int
) -> list[Interval]:
    """Return the causes of a gap before an operation, back from its launch, in order of time."""
    calls = program.calls
    begin, at = gap
    call = program.ops.call[op]
    if call < 0:
        return [Interval(begin, at, "unknown")]
    latest_first: list[Interval] = []

    def back_to(time: int, cause: str) -> None:
        nonlocal at
        time = max(time, begin)
        if time < at:
            latest_first.append(Interval(time, at, cause))
            at = time

    back_to(program.ops.start[op] - program.delay_ns(op), "unknown")
    if _call(program, call) == "warm_up":
        back_to(calls.end[call], "launch_latency")
        back_to(calls.start[call], "warm_up")
    back_to(calls.start[call], "launch_latency")
    while at > begin:
        cause = "host_stalls" if call in stalls else "host"
        for start_ns, end_ns in reversed(program.compile_waits.get(call, [])):
            back_to(end_ns, cause)
            back_to(start_ns, "compilation")
        if (wait := program.input_waits.get(call)) is not None:
            back_to(wait.end_ns, cause)
            back_to(wait.start_ns, "input_pipeline")
        back_to(calls.start[call] - calls.think[call], cause)
        call = calls.waited[call]
        if call < 0:
            back_to(begin, "unknown")
            break
        back_to(calls.start[call], _call(program, call))
    return latest_first[::-1]


class Columns(NamedTuple):
    """Many intervals, in order of their starts; a million of them take 26 MB."""

    start_ns: array[int]
    end_ns: array[int]
    cause: array[int]  # number of a name
    share: array[float]
    names: list[str]


def merged(parts: Iterator[Interval]) -> Columns:
    """Join neighbours of the same cause and share."""
    columns = Columns(array("q"), array("q"), array("H"), array("d"), [])
    starts, ends, causes, interval_shares, names = columns
    last: dict[str, tuple[int, int]] = {}  # number of each cause, and its last interval
    for start_ns, end_ns, cause, share in parts:
        number, before = last.get(cause, (len(names), -1))
        if before < 0:
            names.append(cause)
        elif ends[before] == start_ns and interval_shares[before] == share:
            ends[before] = end_ns
            continue
        last[cause] = number, len(starts)
        starts.append(start_ns)
        ends.append(end_ns)
        causes.append(number)
        interval_shares.append(share)
    return columns


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
