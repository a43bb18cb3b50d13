"""How much faster a program is with a change, from pairs of runs."""

from __future__ import annotations

import math
from random import Random

import pytest

from tbd_collectors.speedup import FEWEST, Outcome, Speedup, speedup


def test_interval_is_that_of_students_t_on_logarithms() -> None:
    # Ratios e^1 and e^3: mean 2, standard error 1, 1.25 × 12.706 for one degree of freedom.
    found = speedup([(math.e, 1.0), (math.e**3, 1.0)])
    assert (found.factor, found.pairs) == (pytest.approx(math.e**2), 2)
    assert found.low == pytest.approx(math.exp(2 - 1.25 * 12.706))
    assert found.high == pytest.approx(math.exp(2 + 1.25 * 12.706))


@pytest.mark.parametrize(
    ("after", "outcome"),
    [
        ([50, 51, 49, 50], Outcome.FASTER),
        ([200, 204, 196, 200], Outcome.SLOWER),
        ([100, 101, 99, 100], Outcome.NO_DIFFERENCE),
        ([99, 99.1, 98.9, 99], Outcome.NO_DIFFERENCE),  # sure, but under 2 %
        ([60, 170, 80, 110], Outcome.TOO_BUSY),
    ],
)
def test_outcomes(after: list[float], outcome: Outcome) -> None:
    assert speedup([(100.0, value) for value in after]).outcome is outcome


def until_narrow(random: Random, noise: float, effect: float) -> Speedup:
    pairs: list[tuple[float, float]] = []
    while True:
        ratio = math.exp(random.gauss(effect, noise))
        pairs.append((ratio, 1.0))
        if len(pairs) >= FEWEST:
            found = speedup(pairs)
            if found.is_narrow or len(pairs) == 12:
                return found


@pytest.mark.parametrize("noise", [0.01, 0.03, 0.06, 0.12])
def test_equal_programs_show_no_difference_in_95_of_100(noise: float) -> None:
    random = Random(1)
    outcomes = [until_narrow(random, noise, 0.0).outcome for _ in range(1000)]
    wrong = sum(one in (Outcome.FASTER, Outcome.SLOWER) for one in outcomes)
    assert wrong <= 50


def test_a_tenth_is_found_on_a_machine_that_varies_by_3_percent() -> None:
    random = Random(2)
    found = [until_narrow(random, 0.03, math.log(1.1)) for _ in range(200)]
    assert sum(one.outcome is Outcome.FASTER for one in found) >= 190
    assert sum(one.low <= 1.1 <= one.high for one in found) >= 190
