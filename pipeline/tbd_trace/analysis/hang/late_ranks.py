"""Rules 3 and 4: ranks that are behind in a collective, ahead, or never called it."""

from __future__ import annotations

from tbd_trace.analysis.hang.job import Call, Job, joined, listed
from tbd_trace.analysis.hang.mismatch import where_lines_part
from tbd_trace.analysis.hang.verdict import Verdict, named, time_of, unknown, verb
from tbd_trace.analysis.hang.waits import Waits, open_calls

# Collectives by which a rank must be behind: one can be a race between the dumps.
_LEAST_GAP = 2


def behind(job: Job, waits: Waits) -> Verdict | None:
    """Return the verdict on ranks that did not finish what other ranks of the group finished."""
    late = ranks_behind(job)
    if job.silent or not late:
        return None
    first = min(late.values(), key=time_of)
    return Verdict(
        "behind",
        f"{listed(late)} did not finish collectives that other ranks of the group finished, from "
        f"{named(job, first)} on",
        f"check GPU and driver of {listed(late)}: `nvidia-smi -q`, Xid errors in `dmesg`",
        frozenset(late),
        first,
        first.place,
        tuple(sorted(waits.standing.keys() - late)),
    )


def ranks_behind(job: Job) -> dict[int, Call]:
    """Return the ranks that are behind by two collectives, each with the first of them."""
    late: dict[int, Call] = {}
    for rank in job.ranks:
        groups: set[str] = set()
        for call in open_calls(job, rank):
            if call.is_point_to_point or call.group in groups:
                continue
            groups.add(call.group)
            if gap(job, call) >= _LEAST_GAP:
                late.setdefault(rank, call)
    return late


def gap(job: Job, call: Call) -> int:
    """Return the collectives from a call on that others finished; 0 if one did not call it."""
    members = job.members.get(call.group, {}).values()
    if not all(one.entered is not None and one.entered >= call.sequence for one in members):
        return 0
    done = [one.completed for one in members if one.completed is not None]
    return max(done, default=0) - (call.sequence - 1)


def ahead(job: Job, waits: Waits) -> Verdict | None:
    """Return the verdict on few ranks in a collective that the others, all idle, never called."""
    culprits, idle = frozenset(waits.standing), waits.ends
    is_one = len({(call.group, call.sequence) for call in waits.standing.values()}) == 1
    if job.silent or not is_one or len(culprits) >= len(idle):
        return None
    if len(culprits) + len(idle) < len(job.ranks):
        return None
    call = waits.standing[min(culprits)]
    return Verdict(
        "ahead",
        f"{listed(culprits)} called {named(job, call)}; {listed(idle)} never did, and "
        f"{verb(idle, 'waits', 'wait')} in no collective",
        f"find the call that only {listed(culprits)} {verb(culprits, 'makes', 'make')}: one "
        "collective, or one step, more than the others",
        culprits,
        call,
        where_lines_part(job, call, culprits) or call.place,
        tuple(sorted(culprits)),
    )


def never_called(job: Job, waits: Waits) -> Verdict | None:
    """Return the verdict on ranks that others wait for and that wait in no collective."""
    idle = {rank for rank, known in job.ranks.items() if known.dump in ("records", "no records")}
    culprits = (waits.ends & idle) - waits.standing.keys()
    if not culprits and not job.silent:
        return _unseen_member(job, waits)
    if not culprits:
        return None
    hidden = {rank for rank in culprits if job.ranks[rank].unrecorded}
    if hidden:
        return unknown(
            waits,
            f"{listed(hidden)} may be in a send or receive, which gloo does not record",
            "run with NCCL, which records sends and receives, or log them",
        )
    awaited = waits.first_call(culprits)
    assert awaited is not None  # others wait for them
    # A rank that is awaited itself can wait for an unknown member of its group.
    between = [
        call
        for call in calls_of_known_members(job, waits)
        if call.rank in waits.absent[awaited.rank]
    ]
    call = min(between, key=time_of, default=awaited)
    return Verdict(
        "never called",
        f"{listed(culprits)} never called {named(job, call)}, and "
        f"{verb(culprits, 'waits', 'wait')} in no other collective; {_last_place(job, culprits)}",
        f"look at the code of {listed(culprits)} after the last collective; `py-spy dump --pid "
        "PID` shows the line",
        frozenset(culprits),
        call,
        call.place,
        tuple(sorted({*waits.waiting_for(culprits), *(one.rank for one in between)})),
    )


def _unseen_member(job: Job, waits: Waits) -> Verdict | None:
    # gloo records no members of groups: a member that never called in one is unknown. If all known
    # ones wait in a call of the group, the missing one is another rank.
    calls = calls_of_known_members(job, waits)
    if not calls:
        return None
    call = min(calls, key=time_of)
    others = job.ranks.keys() - set(job.ranks_of(call.group))
    culprits = others if len(others) == 1 else others - waits.standing.keys()
    if len(culprits) != 1:
        return None
    own = waits.standing.get(min(culprits))
    parted = None if own is None else where_lines_part(job, own, culprits)
    return Verdict(
        "never called",
        f"all ranks that are known to use it wait in {named(job, call)}; only {listed(culprits)} "
        f"can be the missing one; {_last_place(job, set(culprits))}",
        f"look for the call that {listed(culprits)} left out or added",
        frozenset(culprits),
        call,
        parted or call.place,
        tuple(sorted(waits.standing.keys() - culprits)),
    )


def calls_of_known_members(job: Job, waits: Waits) -> list[Call]:
    """Return calls that all known members of a group made and that end for none, with gloo.

    gloo records no members: a rank that never called in the group is missing.
    """
    return [
        call
        for rank, call in waits.standing.items()
        if job.uses_gloo
        and not waits.absent[rank]
        and not call.is_point_to_point
        and gap(job, call) == 0
    ]


def _last_place(job: Job, ranks: set[int]) -> str:
    last = {job.by_rank[rank][-1] for rank in ranks if job.by_rank[rank]}
    texts = sorted({f"{call.operation} at {call.place}" for call in last if call.place})
    return f"the last call was {joined(texts)}" if texts else "its line is unknown without stacks"
