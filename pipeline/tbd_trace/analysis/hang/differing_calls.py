"""Rule 1: ranks call a collective with another operation, shape or type."""

from __future__ import annotations

from tbd_trace.analysis.hang.job import Job, joined, listed
from tbd_trace.analysis.hang.mismatch import Mismatch, find_mismatch
from tbd_trace.analysis.hang.verdict import Verdict, described
from tbd_trace.analysis.hang.waits import Waits


def differing_calls(job: Job, waits: Waits) -> Verdict | None:
    """Return the verdict on the first collective that ranks call differently, None without one.

    It precedes the rule on missing dumps, because gloo ends processes that receive more data than
    they expect.
    """
    mismatch = find_mismatch(job)
    if mismatch is None:
        return None
    if not mismatch.culprits:
        return _undecided(waits, mismatch)
    culprits, usual = mismatch.culprits, mismatch.usual
    others = mismatch.calls.keys() - culprits
    own = mismatch.calls[min(culprits)]
    did = {
        "skipped": f"left out {usual.operation}, and called {described(own)}",
        "extra": f"called {described(own)} besides",
        "different": f"called {described(own)}",
    }
    return Verdict(
        "mismatch",
        f"{listed(culprits)} {did[mismatch.kind]}; {listed(others)} called {described(usual)}",
        f"make {listed(culprits)} call {usual.operation} with the shapes and types of the others",
        culprits,
        usual,
        mismatch.place,
        tuple(sorted((others | waits.standing.keys()) - culprits)),
    )


def _undecided(waits: Waits, mismatch: Mismatch) -> Verdict:
    calls = sorted(mismatch.calls.items())
    return Verdict(
        "mismatch",
        "the calls differ, and as many ranks make each: "
        + joined([f"{listed([rank])} {described(call)}" for rank, call in calls]),
        "compare the lines: all ranks of a group make the same calls, in the same order",
        call=mismatch.usual,
        waiting=tuple(sorted(waits.standing)),
    )
