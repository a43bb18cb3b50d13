"""iteration_anchor: iterations from kernels that repeat, for programs that mark none."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
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
    return relation(made, "iteration_anchor", **parameters)


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


@settings(max_examples=8, deadline=None)
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
        rows = database.relation("iteration_anchor")
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
