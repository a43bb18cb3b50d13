"""Replay a program: when would each call and GPU operation run if some took other times?

A call starts when the call it follows has returned and the host has worked. A synchronization
returns after the operation it awaits. An operation starts after the previous one of its stream,
after its launch, and after the operations of other streams that it awaited in the trace. Anchor:
Zhu et al., Daydream (USENIX ATC 2020), whose graph this recurrence evaluates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median

from tbd_trace.why.program import Program

# Longer tails of synchronizations are dropped in the strict replay, as are unexplained lags.
STRICT_TAIL_NS = 30_000
_OP, _CALL, _WAIT = range(3)


@dataclass(frozen=True, slots=True)
class Durations:
    """What a change changes: times of host and GPU, in the order of calls and operations."""

    think: Sequence[int]  # time of the host before each call
    call: Sequence[int]  # duration of each call that does not wait
    op: Sequence[int]  # duration of each operation
    is_free: frozenset[int] = frozenset()  # calls that no longer wait for the GPU


@dataclass(frozen=True, slots=True)
class Schedule:
    """Times of a replay, in the order of calls and operations."""

    call_start: list[int]
    call_end: list[int]
    op_start: list[int]
    op_end: list[int]


class Replay:
    """The dependences of a program, and schedules under other durations."""

    def __init__(self, program: Program) -> None:
        self.program = program
        calls, ops = program.calls, program.ops
        self.waits = [
            awaited >= 0 and ops.end[awaited] > start
            for awaited, start in zip(calls.awaited, calls.start, strict=True)
        ]
        tails = [tail for tail, waits in zip(calls.tail, self.waits, strict=True) if waits]
        self._usual_tail = int(median(tails)) if tails else 0

    @cached_property
    def measured(self) -> Durations:
        """The durations of the trace."""
        calls, ops = self.program.calls, self.program.ops
        call = [
            0 if waits else end - start
            for start, end, waits in zip(calls.start, calls.end, self.waits, strict=True)
        ]
        op = [end - start for start, end in zip(ops.start, ops.end, strict=True)]
        return Durations(calls.think, call, op)

    @cached_property
    def _events(self) -> list[tuple[int, ...]]:
        # Kind and number of each event, and its dependences, in an order of dependence. Of
        # events at the same time, those of the earlier call come first.
        calls, ops = self.program.calls, self.program.ops
        events: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
        for call, (start, end) in enumerate(zip(calls.start, calls.end, strict=True)):
            waited, awaited = calls.waited[call], calls.awaited[call]
            if awaited < 0:
                events.append(((start, call, 0, 0), (_CALL, call, waited)))
                continue
            # If the operation ended before the call began, its end says nothing about the tail.
            tail = calls.tail[call] if self.waits[call] else self._usual_tail
            events.append(((start, call, 0, 0), (_CALL, call, waited)))
            events.append(((end, call, 2, 0), (_WAIT, call, awaited, tail)))
        keys: list[tuple[int, int, int]] = []
        for op, start in enumerate(ops.start):
            call, previous, awaited = ops.call[op], ops.previous[op], ops.awaited[op]
            key = (max(start, calls.start[call]), call, 1) if call >= 0 else (start, -1, 1)
            for other in (previous, awaited):
                if other >= 0:
                    key = max(key, keys[other])
            keys.append(key)
            about = (_OP, op, previous, ops.gap[op], call, ops.launch[op], awaited, ops.lag[op])
            events.append(((*key, op), about))
        events.sort()
        return [about for _, about in events]

    def run(self, durations: Durations, *, is_strict: bool = False) -> Schedule:
        """Return the times of all events under some durations.

        Args:
            is_strict: True drops unexplained lags of operations and long tails of
                synchronizations, which shows how much the rules explain.
        """
        calls, ops = self.program.calls, self.program.ops
        call_start, call_end = calls.start.copy(), calls.end.copy()
        op_start, op_end = ops.start.copy(), ops.end.copy()
        think, call_ns, op_ns = durations.think, durations.call, durations.op
        free = durations.is_free
        for event in self._events:
            if event[0] == _OP:
                _, i, previous, gap, call, launch, awaited, lag = event
                ready = -1
                if previous >= 0:
                    ready = op_end[previous] + gap
                if call >= 0:
                    ready = max(ready, call_start[call] + launch)
                if awaited >= 0:
                    ready = max(ready, op_end[awaited] + lag)
                elif not is_strict or call < 0:
                    ready += lag
                if call >= 0 or previous >= 0:
                    op_start[i] = ready
                op_end[i] = op_start[i] + op_ns[i]
            elif event[0] == _CALL:
                _, i, waited = event
                if waited >= 0:
                    call_start[i] = call_end[waited] + think[i]
                call_end[i] = call_start[i] + call_ns[i]
            else:
                _, i, awaited, tail = event
                if i not in free:
                    tail = min(tail, STRICT_TAIL_NS) if is_strict else tail
                    call_end[i] = max(call_end[i], op_end[awaited] + tail)
        return Schedule(call_start, call_end, op_start, op_end)
