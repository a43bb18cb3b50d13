"""The steps behind every number about a process, and the steps that are left out."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from statistics import fmean, quantiles
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb

WARM_UP = ("first use of a kernel", "allocator growth", "slow start")
"""Signs of warm-up, as in the column iteration.warm_up."""

_REASONS = {
    "warm-up": "warm-up",
    "GPU work not fully recorded": "not fully recorded",
    "next start not recorded": "without a recorded end",
    "pause": "with a pause",
}
_STEPS = """
SELECT i.iteration, i.period_start_ns, i.period_end_ns, i.dropped, w.iteration IS NOT NULL,
    i.method, i.confidence
FROM iteration i
LEFT JOIN host_window w
    ON  w.trace_id = i.trace_id AND w.process_id IS NOT DISTINCT FROM i.process_id
    AND w.iteration = i.iteration AND w.period_end_ns IS NOT NULL
WHERE i.trace_id = $trace AND coalesce(i.process_id, -1) = $process
ORDER BY i.iteration"""


@dataclass(frozen=True)
class Base:
    """The steps of a process. Periods are start and end in ns, in order of time."""

    periods: list[tuple[int, int]] = field(default_factory=list)  # of the steps used
    left_out: dict[str, int] = field(default_factory=dict)  # number of steps by reason
    warm_up: list[tuple[int, int]] = field(default_factory=list)  # periods left out as warm-up
    method: str | None = None  # as in iteration.method
    confidence: float | None = None

    @property
    def steps_marked(self) -> int:
        """Number of steps used and left out."""
        return len(self.periods) + sum(self.left_out.values())

    @cached_property
    def step_ns(self) -> list[int]:
        """Durations of the steps used."""
        return [end - start for start, end in self.periods]

    @property
    def mean_ns(self) -> float | None:
        """Mean duration of the steps used; None without steps."""
        return fmean(self.step_ns) if self.periods else None

    @property
    def stretches(self) -> list[tuple[int, int]]:
        """Periods of steps that follow each other, joined."""
        joined: list[tuple[int, int]] = []
        for start, end in self.periods:
            if joined and start <= joined[-1][1]:
                joined[-1] = joined[-1][0], max(end, joined[-1][1])
            else:
                joined.append((start, end))
        return joined


def load_base(connection: duckdb.DuckDBPyConnection, trace_id: str, process_id: int) -> Base:
    """Read the base of a process; the relations iteration and host_window exist."""
    parameters = {"trace": trace_id, "process": process_id}
    return base(connection.execute(_STEPS, parameters).fetchall())


def base(rows: list[tuple[int, int, int | None, str | None, bool, str, float]]) -> Base:
    """Return the base of a process from its iterations."""
    periods: list[tuple[int, int]] = []
    warm_up: list[tuple[int, int]] = []
    reasons: Counter[str] = Counter()
    for _, start, end, dropped, is_used, _, _ in rows:
        if is_used and end is not None:
            periods.append((start, end))
            continue
        is_warm = dropped in WARM_UP
        reasons["warm-up" if is_warm else dropped or "not in the window"] += 1
        if is_warm and end is not None:
            warm_up.append((start, end))
    method, confidence = rows[0][5:] if rows else (None, None)
    # Without steps used, all numbers are about the whole trace, warm-up included.
    return Base(periods, dict(reasons), warm_up if periods else [], method, confidence)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Steps left out for one reason."""

    reason: str
    steps: int


@dataclass(frozen=True, slots=True)
class BaseSummary:
    """The base in numbers."""

    steps_marked: int
    steps_used: int
    left_out: list[LeftOut]
    step_ns: float | None  # mean of the steps used
    gpu_step_ns: float | None  # mean time in which the GPU works


def summarized(base: Base, gpu_step_ns: float | None) -> BaseSummary:
    """Return the base in numbers."""
    left_out = [LeftOut(reason, steps) for reason, steps in base.left_out.items()]
    return BaseSummary(base.steps_marked, len(base.periods), left_out, base.mean_ns, gpu_step_ns)


def counted(base: Base, noun: str = "steps") -> str:
    """Say how many steps are used, and why others are not."""
    used = len(base.periods)
    if not base.left_out:
        return f"{used or 'no'} {noun if used != 1 else noun.removesuffix('s')}"
    reasons = ", ".join(f"{steps} {_REASONS.get(why, why)}" for why, steps in base.left_out.items())
    return f"{used} of {base.steps_marked} {noun} ({reasons})"


def percentile(values: list[int], percent: int) -> float | None:
    """Return a percentile, None without values."""
    if not values:
        return None
    if len(values) == 1:
        return float(values[0])
    return quantiles(values, n=100, method="inclusive")[percent - 1]
