"""The rules that name the rank that hangs a job, in order; without evidence none is named."""

from __future__ import annotations

from collections.abc import Callable

from tbd_trace.analysis.hang.call_order import call_order, unfinished
from tbd_trace.analysis.hang.differing_calls import differing_calls
from tbd_trace.analysis.hang.job import Job
from tbd_trace.analysis.hang.late_ranks import ahead, behind, never_called
from tbd_trace.analysis.hang.missing_dumps import missing_dumps, ranks_beyond
from tbd_trace.analysis.hang.verdict import Verdict, unknown
from tbd_trace.analysis.hang.waits import Waits, find_waits


def _healthy(job: Job, waits: Waits) -> Verdict | None:
    if job.silent or waits.standing:
        return None
    return Verdict(
        "healthy",
        "no rank waits longer than usual for another one",
        "if the job hangs, dump again after a minute",
    )


_RULES: tuple[Callable[[Job, Waits], Verdict | None], ...] = (
    differing_calls,
    _healthy,
    missing_dumps,
    behind,
    ahead,
    never_called,
    call_order,
    unfinished,
    ranks_beyond,
)


def diagnose(job: Job) -> Verdict:
    """Apply the rules to a job; the first that has evidence decides."""
    waits = find_waits(job)
    verdicts = (rule(job, waits) for rule in _RULES)
    return next(filter(None, verdicts), None) or unknown(
        waits, "the dumps do not show which rank is late"
    )
