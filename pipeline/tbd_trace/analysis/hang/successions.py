"""Which call usually follows which: the steps of a training repeat the same calls."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from tbd_trace.analysis.hang.job import Call, Job, Place

_Step = tuple[str, str, Place | None]


def step_of(call: Call) -> _Step:
    """Return what repeats from step to step: group, signature and line of a call."""
    return call.group, call.signature, call.place


def unusual_ranks(job: Job, calls: Mapping[int, Call]) -> set[int]:
    """Return the ranks whose call never followed their previous call before.

    Args:
        calls: a call of each of some ranks, by rank.

    Returns:
        None of them if that is so of all.
    """
    seen = {
        (step_of(earlier), step_of(later))
        for rank, made in job.by_rank.items()
        for earlier, later in pairwise(made)
        if rank not in calls or later.position < calls[rank].position
    }
    unusual = set()
    for rank, call in calls.items():
        previous = _previous(job, call)
        if previous is None or (step_of(previous), step_of(call)) not in seen:
            unusual.add(rank)
    return unusual if len(unusual) < len(calls) else set()


def follows(job: Job, first: Call, second: Call) -> bool | None:
    """Return True if one call followed another one before, None if nothing did."""
    after = {
        step_of(later)
        for calls in job.by_rank.values()
        for earlier, later in pairwise(calls)
        if step_of(earlier) == step_of(first) and later != second
    }
    return step_of(second) in after if after else None


def _previous(job: Job, call: Call) -> Call | None:
    earlier = [one for one in job.by_rank[call.rank] if one.position < call.position]
    return earlier[-1] if earlier else None
