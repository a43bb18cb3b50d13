"""Estimate how much faster a program runs with a change, from pairs of runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean, stdev

FEWEST = 4  # pairs; with fewer, the spread is hardly known
NARROW = 0.10  # width of the interval at which no more pairs are needed
_BUSY = 0.30  # width above which a missing difference says nothing
_LEAST = 0.02  # factor below which a difference is not stated
# Two-sided 95 % quantiles of Student's t by degrees of freedom, from 1.
_QUANTILES = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093,
)  # fmt: skip
# Pairs are added until the interval is narrow, which makes narrow ones too frequent: in simulated
# pairs of equal programs, this factor leaves under 4 % with a difference.
_WIDENING = 1.25

MOST = len(_QUANTILES) + 1
"""Pairs at most."""


class Outcome(StrEnum):
    """What pairs of runs show."""

    FASTER = "faster"
    SLOWER = "slower"
    NO_DIFFERENCE = "no difference shown"
    TOO_BUSY = "the machine is too busy for an answer"


@dataclass(frozen=True, slots=True)
class Speedup:
    """Factor by which steps are faster, with its 95 % interval."""

    outcome: Outcome
    factor: float
    low: float
    high: float
    pairs: int

    def __str__(self) -> str:
        return f"×{self.factor:.2f} ({self.low:.2f} … {self.high:.2f})"

    @property
    def is_narrow(self) -> bool:
        """True if the interval needs no more pairs."""
        return self.high / self.low - 1 <= NARROW


def speedup(pairs: Sequence[tuple[float, float]]) -> Speedup:
    """Estimate the factor from pairs of runs, by Student's t on the logarithms of their ratios.

    Args:
        pairs: time of a step without and with the change, at least two.
    """
    logs = [math.log(before / after) for before, after in pairs]
    middle, count = fmean(logs), len(logs)
    half = _WIDENING * _QUANTILES[count - 2] * stdev(logs) / math.sqrt(count)
    factor, low, high = (math.exp(value) for value in (middle, middle - half, middle + half))
    if low > 1 and factor >= 1 + _LEAST:
        outcome = Outcome.FASTER
    elif high < 1 and factor <= 1 / (1 + _LEAST):
        outcome = Outcome.SLOWER
    elif high / low - 1 > _BUSY:
        outcome = Outcome.TOO_BUSY
    else:
        outcome = Outcome.NO_DIFFERENCE
    return Speedup(outcome, factor, low, high, count)
