"""Draw stretches of steps from a long program, so that a replay takes seconds."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import fields, replace
from itertools import compress
from typing import Any, TypeVar

import numpy as np

from tbd_trace.why.events import Calls, Ops, integers
from tbd_trace.why.program import Program

MOST_STEPS = 200
_Rows = TypeVar("_Rows", Calls, Ops)
_STRETCH = 20


def thinned(program: Program, most: int = MOST_STEPS) -> Program:
    """Return a program with at most ``most`` steps, in evenly drawn stretches.

    Each stretch is preceded by one more step, whose times shape its beginning.
    """
    steps = program.steps
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
    # Calls that launch the first operations begin before them.
    early = [(min(begin, _launch(program, begin)), end) for begin, end in windows]
    ops, calls = _places(start, windows), _places(program.calls.start, early)
    return replace(
        program,
        calls=_selected(program.calls, calls, {"waited": calls, "awaited": ops}),
        ops=_selected(program.ops, ops, {"previous": ops, "awaited": ops, "call": calls}),
        steps=[(ops[a], ops[b]) for some in kept for a, b in some],
        input_waits={calls[c]: e for c, e in program.input_waits.items() if calls[c] >= 0},
        compile_waits={calls[c]: w for c, w in program.compile_waits.items() if calls[c] >= 0},
        rank_waits={ops[o]: wait for o, wait in program.rank_waits.items() if ops[o] >= 0},
    )


def _launch(program: Program, at: int) -> int:
    call = program.ops.call[program.ops.start.index(at)]
    return program.calls.start[call] if call >= 0 else at


def _places(starts: array[int], windows: Sequence[tuple[int, int]]) -> array[int]:
    # New position of each event that starts in a window, ends included; of others -1.
    begins, ends = np.array(windows).T
    window = np.searchsorted(begins, starts, side="right") - 1
    is_kept = (window >= 0) & (starts <= ends[window])
    return integers(np.where(is_kept, np.cumsum(is_kept) - 1, -1))


def _selected(rows: _Rows, places: array[int], links: dict[str, array[int]]) -> _Rows:
    is_kept = np.greater_equal(places, 0)
    changed: dict[str, Any] = {}
    for field in fields(rows):
        values = getattr(rows, field.name)
        if isinstance(values, list):
            changed[field.name] = list(compress(values, is_kept))
            continue
        some = np.asarray(values)[is_kept]
        if (link := links.get(field.name)) is not None:
            some = np.where(some >= 0, np.asarray(link)[some], -1)
        changed[field.name] = integers(some)
    return replace(rows, **changed)
