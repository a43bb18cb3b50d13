"""When a run is stable: no trend in the times of its last iterations, and little spread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from statistics import fmean, median, stdev

WANTED = 10
LEAST = 3
MAX_VARIATION = 0.05
# Longer runs of iterations are not looked at: the slope compares every pair.
_LONGEST = 40


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether the last iterations are stable, and why not.

    Attributes:
        stable: whether they are.
        iterations: how many of the last iterations that concerns.
        reason: what is wrong, empty when they are stable.
    """

    stable: bool
    iterations: int
    reason: str = ""


def judge(times: Sequence[float], memory: Sequence[int] = (), wanted: int = WANTED) -> Verdict:
    """Judge whether a run has become stable.

    Stable is a run of which the last ``wanted`` iterations or more show no trend (Theil-Sen slope
    times their number less than their standard deviation), vary by less than 5 % of their mean and
    did not make the allocator reserve more memory.

    Args:
        times: duration of every iteration so far, in any unit.
        memory: bytes that the allocator had reserved after every iteration; empty if unknown.
        wanted: iterations that must be stable, at least 3.

    Raises:
        ValueError: fewer are wanted, which tell nothing about a trend.
    """
    if wanted < LEAST:
        raise ValueError(f"a run is stable over {LEAST} iterations or more, not {wanted}")
    if len(times) < wanted:
        return Verdict(False, len(times), f"fewer than {wanted} iterations")
    verdict = Verdict(False, wanted)
    for count in range(wanted, min(len(times), _LONGEST) + 1):
        reason = _unstable(times[-count:], memory[-count - 1 :])
        if not reason:
            return Verdict(True, count)
        if count == wanted:
            verdict = Verdict(False, count, reason)
    return verdict


def _unstable(times: Sequence[float], memory: Sequence[int]) -> str:
    """Return why these iterations are not stable, empty if they are."""
    spread, mean = stdev(times), fmean(times)
    if spread > 0 and spread >= MAX_VARIATION * mean:
        return f"iterations vary by {100 * spread / mean:.1f} % of their mean"
    if spread > 0 and abs(theil_sen_slope(times)) * len(times) >= spread:
        return "iterations still become slower or faster"
    if any(later > earlier for earlier, later in pairwise(memory)):
        return "the allocator still reserves memory"
    return ""


def theil_sen_slope(values: Sequence[float]) -> float:
    """Return the median slope between all pairs of at least two values, per position."""
    return median(
        (values[later] - values[earlier]) / (later - earlier)
        for earlier, later in combinations(range(len(values)), 2)
    )
