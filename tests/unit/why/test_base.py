"""The steps used, those left out, and how they are described, from iterations written down here."""

from __future__ import annotations

import pytest

from tbd_trace.why.base import Base, LeftOut, base, counted, percentile, summarized
from tbd_trace.why.covers import unused_steps

NEW, CUT, PAUSE = "first use of a kernel", "GPU work not fully recorded", "pause"


def rows(*dropped: str | None) -> list[tuple[int, int, int | None, str | None, bool, str, float]]:
    """Return iterations of 100 ns, left out for the given reasons; None is used."""
    return [
        (number, 100 * number, 100 * number + 100, why, why is None, "nvtx range", 1.0)
        for number, why in enumerate(dropped)
    ]


def test_steps_are_used_or_left_out_for_a_reason() -> None:
    found = base(rows(NEW, "slow start", None, None, CUT, PAUSE))
    assert found.periods == [(200, 300), (300, 400)]
    assert found.warm_up == [(0, 100), (100, 200)]
    assert found.left_out == {"warm-up": 2, CUT: 1, PAUSE: 1}
    assert (found.steps_marked, found.mean_ns, found.method) == (6, 100, "nvtx range")
    assert counted(found) == "2 of 6 steps (2 warm-up, 1 not fully recorded, 1 with a pause)"
    assert unused_steps(found) == [f"1 of 6 steps are left out: {why}" for why in (CUT, PAUSE)]


def test_a_step_without_a_recorded_end_has_no_period() -> None:
    made = rows(None, None, "next start not recorded")
    made[-1] = (*made[-1][:2], None, *made[-1][3:])
    found = base(made)
    assert (len(found.periods), found.left_out) == (2, {"next start not recorded": 1})
    assert counted(found) == "2 of 3 steps (1 without a recorded end)"


def test_the_base_in_numbers() -> None:
    found = summarized(base(rows(NEW, None, None)), 60.0)
    assert (found.steps_marked, found.steps_used, found.left_out) == (3, 2, [LeftOut("warm-up", 1)])
    assert (found.step_ns, found.gpu_step_ns) == (100, 60.0)
    nothing = summarized(Base(), None)
    assert (nothing.steps_marked, nothing.steps_used, nothing.step_ns) == (0, 0, None)


@pytest.mark.parametrize(
    ("periods", "stretches"),
    [
        ([], []),
        ([(0, 5), (5, 9)], [(0, 9)]),
        ([(0, 5), (7, 9), (9, 12)], [(0, 5), (7, 12)]),
        ([(0, 5), (4, 9)], [(0, 9)]),  # after a change, steps may overlap
    ],
)
def test_steps_that_follow_each_other_are_a_stretch(
    periods: list[tuple[int, int]], stretches: list[tuple[int, int]]
) -> None:
    assert Base(periods).stretches == stretches


@pytest.mark.parametrize(("steps", "text"), [(0, "no steps"), (1, "1 step"), (3, "3 steps")])
def test_numbers_in_words(steps: int, text: str) -> None:
    assert counted(base(rows(*[None] * steps))) == text


def test_percentiles() -> None:
    assert percentile([], 5) is None
    assert percentile([7], 95) == 7
    assert percentile([0, 100], 5) == 5
