"""Kernels beside communication: their time, and what less communication saves."""

from __future__ import annotations

from array import array
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from made_loop import programs_of
from made_trace import MadeTrace
from tbd_trace.query import prepare
from tbd_trace.why.changes import parse_change
from tbd_trace.why.events import Ops
from tbd_trace.why.overlap import OverlapCost, is_communication, is_compute, time_beside
from tbd_trace.why.processes import INPUTS, diagnoses
from tbd_trace.why.program import Program
from tbd_trace.why.whatif import Simulator

MS = 1_000_000  # ns
COMMUNICATION, COMPUTE, COPY = "communication", "gpu_other", "copies"
OPERATION = st.tuples(
    st.integers(0, 60), st.integers(0, 20), st.sampled_from([COMMUNICATION, COMPUTE, COPY]),
    st.integers(0, 1),
)  # fmt: skip
"""Start, duration, cause and device."""


@given(st.lists(OPERATION, max_size=12))
def test_time_under_communication_by_brute_force(work: list[tuple[int, int, str, int]]) -> None:
    work = sorted(work)
    number = len(work)
    none, blank = array("q", [-1] * number), [""] * number
    ops = Ops(
        device=array("q", [device for *_, device in work]),
        kind=blank, name=blank, bytes=none,
        start=array("q", [start for start, *_ in work]),
        end=array("q", [start + ns for start, ns, *_ in work]),
        previous=none, call=none, awaited=none, lag=none,
        cause=[cause for _, _, cause, _ in work],
        precision=blank, is_update=[False] * number, is_pageable=[False] * number,
    )  # fmt: skip
    for asked in (0, 1):
        busy = {
            at
            for start, ns, cause, device in work
            if cause == COMMUNICATION and device == asked
            for at in range(start, start + ns)
        }
        expected = [
            len(busy & set(range(start, start + ns))) if (cause, device) == (COMPUTE, asked) else 0
            for start, ns, cause, device in work
        ]
        assert time_beside(ops, asked, is_compute, is_communication).tolist() == expected


def _program() -> Program:
    # Steps of 20.2 ms: kernels of 8 and 6 ms alone, one of 6 ms beside an all-reduce of 6 ms.
    made = MadeTrace()
    made.add_trace()
    for step in range(8):
        at = step * (20 * MS + 200_000)
        made.add_range(at, at + 20 * MS + 150_000, f"step {step}")
        for place, (start, took, name, stream) in enumerate(
            [(0, 8, "k0", 7), (8, 6, "k1", 7), (8, 6, "ncclAllReduce", 9), (14, 6, "k2", 7)]
        ):
            begin = at + start * MS + 100_000
            made.launch(at + place * 5000, begin, begin + took * MS, name, stream_id=stream)
        made.add_call(at + 20_000, at + 20 * MS + 110_000, "cudaDeviceSynchronize")
    (found,) = programs_of(made)
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "saved"),
    [("comm=free", 2.0), ("comm=x2", 1.0), ("comm=x0.5", 0.0), ("compress", 1.0)],
)
def test_less_communication_shortens_the_kernels_beside_it(change: str, saved: float) -> None:
    found = _program()
    cost = OverlapCost(1.5, 2.0 * MS, 1, 100.0)  # 6 ms take 4 ms alone
    slowed = Simulator(replace(found, overlap_costs={0: cost}))
    then = slowed.predict([parse_change(change)])
    assert slowed.measured_ns - then.ceiling_ns == pytest.approx(saved * MS, abs=0.25 * MS)
    # Without a measured cost, communication that is hidden costs nothing.
    free = Simulator(found).predict([parse_change(change)])
    assert free.ceiling_ns == pytest.approx(slowed.measured_ns, rel=0.01)


@pytest.mark.slow
@pytest.mark.parametrize(("stream", "is_said"), [(7, True), (9, False)])
def test_communication_in_the_stream_of_compute_kernels_is_named(
    stream: int, is_said: bool
) -> None:
    made = MadeTrace()
    made.add_trace()
    for step in range(6):
        at = step * 20 * MS
        made.add_range(at, at + 20 * MS, f"step {step}")
        made.launch(at, at + 10_000, at + 8 * MS, "k0")
        made.launch(at + 1, at + 8 * MS, at + 14 * MS, "ncclAllReduce", stream_id=stream)
    with made.connect() as database:
        prepare(database.connection, INPUTS)
        (found,) = diagnoses(database.connection)
    (cause,) = (one for one in found.causes if one.cause == COMMUNICATION)
    assert ("in the stream of compute kernels" in cause.evidence) == is_said
