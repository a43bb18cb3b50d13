"""Replay a program: when would each call and GPU operation run if some took other times?

A call starts when the call it follows has returned and the host has worked. A synchronization
returns after the operation it awaits. An operation starts after the previous one of its stream,
after its launch, and after the operations of other streams that it awaited in the trace. A batch of
loader workers arrives when it did in the trace. Anchor:
Zhu et al., Daydream (USENIX ATC 2020), whose graph this recurrence evaluates.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from statistics import median

import numpy as np

from tbd_trace.why.changes import factors
from tbd_trace.why.events import integers
from tbd_trace.why.program import Program

# Longer tails of synchronizations are dropped in the strict replay, as are unexplained lags.
STRICT_TAIL_NS = 30_000
_CALL, _OP, _WAIT = range(3)


@dataclass(frozen=True, slots=True)
class Durations:
    """What a change changes: times of host and GPU, in the order of calls and operations."""

    think: array[int]  # time of the host before each call
    call: array[int]  # duration of each call that does not wait
    op: array[int]  # duration of each operation
    is_free: frozenset[int] = frozenset()  # calls that no longer wait for the GPU
    arrivals: Mapping[int, int] = field(default_factory=dict)  # when batches arrive, by call
    most_gap_ns: int | None = None  # in a graph: between operations, without unexplained lags


@dataclass(frozen=True, slots=True)
class Schedule:
    """Times of a replay, in the order of calls and operations."""

    call_start: array[int]
    call_end: array[int]
    op_start: array[int]
    op_end: array[int]


class Replay:
    """The dependences of a program, and schedules under other durations."""

    def __init__(self, program: Program) -> None:
        self.program = program
        calls, ops = program.calls, program.ops
        self._waits = [
            awaited >= 0 and ops.end[awaited] > start
            for awaited, start in zip(calls.awaited, calls.start, strict=True)
        ]
        tails = [tail for tail, waits in zip(calls.tail, self._waits, strict=True) if waits]
        usual = int(median(tails)) if tails else 0
        # If the operation ended before the call began, its end says nothing about the tail.
        self._tail = array(
            "q",
            (t if waits else usual for t, waits in zip(calls.tail, self._waits, strict=True)),
        )

    @cached_property
    def measured(self) -> Durations:
        """The durations of the trace."""
        calls, ops = self.program.calls, self.program.ops
        call = np.where(self._waits, 0, np.subtract(calls.end, calls.start))
        think, arrivals = calls.think, self.program.arrivals
        if arrivals:
            think = think[:]
            ready_ns = int(factors("input", "best", "pause_ns")["input"])
            for call_number in arrivals:
                wait = self.program.input_waits[call_number].ns
                think[call_number] -= max(wait - ready_ns, 0)
        durations = integers(np.subtract(ops.end, ops.start))
        return Durations(think, integers(call), durations, arrivals=arrivals)

    @cached_property
    def _events(self) -> tuple[bytes, array[int]]:
        # Kind and number of each event in an order of dependence. Of events at the same time,
        # those of the earlier call come first.
        calls, ops = self.program.calls, self.program.ops
        time, caller = self._not_before()
        waiting = np.flatnonzero(np.greater_equal(calls.awaited, 0))
        call, op = np.arange(len(calls.start)), np.arange(len(ops.start))
        times = np.concatenate([calls.start, time, np.asarray(calls.end)[waiting]])
        callers = np.concatenate([call, caller, waiting])
        numbers = np.concatenate([call, op, waiting])
        kinds = np.repeat([_CALL, _OP, _WAIT], [len(call), len(op), len(waiting)])
        order = np.lexsort((numbers, kinds, callers, times))
        return kinds[order].astype(np.uint8).tobytes(), integers(numbers[order])

    def _not_before(self) -> tuple[array[int], array[int]]:
        # Time of each operation and number of its call, not before its dependences.
        calls, ops = self.program.calls, self.program.ops
        time, caller = ops.start[:], ops.call[:]
        for op, call in enumerate(ops.call):
            key = (max(time[op], calls.start[call]), call) if call >= 0 else (time[op], -1)
            for other in (ops.previous[op], ops.awaited[op]):
                if other >= 0:
                    key = max(key, (time[other], caller[other]))
            time[op], caller[op] = key
        return time, caller

    def run(self, durations: Durations, *, is_strict: bool = False) -> Schedule:
        """Return the times of all events under some durations.

        Args:
            is_strict: True drops unexplained lags of operations and long tails of
                synchronizations, which shows how much the rules explain.
        """
        calls, ops = self.program.calls, self.program.ops
        call_start, call_end = calls.start[:], calls.end[:]
        op_start, op_end = ops.start[:], ops.end[:]
        think, call_ns, op_ns = durations.think, durations.call, durations.op
        gap, launch = self.program.stream_gap_ns, self.program.launch_lag_ns
        has_lags = not is_strict
        if durations.most_gap_ns is not None:
            gap, has_lags = min(gap, durations.most_gap_ns), False
        arrivals = durations.arrivals
        # Bound here, because the loop runs for each event of the program.
        previous_of, call_of, awaited_of, lag = ops.previous, ops.call, ops.awaited, ops.lag
        for kind, i in zip(*self._events, strict=True):
            if kind == _OP:
                previous, call, awaited = previous_of[i], call_of[i], awaited_of[i]
                ready = -1
                if previous >= 0:
                    ready = op_end[previous] + gap
                if call >= 0:
                    ready = max(ready, call_start[call] + launch)
                if awaited >= 0:
                    ready = max(ready, op_end[awaited] + lag[i])
                elif has_lags or call < 0:
                    ready += lag[i]
                if call >= 0 or previous >= 0:
                    op_start[i] = ready
                op_end[i] = op_start[i] + op_ns[i]
            elif kind == _CALL:
                waited = calls.waited[i]
                if waited >= 0:
                    call_start[i] = call_end[waited] + think[i]
                    if i in arrivals:
                        call_start[i] = max(call_start[i], arrivals[i])
                call_end[i] = call_start[i] + call_ns[i]
            elif i not in durations.is_free:
                tail = min(self._tail[i], STRICT_TAIL_NS) if is_strict else self._tail[i]
                call_end[i] = max(call_end[i], op_end[calls.awaited[i]] + tail)
        return Schedule(call_start, call_end, op_start, op_end)
