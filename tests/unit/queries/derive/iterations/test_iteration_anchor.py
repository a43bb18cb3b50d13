"""_iteration_anchor: iterations from kernels that repeat, for programs that mark none."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fast import examples
from made_trace import SAME_HASH, MadeTrace, Row, relation

STEP = 10  # from one launch to the next
GAP = 1000  # idle time before each period


def run(made: MadeTrace, names: Iterable[str], gaps: Iterable[int] = (), **row: Any) -> list[int]:
    """Launch kernels one after the other and return when; ``gaps``: positions after idle time."""
    at, launched = 0, []
    waits = set(gaps)
    for position, name in enumerate(names):
        at += GAP if position in waits else STEP
        launched.append(at)
        made.launch(at, at + 5, at + 5 + STEP - 2, name, **row)
    return launched


def periods(made: MadeTrace, **parameters: Any) -> list[Row]:
    return relation(made, "_iteration_anchor", **parameters)


def training(
    made: MadeTrace,
    period: list[str],
    repeats: int,
    *,
    prefix: list[str] | None = None,
    rest: int = 0,
    **row: Any,
) -> list[int]:
    """Launch a prefix, whole periods with idle time before each, and the start of one more.

    Returns when each period began.
    """
    before = prefix or []
    names = before + period * repeats + period[:rest]
    begins = range(len(before), len(names), len(period))
    launched = run(made, names, begins, **row)
    return [launched[position] for position in begins]


@pytest.mark.slow
@settings(max_examples=examples(8))
@given(
    runs=st.lists(
        st.tuples(
            st.integers(0, 12),  # kernels of the warm-up, each once
            st.lists(st.sampled_from("abcdefgh"), min_size=2, max_size=10),
            st.integers(4, 9),
        ),
        min_size=1,
        max_size=6,
    )
)
def test_every_period_is_found_where_it_begins(runs: list[tuple[int, list[str], int]]) -> None:
    made = MadeTrace()
    expected = {}
    for trace, (warm_up, inner, repeats) in enumerate(runs):
        prefix = [f"warm{i}" for i in range(warm_up)]
        period = ["first", *inner]  # one kernel at least that occurs once in a period
        begins = training(made, period, repeats, prefix=prefix, trace_id=f"t{trace}")
        in_periods = len(period) * repeats
        covered = in_periods / (warm_up + in_periods)
        score = covered**0.25  # all of it repeats
        accepted = covered >= 0.5 and score >= (0.9 if repeats < 5 else 0.8)
        expected[f"t{trace}"] = (begins if accepted else [], score)
    rows = periods(made)
    for trace_id, (begins, score) in expected.items():
        mine = [row for row in rows if row["trace_id"] == trace_id]
        assert [row["start_ns"] for row in mine] == begins
        assert [row["iteration"] for row in mine] == list(range(len(begins)))
        assert [row["end_ns"] for row in mine][:-1] == begins[1:]
        assert all(row["label"] == "first" for row in mine)
        assert [row["confidence"] for row in mine] == pytest.approx([score] * len(begins), abs=1e-4)


def test_a_trailing_partial_period_is_no_iteration() -> None:
    made = MadeTrace()
    begins = training(made, list("abcdef"), 6, rest=3)
    rows = periods(made)
    assert [row["start_ns"] for row in rows] == begins[:-1]
    # 36 of 39 kernels lie in whole periods, and the last three begin one
    assert 36 / 39 - 1e-4 <= rows[0]["confidence"] <= 1


def test_kernels_of_an_unknown_process_have_iterations_of_none() -> None:
    made = MadeTrace()
    begins = training(made, list("abcdef"), 6, process_id=None)
    assert [(row["process_id"], row["start_ns"]) for row in periods(made)] == [
        (None, begin) for begin in begins
    ]


def test_repeated_layers_inside_an_iteration_are_no_iterations() -> None:
    made = MadeTrace()
    period = ["embed", *["gemm", "relu"] * 8, "loss", *["gemm_bwd", "relu_bwd"] * 8, "sgd"]
    begins = training(made, period, 5)
    assert [row["start_ns"] for row in periods(made)] == begins


def test_a_recurrent_network_is_cut_at_its_iterations() -> None:
    made = MadeTrace()
    period = ["copy", *["gemm", "pointwise"] * 60, "loss", "sgd"]
    begins = training(made, period, 4)
    assert [row["start_ns"] for row in periods(made)] == begins


def test_without_idle_time_the_periods_still_have_the_right_length() -> None:
    made = MadeTrace()
    launched = run(made, list("abcabd") * 6)
    rows = periods(made)
    assert 5 <= len(rows) <= 6
    assert {b["start_ns"] - a["start_ns"] for a, b in pairwise(rows)} == {60}
    assert rows[0]["start_ns"] in launched


def test_the_launch_configuration_tells_kernels_of_one_name_apart() -> None:
    made = MadeTrace()
    at = 0
    for _ in range(6):
        for grid in (1, 2, 4):
            at += STEP + (GAP if grid == 1 else 0)
            made.launch(at, at + 5, at + 9, "gemm", grid_x=grid, grid_y=1, grid_z=1)
    rows = periods(made)
    assert len(rows) == 6


@pytest.mark.slow
def test_noise_lowers_the_confidence_and_the_least_one_is_the_user_s_to_set() -> None:
    made = MadeTrace()
    names: list[str] = []
    for number in range(8):
        names += [*"abcdef", *([f"noise{number}"] if number in (3, 4) else [])]
    run(made, names, range(0, len(names), 6))
    rows = periods(made)
    assert rows
    assert 0.5 <= (confidence := rows[0]["confidence"]) < 1
    assert periods(made, min_confidence=confidence - 0.01) == rows
    assert periods(made, min_confidence=confidence + 0.01) == []


@pytest.mark.parametrize(
    "names",
    [
        [f"k{i}" for i in range(40)],
        ["same"] * 40,
        ["same"],
        ["a", "b"],
        [f"k{(i * i * 7919 + i // 3) % 23}" for i in range(60)],
        [],
    ],
    ids=["all different", "one kernel repeated", "single", "two", "shuffled", "none"],
)
def test_no_period_gives_nothing(names: list[str]) -> None:
    made = MadeTrace()
    made.add_trace()
    run(made, names)
    assert periods(made) == []


def test_processes_and_traces_have_periods_of_their_own() -> None:
    made = MadeTrace()
    one = training(made, list("abcd"), 5, process_id=1)
    two = training(made, list("xyz"), 7, process_id=2, thread_id=9)
    other = training(made, list("abcd"), 4, trace_id="u")
    rows = periods(made)
    found = {
        key: [r["start_ns"] for r in rows if (r["trace_id"], r["process_id"]) == key]
        for key in {(r["trace_id"], r["process_id"]) for r in rows}
    }
    assert found == {("t", 1): one, ("t", 2): two, ("u", 1): other}


def test_a_process_that_marks_its_iterations_needs_no_period() -> None:
    made = MadeTrace()
    training(made, list("abcd"), 5)
    for number in range(3):
        made.add_range(100 * number, 100 * number + 90, f"step {number}")
    assert periods(made) == []


def test_the_order_of_launches_counts_not_that_of_execution() -> None:
    """Two streams: the GPU may run later launches first."""
    made = MadeTrace()
    at, begins = 0, []
    for _ in range(6):
        at += GAP
        begins.append(at)
        for offset, name in enumerate("abcd"):
            late = 300 if name == "b" else 0
            start = at + offset + 20 * offset + late
            made.launch(at + offset, start, start + 15, name, stream_id=7 + (name == "b"))
    rows = periods(made)
    assert [row["start_ns"] for row in rows] == begins
    assert {row["confidence"] for row in rows} == {1.0}


def test_without_launch_records_the_period_is_in_gpu_time() -> None:
    made = MadeTrace()
    begins, at = [], 0
    for _ in range(5):
        at += GAP
        begins.append(at)
        for name in "abc":
            made.add_kernel(at, at + 8, name, process_id=None)
            at += STEP
    with made.connect() as database:
        rows = database.relation("_iteration_anchor")
        assert [row["start_ns"] for row in rows] == begins
        assert {row["thread_id"] for row in rows} == {None}
        scope = database.relation("op_scope")
    assert {(row["iteration"], row["evidence"]) for row in scope} == {
        (number, "anchor kernel") for number in range(5)
    }
    assert len(scope) == 15


def test_iterations_of_the_kernels_order_own_what_is_launched_in_them() -> None:
    made = MadeTrace()
    training(made, list("abcd"), 5, prefix=["warm"])
    rows = relation(made, "op_scope")
    found = {r["op_id"]: (r["name"], r["iteration"], r["evidence"]) for r in rows}.values()
    assert ("warm", None, None) in found
    for number in range(5):
        for name in "abcd":
            assert (name, number, "anchor kernel") in found


def test_kernels_whose_names_have_the_same_hash_are_two() -> None:
    made = MadeTrace()
    first, second = SAME_HASH
    begins = training(made, [first, "copy", second, "copy"], 6)
    assert [row["start_ns"] for row in periods(made)] == begins


# what a search for identical periods does not find, or finds wrongly


def found_by(made: MadeTrace, names: Iterable[str], **kernel: Any) -> None:
    """Launch kernels one after the other, with a grid that never repeats."""
    for number, name in enumerate(names):
        at = STEP * number
        made.launch(at, at + 5, at + 13, name, grid_x=number + 1, grid_y=1, grid_z=1, **kernel)


def test_grids_that_change_from_step_to_step() -> None:
    made = MadeTrace()
    period = [
        "embed",
        *["gemm", "softmax", "gemm"] * 4,
        "loss",
        *["gemm_bwd", "softmax_bwd"] * 4,
        "sgd",
    ]
    found_by(made, period * 20)
    rows = periods(made)
    assert [row["start_ns"] for row in rows] == [STEP * len(period) * step for step in range(20)]
    assert {row["confidence"] for row in rows} == {1.0}


@pytest.mark.slow
def test_graphs_traced_as_a_whole_count_as_kernels() -> None:
    made = MadeTrace()
    for step in range(10):
        at = step * GAP
        made.launch(at, at + 10, at + 20, "copy")
        made.add_call(at + 30, at + 31, "cudaGraphLaunch", correlation_id=(call := made.next_id()))
        made.add_graph(at + 40, at + 900, correlation_id=call)
    rows = periods(made)
    assert [row["start_ns"] for row in rows] == [step * GAP for step in range(10)]


def test_what_one_call_launched_is_not_divided() -> None:
    """Each graph holds five layers: they repeat, but the host launched them at once."""
    made = MadeTrace()
    for step in range(6):
        at = step * GAP
        made.add_call(at, at + 1, "cudaGraphLaunch", correlation_id=(call := made.next_id()))
        for node in range(20):
            start = at + 10 + 20 * node
            made.add_kernel(start, start + 19, "abcd"[node % 4], correlation_id=call)
    rows = periods(made)
    assert [row["start_ns"] for row in rows] == [step * GAP for step in range(6)]


def test_layers_of_a_model_are_no_steps() -> None:
    """What comes once a step takes a fiftieth of its time."""
    made = MadeTrace()
    period = ["embed", *["norm", "gemm", "attention", "gemm"] * 24, "head"]
    begins = training(made, period, 5)
    assert [row["start_ns"] for row in periods(made)] == begins


@pytest.mark.slow
def test_steps_of_which_every_tenth_logs_stay_steps() -> None:
    made = MadeTrace()
    step = [*"abcdefghij", *(f"layer{i}" for i in range(10))] * 2 + ["sgd"]
    names = (step * 10 + ["log"]) * 6
    run(made, names)
    assert len(periods(made)) in (59, 60)


@pytest.mark.slow
@pytest.mark.parametrize(("share", "found"), [(0.08, False), (0.4, False), (0.7, True)])
def test_iterations_hold_at_least_half_of_the_kernel_time(share: float, found: bool) -> None:
    """1,000 small repeats in a program that spends its time elsewhere."""
    made = MadeTrace()
    training(made, list("abc"), 200)
    busy = 600 * 8
    made.launch(10**6, 10**6 + 10, 10**6 + 10 + int(busy * (1 - share) / share), "solve")
    assert bool(periods(made)) == found


@pytest.mark.parametrize("repeats", [1, 2])
def test_one_or_two_iterations_are_none(repeats: int) -> None:
    made = MadeTrace()
    training(made, [f"k{i}" for i in range(30)], repeats)
    assert periods(made) == []


@pytest.mark.slow
def test_three_and_four_iterations_must_be_nearly_alike() -> None:
    for change, found in ((0, 4), (8, 0)):
        made = MadeTrace()
        period = [f"k{i}" for i in range(20)]
        names = [
            f"{name}_{step}" if place < change else name
            for step in range(4)
            for place, name in enumerate(period)
        ]
        run(made, names)
        assert len(periods(made)) == found


@pytest.mark.slow
def test_iterations_of_several_processes_may_differ() -> None:
    made = MadeTrace()
    for process, (length, repeats) in enumerate([(4, 40), (30, 6), (50, 1)]):
        training(
            made, [f"k{i}" for i in range(length)], repeats, process_id=process, thread_id=process
        )
    rows = periods(made)
    assert Counter(row["process_id"] for row in rows) == {0: 40, 1: 6}


def test_the_device_that_works_most_tells() -> None:
    made = MadeTrace()
    begins = training(made, list("abcdef"), 6)
    for number in range(100):  # many kernels that take no time, without order
        at = 70 * number
        made.launch(at, at + 1, at + 2, f"k{number * number % 37}", device_id=1, thread_id=2)
    assert [row["start_ns"] for row in periods(made)] == begins


def test_iterations_begin_on_the_stream_that_runs_most() -> None:
    """A loader's kernels come after the longest wait, and are no part of the step's own work."""
    made = MadeTrace()
    begins = []
    for step in range(8):
        at = step * 5 * GAP
        for offset in range(4):
            made.launch(
                at + offset * 10,
                at + offset * 10 + 5,
                at + offset * 10 + 13,
                f"load{offset}",
                stream_id=20,
                thread_id=2,
            )
        begins.append(at + GAP)
        for offset, name in enumerate("abcdefgh"):
            start = at + GAP + offset * 10
            made.launch(start, start + 5, start + 13, name)
    assert [row["start_ns"] for row in periods(made)] == begins


@pytest.mark.slow
def test_where_many_launches_are_unknown_iterations_are_in_gpu_time() -> None:
    made = MadeTrace()
    for step in range(6):
        for offset, name in enumerate("abcd"):
            at = step * GAP + offset * STEP
            if step < 3:  # the recording began after their launches
                made.add_kernel(at + 500, at + 508, name, correlation_id=made.next_id())
            else:
                made.launch(at, at + 500, at + 508, name)
    with made.connect() as database:
        rows = database.relation("_iteration_anchor")
        assert [row["start_ns"] for row in rows] == [step * GAP + 500 for step in range(6)]
        assert {row["is_gpu_time"] for row in rows} == {True}
        scope = Counter(row["iteration"] for row in database.relation("op_scope"))
    assert scope == dict.fromkeys(range(6), 4)


def test_a_launch_that_is_not_recorded_moves_the_boundary_to_the_next() -> None:
    made = MadeTrace()
    for step in range(10):
        for offset, name in enumerate("abcdefgh"):
            at = step * GAP + offset * STEP
            if (step, offset) == (4, 0):
                made.add_kernel(at + 5, at + 13, name, correlation_id=made.next_id())
            else:
                made.launch(at, at + 5, at + 13, name)
    starts = [row["start_ns"] for row in periods(made)]
    assert starts == [step * GAP + STEP * (step == 4) for step in range(10)]


@pytest.mark.slow
@settings(max_examples=examples(10))
@given(
    names=st.lists(st.sampled_from("abcdefghijkl"), min_size=30, max_size=300),
    seed=st.integers(0, 9),
)
def test_kernels_in_random_order_are_no_iterations(names: list[str], seed: int) -> None:
    """Drawn by hypothesis, then shuffled: what it likes to repeat is no accident."""
    made = MadeTrace()
    random.Random(seed).shuffle(names)
    run(made, names)
    rows = periods(made)
    if len(set(names)) >= 4 and Counter(names).most_common(1)[0][1] < len(names) / 2:
        assert rows == []
