"""Draw stretches of steps from a long program, so that a replay takes seconds."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar

from tbd_trace.why.program import Calls, Ops, Program

MOST_STEPS = 200
_Rows = TypeVar("_Rows", Calls, Ops)
_STRETCH = 20


def thinned(program: Program, most: int = MOST_STEPS) -> Program:
    """Return a program with at most ``most`` steps after the warm-up, in evenly drawn stretches.

    Each stretch is preceded by one more step, whose times shape its beginning.
    """
    steps = program.judged
    if len(steps) <= most:
        return program
    stretches = max(1, most // _STRETCH)
    length = most // stretches
    last = len(steps) - length
    firsts = [
        last * number // (stretches - 1) if stretches > 1 else 0 for number in range(stretches)
    ]
    kept = [steps[first : first + length] for first in firsts]
    start = program.ops.start
    windows = [
        (start[steps[max(first - 1, 0)][0]], start[some[-1][1]])
        for first, some in zip(firsts, kept, strict=True)
    ]
    ops = _places(start, windows)
    # Calls that launch the first operations begin before them.
    early = [min(begin, _launch(program, begin)) for begin, _ in windows]
    calls = _places(
        program.calls.start, [(at, end) for at, (_, end) in zip(early, windows, strict=True)]
    )
    return replace(
        program,
        calls=_selected(program.calls, calls, {"waited": calls, "awaited": ops}),
        ops=_selected(program.ops, ops, {"previous": ops, "awaited": ops, "call": calls}),
        steps=[(ops[a], ops[b]) for some in kept for a, b in some],
        warm_ups=0,
        input_waits={calls[c]: e for c, e in program.input_waits.items() if c in calls},
        rank_waits={ops[o]: wait for o, wait in program.rank_waits.items() if o in ops},
    )


def _launch(program: Program, at: int) -> int:
    call = program.ops.call[program.ops.start.index(at)]
    return program.calls.start[call] if call >= 0 else at


def _places(starts: Sequence[int], windows: Sequence[tuple[int, int]]) -> dict[int, int]:
    # Old position -> new position of the events that start in a window, ends included.
    begins = [begin for begin, _ in windows]
    kept = []
    for old, start in enumerate(starts):
        window = bisect_right(begins, start) - 1
        if window >= 0 and start <= windows[window][1]:
            kept.append(old)
    return {old: new for new, old in enumerate(kept)}


def _selected(rows: _Rows, kept: dict[int, int], links: dict[str, dict[int, int]]) -> _Rows:
    changed: dict[str, Any] = {}
    for field in fields(rows):
        values = getattr(rows, field.name)
        some = [values[old] for old in kept]
        if (places := links.get(field.name)) is not None:
            some = [places.get(value, -1) for value in some]
        changed[field.name] = some
    return replace(rows, **changed)
