"""Communication and compute at the same time: for how long, and what this costs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tbd_trace.why.events import Ops


class OverlapCost(NamedTuple):
    """A row of overlap_cost with a slowdown: duration of kernels under communication ÷ alone."""

    slowdown: float
    cost_ns: float  # of a step
    places: int
    matched_pct: float

    @property
    def sentence(self) -> str:
        """Say what the overlap costs, and how it is known."""
        return (
            f"compute kernels take {self.slowdown:.2f} times as long while the GPU communicates: "
            f"{self.cost_ns / 1e6:.3g} ms a step (from {self.places} places of the step that run "
            f"with and without communication, {self.matched_pct:.0f} % of the overlapped time)"
        )


def is_communication(cause: str) -> bool:
    """Return True for the cause of communication kernels."""
    return cause == "communication"


def is_compute(cause: str) -> bool:
    """Return True for causes of compute kernels."""
    return cause.startswith("gpu_")


def time_beside(
    ops: Ops, device_id: int, is_own: Callable[[str], bool], is_other: Callable[[str], bool]
) -> NDArray[np.int64]:
    """Return the time in ns of each operation of some causes beside those of other causes.

    It is 0 for operations of all other causes and devices. Source: union of the other operations;
    the operations are in order of start.
    """
    start, end = np.asarray(ops.start), np.asarray(ops.end)
    here = np.equal(ops.device, device_id)
    own, other = (
        here & np.array([is_wanted(cause) for cause in ops.cause], dtype=bool)
        for is_wanted in (is_own, is_other)
    )
    elapsed = elapsed_in(start[other], end[other])
    beside: NDArray[np.int64] = np.where(own, elapsed(end) - elapsed(start), 0)
    return beside


def elapsed_in(
    start: NDArray[Any], end: NDArray[Any]
) -> Callable[[NDArray[Any]], NDArray[np.int64]]:
    """Return a function of times in ns: how much of some intervals lies before each of them.

    Intervals that overlap count once; they are in order of start.
    """
    begun, ended = _union(start, end)
    before = np.concatenate([[0], np.cumsum(ended - begun)])

    def elapsed(at: NDArray[Any]) -> NDArray[np.int64]:
        if not len(begun):
            return np.zeros(len(at), dtype=np.int64)
        last = np.searchsorted(begun, at, side="right") - 1
        part = np.minimum(at, ended[last]) - begun[last]
        return np.where(last < 0, 0, before[last] + part)

    return elapsed


def _union(start: NDArray[Any], end: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    # Starts and ends of the union of intervals, which are in order of start.
    if not len(start):
        return start, end
    latest = np.maximum.accumulate(end)
    begins = np.concatenate([[True], start[1:] > latest[:-1]])
    ends = np.concatenate([begins[1:], [True]])
    return start[begins], latest[ends]
