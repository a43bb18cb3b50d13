"""Rule 5: ranks that wait for each other; and ranks that cannot finish a call all ranks made."""

from __future__ import annotations

from collections import defaultdict

from tbd_trace.analysis.hang.job import Job, Place, joined, listed
from tbd_trace.analysis.hang.late_ranks import calls_of_known_members, gap
from tbd_trace.analysis.hang.mismatch import where_lines_part
from tbd_trace.analysis.hang.successions import follows, unusual_ranks
from tbd_trace.analysis.hang.verdict import Verdict, named
from tbd_trace.analysis.hang.waits import Waits


def call_order(job: Job, waits: Waits) -> Verdict | None:
    """Return the verdict on ranks that call collectives of several groups in another order.

    The culprits are those whose call never followed their previous one before, else the few that
    are absent from the call of most.
    """
    waiting_ranks = {rank for rank, gone in waits.absent.items() if gone}
    unseen = {call.rank for call in calls_of_known_members(job, waits)}
    if job.silent or not waiting_ranks or waiting_ranks | unseen != waits.standing.keys():
        return None
    calls = waits.standing
    culprits = frozenset(unusual_ranks(job, calls) or _few_absent(waits))
    texts = [f"{listed([rank])} in {named(job, call)}" for rank, call in sorted(calls.items())]
    evidence = f"the ranks wait for each other: {joined(texts)}"
    action = "call the collectives of different groups in the same order on all ranks"
    if not culprits:
        return Verdict("order", evidence, action, waiting=tuple(sorted(calls)))
    own, usual = calls[min(culprits)], waits.first_call(culprits)
    assert usual is not None  # each rank waits for another one
    is_skipped = follows(job, usual, own)
    if is_skipped is None:  # without earlier steps, the order of the lines decides
        is_skipped = _is_below(own.place, usual.place)
    call = usual if is_skipped else own
    parted = None if is_skipped else where_lines_part(job, own, culprits)
    waiting = tuple(rank for rank in sorted(calls) if rank not in culprits)
    return Verdict("order", evidence, action, culprits, call, parted or call.place, waiting)


def _few_absent(waits: Waits) -> set[int]:
    by_call: dict[tuple[str, int], set[int]] = defaultdict(set)
    for rank, call in waits.standing.items():
        by_call[call.group, call.sequence].add(rank)
    most = max(by_call.values(), key=len)
    absent = {gone for rank in most for gone in waits.absent[rank]}
    return absent if len(absent) < len(most) else set()


def _is_below(place: Place | None, other: Place | None) -> bool:
    if place is None or other is None or place.file != other.file:
        return False
    return (place.line or 0) > (other.line or 0)


def unfinished(job: Job, waits: Waits) -> Verdict | None:
    """Return the verdict on a rank that cannot finish a call that all ranks of the group made.

    Root and reduction are not recorded. If they differ, the line of the call can be another one;
    or others wait in the next one for a single rank.
    """
    stuck = {rank for rank, gone in waits.absent.items() if not gone}
    if job.silent or not stuck:
        return None
    call = waits.standing[min(stuck)]
    if call.is_point_to_point:
        return None
    calls = job.collectives[call.group][call.sequence]
    unusual = unusual_ranks(job, calls)
    alone = {rank for rank in stuck & waits.ends if gap(job, waits.standing[rank]) > 0}
    culprits = unusual or alone
    if len(culprits) != 1:
        return None
    (culprit,) = culprits
    own = calls[culprit] if unusual else waits.standing[culprit]
    return Verdict(
        "unfinished",
        f"all ranks called {named(job, own)}, and it does not end; {listed(culprits)} called it "
        "from another line than before"
        if unusual
        else f"{listed(culprits)} did not finish {named(job, own)}, which others finished",
        "check that all ranks name the same root and reduction: they are not recorded",
        frozenset(culprits),
        own,
        own.place,
        tuple(sorted(waits.standing.keys() - culprits)),
    )
