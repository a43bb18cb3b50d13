"""Replay of loops with any times: it repeats the trace, and no change makes a step longer."""

from __future__ import annotations

from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fast import examples
from made_loop import MS, Loop, together
from tbd_trace.why.changes import parse_change
from tbd_trace.why.program import Program
from tbd_trace.why.shares import shares
from tbd_trace.why.whatif import Simulator

TIMES = st.integers(20_000, 3 * MS)
LOOPS = st.builds(
    Loop,
    steps=st.integers(5, 9),
    kernels=st.lists(
        st.tuples(
            st.sampled_from(["ampere_sgemm_128x64_tn", "elementwise_kernel", "ncclAllReduce"]),
            TIMES,
        ),
        min_size=1,
        max_size=8,
    ),
    copy_ns=TIMES,
    # The last step does not wait before its first operation: the host would seem to run ahead.
    loading_ns=st.dictionaries(st.integers(1, 3), st.integers(0, 9 * MS)),
    stalls=st.dictionaries(
        st.tuples(st.integers(0, 8), st.integers(1, 8)) | st.tuples(st.integers(0, 3), st.just(0)),
        TIMES,
    ),
    alone_in_sync_ns=st.integers(0, MS),
)
# The relations of several loops cost little more than those of one.
SEVERAL = st.lists(LOOPS, min_size=5, max_size=5)


def predicted(found: Program, *changes: str) -> float:
    return Simulator(found).predict([parse_change(change) for change in changes]).ceiling_ns


@pytest.mark.slow
@settings(max_examples=examples(8))
@given(SEVERAL)
def test_shares_sum_and_the_replay_repeats_the_trace(loops: list[Loop]) -> None:
    for loop, found in zip(loops, together(*loops), strict=True):
        simulator = Simulator(found)
        warm_up, used = found.base.left_out.get("warm-up", 0), len(found.base.periods)
        assert warm_up + used in (loop.steps - 1, loop.steps)  # the last one may have no end
        begin = loop.marked[warm_up][0]
        starts = [found.ops.start[op] for op, _ in found.steps]
        assert starts == [begin, *loop.begins[warm_up + 1 : warm_up + used]]
        following = [*(mark for mark, _ in loop.marked), loop.marked[-1][1]]
        ns_by_cause = shares(found, simulator.stalls)
        assert sum(ns_by_cause.values()) == pytest.approx(following[warm_up + used] - begin)
        assert min(ns_by_cause.values()) > 0
        measured_ns = fmean(found.op_step_ns)
        assert simulator.replayed_ns == pytest.approx(measured_ns, rel=0.01)
        # The error that why prints is an upper bound: that of the replay without unexplained lags.
        error_pct = 100 * abs(simulator.replayed_ns / measured_ns - 1)
        assert error_pct <= abs(simulator.strict_error_pct) + 0.1


@pytest.mark.slow
@settings(max_examples=examples(6))
@given(SEVERAL)
def test_changes_of_nothing_and_of_less(loops: list[Loop]) -> None:
    for found in together(*loops):
        now = Simulator(found).measured_ns
        for nothing in ("scale=.*:1", "comm=x1", "drop=no such kernel"):
            assert predicted(found, nothing) == now
        for less in ("drop=.*", "drop=gemm", "comm=free", "overlap_copies", "input", "graph"):
            assert predicted(found, less) <= now * (1 + 1e-9)
