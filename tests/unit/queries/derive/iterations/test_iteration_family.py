"""_iteration_mark, _iteration_family, _iteration_boundary: iterations told by NVTX ranges."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from fast import one_in
from made_trace import MadeTrace, Row, relation

MS = 1_000_000


def iterations(made: MadeTrace, **parameters: Any) -> list[Row]:
    return relation(made, "_iteration_boundary", **parameters)


def spans(rows: list[Row]) -> list[tuple[int, int]]:
    """Return start and end of iterations, in milliseconds."""
    return [(row["start_ns"] // MS, row["end_ns"] // MS) for row in rows]


def work(made: MadeTrace, start: int, end: int, **row: Any) -> None:
    """Launch a kernel every millisecond from ``start`` to ``end`` (ms); no name repeats."""
    for at in range(start, end):
        made.launch(at * MS + 10, at * MS + 20, at * MS + 900_000, f"k{at}", **row)


def counted(made: MadeTrace, name: str, ranges: int, length: int = 10, **row: Any) -> None:
    """Add ranges ``name 0``, ``name 1``, … of ``length`` ms, full of work."""
    for number in range(ranges):
        start = number * length
        made.add_range(start * MS, (start + length) * MS - 1, f"{name} {number}", **row)
        work(made, start, start + length)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", one_in(4, ["Coarse Level", "Warm-up Step", "epoch 1 sample", "Replay #"])
)
def test_numbered_ranges_of_any_name_are_iterations(name: str) -> None:
    made = MadeTrace()
    counted(made, name, 6)
    rows = iterations(made)
    assert [row["label"] for row in rows] == [f"{name} {number}" for number in range(6)]
    assert {row["method"] for row in rows} == {"nvtx range"}
    assert {row["confidence"] for row in rows} == {0.99}  # all of the GPU's time is in them
    [family] = {row["family"] for row in relation(made, "_iteration_family")}
    assert family == f"{name} #".replace("1", "#")


@pytest.mark.slow
def test_a_text_that_repeats_is_an_iteration_with_less_confidence() -> None:
    made = MadeTrace()
    for number in range(15):
        made.add_range(number * 10 * MS, (number * 10 + 8) * MS, "Forward")
        work(made, number * 10, number * 10 + 10)  # two of ten kernels come after the range
    rows = iterations(made)
    assert len(rows) == 15
    assert [row["confidence"] for row in rows] == pytest.approx([0.9 * 0.8] * 15)


@pytest.mark.parametrize("outside", [1, 9, 11])
def test_a_family_covers_half_of_the_gpu_s_time(outside: int) -> None:
    made = MadeTrace()
    for number in range(4):
        start = number * (10 + outside)
        made.add_range(start * MS, (start + 10) * MS - 1, f"Level {number}")
        work(made, start, start + 10 + outside)
    rows = iterations(made)
    assert len(rows) == (4 if outside < 10 else 0)
    assert all(row["confidence"] == pytest.approx(10 / (10 + outside), abs=1e-4) for row in rows)


def test_two_ranges_are_no_family() -> None:
    made = MadeTrace()
    counted(made, "Level", 2)
    assert iterations(made) == []


@pytest.mark.parametrize(
    ("text", "row"),
    one_in(
        4,
        [
            ("cub::DeviceReduce", {"domain": "CCCL"}),
            ("cub::DeviceReduce", {}),
            ("aten::linear, seq = 4", {}),
            ("aten::linear", {}),
            ("layer 3", {}),
            ("encoder block 3", {}),
            ("epoch 3", {}),
            ("{'traceMarker': ['net.py:3']}", {}),
        ],
    ),
)
def test_libraries_operators_layers_and_epochs_are_no_families(
    text: str, row: dict[str, str]
) -> None:
    made = MadeTrace()
    for number in range(6):
        made.add_range(number * 10 * MS, (number * 10 + 10) * MS - 1, text, **row)
        work(made, number * 10, number * 10 + 10)
    assert iterations(made) == []


@pytest.mark.slow
def test_of_nested_families_the_coarsest_counts() -> None:
    made = MadeTrace()
    counted(made, "Level", 4, 12)
    for part in range(16):
        made.add_range(part * 3 * MS + 5, (part + 1) * 3 * MS - 5, f"part {part}")
    assert len(iterations(made)) == 4


@pytest.mark.slow
def test_ranges_of_a_thread_that_hardly_launches_are_no_family() -> None:
    made = MadeTrace()
    work(made, 0, 60)
    for number in range(6):
        made.add_range(number * 10 * MS, (number * 10 + 10) * MS - 1, f"load {number}", thread_id=2)
    assert iterations(made) == []


@pytest.mark.slow
def test_work_that_other_threads_launch_meanwhile_is_in_the_family() -> None:
    made = MadeTrace()
    for number in range(6):
        start = number * 10
        made.add_range(start * MS, (start + 10) * MS - 1, f"Level {number}")
        work(made, start, start + 4)
        work(made, start + 4, start + 10, thread_id=2)
    rows = iterations(made)
    assert {row["confidence"] for row in rows} == {0.99}
    found = Counter(
        (row["iteration"], row["evidence"]) for row in relation(made, "op_scope", order="ALL")
    )
    assert found == Counter(
        {(n, how): ops for n in range(6) for how, ops in (("nvtx", 4), ("time", 6))}
    )


@pytest.mark.slow
def test_the_anchor_kernel_wins_where_it_explains_more() -> None:
    """Three ranges around fifteen steps each, which nothing marks, and some steps outside."""
    made = MadeTrace()
    for step in range(60):
        for offset, name in enumerate(["embed", "fwd", "bwd", "sgd"]):
            at = (step * 10 + 2 * offset) * MS
            made.launch(at + 10, at + 20, at + 900_000, name)
    for number in range(3):
        made.add_range(number * 150 * MS, (number + 1) * 150 * MS - 1, f"task {number}")
    rows = iterations(made)
    assert {row["method"] for row in rows} == {"anchor kernel"}
    assert len(rows) == 60


@pytest.mark.slow
def test_ranges_that_a_person_numbers_win_over_an_anchor_kernel_that_explains_as_much() -> None:
    made = MadeTrace()
    for at in range(60):
        made.launch(at * MS + 10, at * MS + 20, at * MS + 900_000, f"k{at % 5}")
    for number in range(3):
        made.add_range(number * 20 * MS, (number + 1) * 20 * MS - 1, f"Level {number}")
    assert [row["label"] for row in iterations(made)] == ["Level 0", "Level 1", "Level 2"]
    assert len(relation(made, "_iteration_anchor")) == 12


@pytest.mark.slow
def test_the_ranges_count_where_they_and_the_anchor_kernel_agree() -> None:
    made = MadeTrace()
    for step in range(8):
        made.add_range(step * 10 * MS, (step * 10 + 9) * MS, "Forward")
        for offset, name in enumerate(["embed", "fwd", "head"]):
            at = (step * 10 + 2 * offset) * MS
            made.launch(at + 10, at + 20, at + 900_000, name)
    assert {row["method"] for row in iterations(made)} == {"nvtx range"}
    assert len(relation(made, "_iteration_anchor")) == 8


# gradient accumulation


@pytest.mark.slow
@pytest.mark.parametrize("name", one_in(4, ["micro_batch", "micro-batch", "batch", "step"]))
def test_with_gradient_accumulation_the_iteration_is_the_optimizer_step(name: str) -> None:
    made = MadeTrace()
    for part in range(12):
        start = 10 * part + 10 * (part // 4)
        made.add_range(start * MS, (start + 9) * MS, f"{name} {part}")
        work(made, start, start + 9)
        if part % 4 == 3:
            made.add_range((start + 10) * MS, (start + 14) * MS, "optimizer.step")
            work(made, start + 10, start + 14)
            made.add_range((start + 15) * MS, (start + 16) * MS, "zero_grad")
    rows = iterations(made)
    assert spans(rows) == [(0, 44), (50, 94), (100, 144)]
    assert [row["label"] for row in rows] == [f"{name} {n} + 3" for n in (0, 4, 8)]
    assert {row["confidence"] for row in rows} == {1.0}
    scope = Counter(row["iteration"] for row in relation(made, "op_scope"))
    assert scope == {0: 40, 1: 40, 2: 40}


def test_the_optimizer_inside_the_last_micro_batch_ends_the_iteration() -> None:
    made = MadeTrace()
    for part in range(6):
        made.add_range(10 * part * MS, (10 * part + 9) * MS, f"step {part}")
        if part % 2:
            made.add_range((10 * part + 7) * MS, (10 * part + 8) * MS, "optimizer")
    assert spans(iterations(made)) == [(0, 19), (20, 39), (40, 59)]


def test_steps_with_an_optimizer_each_stay_iterations() -> None:
    made = MadeTrace()
    for part in range(6):
        made.add_range(10 * part * MS, (10 * part + 9) * MS, f"step {part}")
        if part != 2:  # a step that the gradient scaler skipped
            made.add_range((10 * part + 7) * MS, (10 * part + 8) * MS, "optimizer")
    assert len(iterations(made)) == 6


def test_phases_alone_are_iterations_from_one_optimizer_step_to_the_next() -> None:
    made = MadeTrace()
    phases = [("forward", 0, 3), ("backward", 3, 8), ("forward", 8, 11), ("backward", 11, 16)]
    for step in range(4):
        for text, start, end in [*phases, ("optimizer.step", 16, 19)]:
            made.add_range((20 * step + start) * MS, (20 * step + end) * MS - 1, text)
            work(made, 20 * step + start, 20 * step + end)
    rows = iterations(made)
    assert spans(rows) == [(20 * step, 20 * step + 18) for step in range(4)]
    assert {(row["label"], row["confidence"]) for row in rows} == {("forward", 0.99)}


# ranges inside others


def test_micro_batches_in_a_step_are_part_of_it() -> None:
    made = MadeTrace()
    for step in range(3):
        made.add_range(step * 10 * MS, (step * 10 + 9) * MS, f"step {step}")
        for part in range(3):
            at = step * 10 + 3 * part
            made.add_range(at * MS + 1, (at + 2) * MS, f"micro_batch {part}")
    assert [row["label"] for row in iterations(made)] == ["step 0", "step 1", "step 2"]


@pytest.mark.parametrize(
    ("outer", "steps", "found"),
    [("iteration", 5, "step"), ("iteration", 1, "iteration"), ("epoch", 5, "step")],
)
def test_steps_are_the_iterations_though_something_is_around_them(
    outer: str, steps: int, found: str
) -> None:
    made = MadeTrace()
    for number in range(3):
        made.add_range(number * 100 * MS, (number * 100 + 99) * MS, f"{outer} {number}")
        for step in range(steps):
            at = number * 100 + 10 * step
            made.add_range(at * MS + 1, (at + 9) * MS, f"step {step}")
    rows = iterations(made)
    assert len(rows) == (3 * steps if found == "step" else 3)
    assert {row["label"].split()[0] for row in rows} == {found}


# ranges that overlap


@pytest.mark.slow
def test_overlapping_ranges_are_iterations_each_and_share_no_launch() -> None:
    """Pipelined: each begins before the one before ends, on another thread.

    A period ends where the next iteration begins, so that the end of the last one is unknown: its
    range of 14 ms is longer than a period.
    """
    made = MadeTrace()
    for number in range(10):
        start = 10 * number
        made.add_range(
            start * MS, (start + 14) * MS, f"iteration {number}", kind="start_end", end_thread_id=2
        )
        work(made, start, start + 5)
        work(made, start + 5, start + 10, thread_id=2)
    rows = relation(made, "iteration")
    assert [row["label"] for row in rows] == [f"iteration {number}" for number in range(10)]
    assert [row["period_ns"] for row in rows] == [10 * MS] * 9 + [None]
    assert [row["dropped"] for row in rows] == [None] * 9 + ["next start not recorded"]
    assert [row["kernels"] for row in rows] == [10] * 10


@pytest.mark.slow
def test_start_end_ranges_of_one_name_are_iterations_though_one_holds_another() -> None:
    made = MadeTrace()
    for number, (start, end) in enumerate([(0, 9), (10, 38), (20, 29), (30, 45)]):
        made.add_range(
            start * MS, end * MS, f"step {number}", kind="start_end", thread_id=1 + number % 2
        )
        work(made, 10 * number, 10 * number + 10)
    rows = relation(made, "iteration")
    assert [row["label"] for row in rows] == [f"step {number}" for number in range(4)]
    assert [row["kernels"] for row in rows] == [9, 10, 10, 10]  # the 10th comes after step 0


def test_start_end_ranges_inside_a_step_are_part_of_it() -> None:
    made = MadeTrace()
    for step in range(3):
        made.add_range(step * 10 * MS, (step * 10 + 9) * MS, f"step {step}", kind="start_end")
        for part in range(2):
            at = step * 10 + 4 * part
            made.add_range((at + 1) * MS, (at + 3) * MS, f"batch {part}", kind="start_end")
    assert [row["label"] for row in iterations(made)] == ["step 0", "step 1", "step 2"]
