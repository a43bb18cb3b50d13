"""Give the first and the last of successive steps a beginning and an end on the host.

Inside successive steps, a step lasts from its first GPU operation to that of the next one. Before
the first operation of the first step and after the last operation of the last step the host works,
too. An operation without a duration stands for each of these edges.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np

from tbd_trace.why.events import Ops, integers

EDGE = "step"  # kind of these operations, and of the calls on the host


class StepWindow(NamedTuple):
    """A row of step_window; positions count from 0, and -1 means none."""

    op: int
    next_op: int
    begin_call: int
    end_call: int
    start_ns: int
    end_ns: int


class _Edge(NamedTuple):
    place: int  # number of operations before it
    at_ns: int
    previous: int  # operation that ends at or before it
    call: int


def insert_edges(
    ops: Ops, steps: Sequence[StepWindow], device_id: int
) -> tuple[list[tuple[int, int]], array[int]]:
    """Insert edges into operations; return the steps as pairs, and the places of the operations.

    A pair is the first operation of a step and of the next one. The last step is left out if
    nothing shows its end.
    """
    edges: list[_Edge] = []
    ends: list[tuple[tuple[int, bool], tuple[int, bool]]] = []  # number, whether it is an edge
    for number, step in enumerate(steps):
        begin, end = (step.op, False), (step.next_op, False)
        if step.begin_call >= 0 and step.start_ns < ops.start[step.op]:
            begin = len(edges), True
            edges.append(_Edge(step.op, step.start_ns, -1, step.begin_call))
        later = steps[number + 1] if number + 1 < len(steps) else None
        pauses = later is not None and later.start_ns > step.end_ns
        if later is None or pauses or later.op != step.next_op:
            edge = _end(ops, step, device_id)
            if edge is not None:
                end = len(edges), True
                edges.append(edge)
            elif pauses:
                end = -1, False
        if end[0] >= 0:
            ends.append((begin, end))
    if not edges:
        return [(a, b) for (a, _), (b, _) in ends], array("q", range(len(ops.start)))
    at = [edge.place for edge in edges]
    places = integers(
        np.arange(len(ops.start)) + np.searchsorted(at, np.arange(len(ops.start)), side="right")
    )

    def place(number: int, is_edge: bool) -> int:
        return edges[number].place + number if is_edge else places[number]

    pairs = [(place(*begin), place(*end)) for begin, end in ends]
    _insert(ops, edges, places, device_id)
    return pairs, places


def moved(numbers: array[int], places: array[int]) -> array[int]:
    """Return numbers of operations after the insertion of edges; -1 stays."""
    if not len(places):
        return numbers
    some = np.asarray(numbers)
    return integers(np.where(some >= 0, np.asarray(places)[some], -1))


def _end(ops: Ops, step: StepWindow, device_id: int) -> _Edge | None:
    # The end of the last of successive steps: on the host, or with the last operation.
    following = step.next_op if step.next_op >= 0 else len(ops.start)
    own = [
        op
        for op in range(step.op, following)
        if ops.device[op] == device_id and ops.start[op] <= step.end_ns
    ]
    if not own:
        return None
    last = max(own, key=lambda op: (ops.end[op], op))
    place = int(np.searchsorted(ops.start, step.end_ns, side="right"))
    if step.end_call >= 0 or ops.end[last] == step.end_ns:
        return _Edge(place, max(step.end_ns, ops.end[last]), last, step.end_call)
    return None


def _insert(ops: Ops, edges: Sequence[_Edge], places: array[int], device_id: int) -> None:
    # One column after the other: a long trace has millions of operations.
    at = [edge.place for edge in edges]
    previous = [places[edge.previous] if edge.previous >= 0 else -1 for edge in edges]
    times, calls = [edge.at_ns for edge in edges], [edge.call for edge in edges]
    given: dict[str, Any] = {
        "device": device_id, "kind": EDGE, "name": "", "bytes": 0, "start": times, "end": times,
        "previous": previous, "call": calls, "awaited": -1, "lag": 0, "cause": EDGE,
        "precision": "", "is_update": False, "is_pageable": False,
    }  # fmt: skip
    for column in fields(ops):
        values, new = getattr(ops, column.name), given[column.name]
        if isinstance(values, list):
            for number, place in reversed(list(enumerate(at))):
                values.insert(place, new[number] if isinstance(new, list) else new)
            continue
        if column.name in ("previous", "awaited"):
            values = moved(values, places)
        setattr(ops, column.name, integers(np.insert(np.asarray(values), at, new)))
