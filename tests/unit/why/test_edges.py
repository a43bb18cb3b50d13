"""Where steps begin and end on the host, among operations written down here."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from tbd_trace.why.edges import EDGE, StepWindow, insert_edges, moved
from tbd_trace.why.events import Ops


def operations(spans: Sequence[tuple[int, int]]) -> Ops:
    """Return kernels of one stream, each launched by the call of its number."""
    number = len(spans)
    return Ops(
        device=array("q", [0] * number),
        kind=["kernel"] * number,
        name=[f"k{n}" for n in range(number)],
        bytes=array("q", [0] * number),
        start=array("q", [start for start, _ in spans]),
        end=array("q", [end for _, end in spans]),
        previous=array("q", range(-1, number - 1)),
        call=array("q", range(number)),
        awaited=array("q", [-1] * number),
        lag=array("q", [0] * number),
        cause=["gpu_other"] * number,
        precision=[""] * number,
        is_update=[False] * number,
        is_pageable=[False] * number,
    )


SPANS = [(30, 40), (60, 70), (130, 140), (160, 170)]


def test_a_loop_begins_and_ends_on_the_host() -> None:
    steps = [StepWindow(0, 2, 9, -1, 0, 100), StepWindow(2, -1, -1, 8, 100, 200)]
    ops = operations(SPANS)
    pairs, places = insert_edges(ops, steps, 0)
    assert list(ops.start) == [0, 30, 60, 130, 160, 200]
    assert list(ops.end) == [0, 40, 70, 140, 170, 200]
    assert [kind == EDGE for kind in ops.kind] == [True, *[False] * 4, True]
    assert list(ops.call) == [9, 0, 1, 2, 3, 8]
    assert list(ops.previous) == [-1, -1, 1, 2, 3, 4]
    assert pairs == [(0, 3), (3, 5)]
    assert list(places) == [1, 2, 3, 4]


def test_the_last_step_ends_with_its_last_operation() -> None:
    steps = [StepWindow(0, 2, -1, -1, 30, 130), StepWindow(2, -1, -1, -1, 130, 170)]
    ops = operations(SPANS)
    pairs, _ = insert_edges(ops, steps, 0)
    assert (ops.start[-1], ops.call[-1], ops.previous[-1]) == (170, -1, 3)
    assert pairs == [(0, 2), (2, 4)]


def test_without_an_end_the_last_step_is_left_out() -> None:
    steps = [StepWindow(0, 2, -1, -1, 30, 130), StepWindow(2, -1, -1, -1, 130, 190)]
    pairs, places = insert_edges(operations(SPANS), steps, 0)
    assert (pairs, list(places)) == ([(0, 2)], [0, 1, 2, 3])


def test_steps_apart_have_edges_of_their_own() -> None:
    # A pause from 100 to 120 separates the steps.
    steps = [StepWindow(0, 2, 9, 8, 0, 100), StepWindow(2, -1, 7, 6, 120, 200)]
    ops = operations(SPANS)
    pairs, _ = insert_edges(ops, steps, 0)
    assert list(ops.start) == [0, 30, 60, 100, 120, 130, 160, 200]
    assert pairs == [(0, 3), (4, 7)]
    assert list(ops.call) == [9, 0, 1, 8, 7, 2, 3, 6]


@given(st.lists(st.integers(1, 30), min_size=2, max_size=12), st.data())
def test_numbers_of_operations_still_name_them(gaps: list[int], data: st.DataObject) -> None:
    at, spans = 0, []
    for gap in gaps:
        at += gap + 1
        spans.append((at, at + 1))
    first = data.draw(st.integers(0, len(spans) - 1))
    begin = data.draw(st.integers(spans[first - 1][1] if first else 0, spans[first][0] - 1))
    step = StepWindow(first, -1, 99, 98, begin, spans[-1][1] + 5)
    before, after = operations(spans), operations(spans)
    pairs, places = insert_edges(after, [step], 0)
    assert [after.name[place] for place in places] == before.name
    assert list(after.start) == sorted(after.start)
    assert [after.kind[op] for op in pairs[0]] == [EDGE, EDGE]
    links = array("q", [-1, *range(len(spans))])
    assert [after.name[n] if n >= 0 else None for n in moved(links, places)] == [
        None, *before.name
    ]  # fmt: skip
    for op, previous in enumerate(before.previous):
        earlier = after.previous[places[op]]
        assert earlier == (places[previous] if previous >= 0 else -1)
