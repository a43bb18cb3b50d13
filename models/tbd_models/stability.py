"""Decide whether iteration times are stable: no trend and little spread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from statistics import fmean, median, stdev

WANTED = 10  # iterations that must be stable
LEAST = 3  # a trend needs three points
MAX_VARIATION = 0.05  # standard deviation / mean
_LONGEST = 40  # the Theil-Sen slope compares all pairs, so its cost grows with the square


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether the last iterations are stable."""

    stable: bool
    iterations: int  # number of last iterations that were checked
    reason: str = ""  # empty if stable


def check_stability(
    times: Sequence[float], memory: Sequence[int] = (), wanted: int = WANTED
) -> Verdict:
    """Check whether a run has become stable.

    It has if its last ``wanted`` or more iterations have no trend (Theil-Sen slope times their
    number below their standard deviation), a standard deviation below 5 % of their mean, and no
    growth of the reserved memory.

    Args:
        times: duration of each iteration so far, in any unit.
        memory: bytes reserved by the allocator after each iteration; empty if unknown.
        wanted: iterations that must be stable, at least 3.

    Raises:
        ValueError: ``wanted`` is less than 3.
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
    # Returns the reason, empty for stable iterations.
    spread, mean = stdev(times), fmean(times)
    if spread > 0 and spread >= MAX_VARIATION * mean:
        return f"iterations vary by {100 * spread / mean:.1f} % of their mean"
    if spread > 0 and abs(theil_sen_slope(times)) * len(times) >= spread:
        return "iterations still become slower or faster"
    if any(later > earlier for earlier, later in pairwise(memory)):
        return "the allocator still reserves memory"
    return ""


def theil_sen_slope(values: Sequence[float], at: Sequence[float] | None = None) -> float:
    """Return the median slope over all pairs of values at different places; 0 without a pair.

    Places are positions unless ``at`` gives them.
    """
    places = range(len(values)) if at is None else at
    slopes = [
        (values[later] - values[earlier]) / (places[later] - places[earlier])
        for earlier, later in combinations(range(len(values)), 2)
        if places[later] != places[earlier]
    ]
    return median(slopes) if slopes else 0.0


def at_mean_work(times: Sequence[float], work: Sequence[float]) -> list[float]:
    """Return the times that iterations would take at the mean of their work.

    The Theil-Sen line of time over work gives the time per work; the first times are left out of
    it, as those of the warm-up.
    """
    recent = slice(-_LONGEST, None)
    slope = theil_sen_slope(times[recent], work[recent])
    mean = fmean(work[recent])
    return [time - slope * (amount - mean) for time, amount in zip(times, work, strict=True)]
