"""The cost of overlap in made steps, whose kernels take longer under communication by a factor."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable

import pytest

from made_trace import MadeTrace, metric, relation
from made_trace import Row as Found

MS = 1_000_000  # ns
KERNELS = 20  # of a step, of 0.2 to 0.96 ms alone
STEPS = 12  # nothing shows the end of the last one
UNDER = 5  # of them run under communication


def add_steps(
    made: MadeTrace,
    trace: str,
    factor: float,
    first_under: Callable[[int], int],
    *,
    noise: float = 0.02,
    drift: float = 0.0,
) -> None:
    """Add steps with an all-reduce beside some kernels, from a place on that the step decides.

    Args:
        noise: largest part by which a duration differs from the usual one.
        drift: part by which kernels grow from step to step.
    """
    rng, own = random.Random(3), {"trace_id": trace}
    made.add_trace(trace)
    for step in range(STEPS):
        at = step * 100 * MS
        made.add_range(at, at + 90 * MS, f"iteration {step}", **own)
        first = first_under(step)
        begun = now = at + MS
        for place in range(KERNELS):
            if place == first:
                begun = now
            took = (200 + 40 * place) * 1000 * (1 + drift * step)
            took *= (factor if first <= place < first + UNDER else 1) * (
                1 + rng.uniform(-noise, noise)
            )
            start, now = now, now + round(took)
            made.launch(at + place, start, now, f"k{place}", **own)
            if place == first + UNDER - 1:
                made.launch(at + place, begun, now, "ncclAllReduce", stream_id=9, **own)


def cost(factor: float, first_under: Callable[[int], int], **how: float) -> Found:
    made = MadeTrace()
    add_steps(made, "t", factor, first_under, **how)
    (row,) = relation(made, "overlap_cost")
    return row


def test_injected_factors_are_found() -> None:
    factors = [1.0, 1.1, 1.25, 1.44, 1.7, 2.0]
    made = MadeTrace()
    for factor in factors:
        add_steps(made, f"{factor}", factor, lambda step: step)
    rows = relation(made, "overlap_cost")
    assert [row["trace_id"] for row in rows] == [f"{factor}" for factor in factors]
    for row, factor in zip(rows, factors, strict=True):
        assert row["slowdown"] == pytest.approx(factor, rel=0.03)
        assert row["placebo"] == pytest.approx(1, abs=0.03)
        assert (row["places"], row["matched_pct"]) == (15, pytest.approx(100))
        assert row["reason"] is None


def test_the_cost_is_what_the_factor_adds() -> None:
    row = cost(1.5, lambda step: step, noise=0)
    used = range(STEPS - 1)
    alone = sum(200_000 + 40_000 * (step + place) for step in used for place in range(UNDER))
    assert row["iterations"] == len(used)
    assert row["under_ns"] == pytest.approx(1.5 * alone / len(used))
    assert row["cost_ns"] == pytest.approx(0.5 * alone / len(used))
    each = sum(200_000 + 40_000 * place for place in range(KERNELS))
    assert row["compute_ns"] == pytest.approx(each + row["cost_ns"])


def test_kernels_that_always_overlap_show_no_cost() -> None:
    found = cost(1.4, lambda _: 3)
    assert (found["places"], found["slowdown"], found["cost_ns"]) == (0, None, None)
    assert found["reason"].startswith("no kernel runs under communication in some steps and alone")


def test_a_small_part_is_not_enough() -> None:
    # All but one step have the same kernels beside communication.
    found = cost(1.4, lambda step: 15 if step else 0)
    assert found["matched_pct"] < 5
    assert found["slowdown"] is None
    assert found["reason"] == (
        f"{found['matched_pct']:.1f} % of the time under communication is matched by place in the "
        "step, below 5 %"
    )


def test_kernels_that_do_not_repeat_alone_are_no_measure() -> None:
    found = cost(1.4, lambda step: step, drift=0.1)
    assert found["placebo"] > 1.03
    assert found["slowdown"] is None
    assert found["reason"].startswith("kernels alone do not repeat")


def test_no_row_without_communication_beside_kernels() -> None:
    made = MadeTrace()
    add_steps(made, "t", 1.4, lambda _: KERNELS)
    assert relation(made, "overlap_cost") == []
    assert metric(made, "overlap_bill") == []


def test_other_sequences_of_kernels_do_not_count() -> None:
    made = MadeTrace()
    add_steps(made, "t", 1.5, lambda step: step, noise=0)
    # A kernel that only one step has shifts the places of those after it.
    at = 5 * 100 * MS
    made.launch(at, at + MS - 1000, at + MS - 1, "rare")
    (found,) = relation(made, "overlap_cost")
    assert (found["iterations"], found["slowdown"]) == (STEPS - 2, pytest.approx(1.5))


def test_the_earliest_of_equally_frequent_sequences_counts() -> None:
    made = MadeTrace()
    add_steps(made, "t", 1.5, lambda step: step, noise=0)
    for step in range(STEPS):
        at = step * 100 * MS
        made.launch(at, at + MS - 1000, at + MS - 1, f"only in step {step}")
    assert {row["iteration"] for row in relation(made, "overlapped_kernel")} == {0}


def test_time_under_communication_by_brute_force() -> None:
    rng, made, expected = random.Random(5), MadeTrace(), {}

    def spans(most: int) -> list[tuple[int, int]]:  # start, duration
        return [(rng.randint(0, 60), rng.randint(1, 30)) for _ in range(rng.randint(1, most))]

    for number in range(40):
        compute, communication = spans(8), spans(5)
        own = {"trace_id": f"{number}"}
        made.add_trace(**own)
        for step in range(3):
            at = step * 1000
            made.add_range(at, at + 900, f"iteration {step}", **own)
            for start, took in compute:
                made.launch(at + 1, at + 10 + start, at + 10 + start + took, **own)
            for start, took in communication:
                begin = at + 10 + start
                made.launch(at + 1, begin, begin + took, "ncclKernel", stream_id=9, **own)
        busy = {now for start, took in communication for now in range(start, start + took)}
        expected[f"{number}"] = sorted(
            (start, took, len(busy & set(range(start, start + took)))) for start, took in compute
        )
    found = defaultdict(list)
    for row in relation(made, "overlapped_kernel"):
        start = row["start_ns"] - row["iteration"] * 1000 - 10
        found[row["trace_id"], row["iteration"]].append(
            (start, row["duration_ns"], row["under_ns"])
        )
    assert {trace for trace, _ in found} == set(expected)
    for (trace, _), rows in found.items():
        assert sorted(rows) == expected[trace]
