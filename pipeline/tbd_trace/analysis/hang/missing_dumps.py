"""Rule 2: ranks without a dump, or with an empty one."""

from __future__ import annotations

from collections import Counter

from tbd_trace.analysis.hang.job import Call, Job, listed
from tbd_trace.analysis.hang.late_ranks import ranks_behind
from tbd_trace.analysis.hang.successions import unusual_ranks
from tbd_trace.analysis.hang.verdict import Verdict, named, unknown, verb
from tbd_trace.analysis.hang.waits import Waits


def missing_dumps(job: Job, waits: Waits) -> Verdict | None:
    """Return the verdict on ranks without records, None if no rank waits for them.

    A dump can also be lost: no rank is named if one with a dump is late, too. An empty file shows
    that the rank was alive: later rules then name the one that is late.
    """
    silent = job.silent
    if any(not call.is_retired for call in waits.standing.values()):
        silent &= {rank for gone in waits.absent.values() for rank in gone}
    if not silent:
        return None
    empty = {rank for rank in silent if job.ranks[rank].dump != "missing"}
    late = (waits.ends - job.silent) | ranks_behind(job).keys()
    if late and empty == silent:
        return None
    if late:
        return unknown(
            waits,
            f"{listed(silent - empty)} wrote no dump, and {listed(late)} with a dump "
            f"{verb(late, 'is', 'are')} late, too",
        )
    if not empty and (other := _other_cause(job, waits)):
        return unknown(waits, f"{listed(silent)} wrote no dump, and {other}")
    if not empty and len(silent) > 1 and job.uses_gloo:
        return unknown(
            waits,
            f"{listed(silent)} wrote no dump; with gloo, calls that differ also end processes "
            "that receive more than they expect",
            f"look at the logs and exit codes of {listed(silent)}: which ended first?",
        )
    return _verdict(job, waits, frozenset(empty or silent), "an empty dump" if empty else "no dump")


def _other_cause(job: Job, waits: Waits) -> str | None:
    if waits.has_cycle(job.silent):
        return "ranks with a dump wait for each other"
    if len(job.ranks) - len(job.silent) < 2:
        return "only one rank did"
    standing = {(call.group, call.sequence): call for call in waits.standing.values()}
    for call in standing.values():
        calls = job.collectives.get(call.group, {}).get(call.sequence, {})
        if unusual := unusual_ranks(job, calls):
            return f"{listed(unusual)} called {named(job, call)} from another line than before"
    return None


def _verdict(job: Job, waits: Waits, culprits: frozenset[int], what: str) -> Verdict:
    waiting = waits.waiting_for(culprits)
    others = "all calls of the other ranks have ended or failed"
    if waiting:
        others = f"{listed(waiting)} {verb(waiting, 'waits', 'wait')} for {listed(culprits)}"
    call = waits.first_call(culprits) or _last_call(job)
    return Verdict(
        "no dump",
        f"{listed(culprits)} wrote {what}; {others}",
        f"look at the log and exit code of {listed(culprits)}: killed, out of memory, or a call "
        "that holds the GIL",
        culprits,
        call,
        call.place if call else None,
        tuple(waiting),
    )


def _last_call(job: Job) -> Call | None:
    # The last call of most ranks.
    last = [calls[-1] for calls in job.by_rank.values() if calls]
    if not last:
        return None
    counts = Counter((call.group, call.sequence) for call in last)
    most = max(counts, key=lambda key: (counts[key], key[1]))
    return next(call for call in last if (call.group, call.sequence) == most)


def ranks_beyond(job: Job, waits: Waits) -> Verdict | None:
    """Return the verdict if all ranks with a dump called a collective that cannot end.

    gloo records no ranks of process groups, so that the number of ranks can be unknown.
    """
    last = [waits.standing.get(rank, calls[-1]) for rank, calls in job.by_rank.items() if calls]
    is_one = len({(call.group, call.sequence) for call in last}) == 1
    if job.silent or job.world_size is not None or not is_one or not waits.standing:
        return None
    if job.descriptions.get(last[0].group) != "default_pg":
        return None
    rank = max(job.ranks) + 1
    return Verdict(
        "no dump",
        f"all ranks with a dump called {named(job, last[0])} and some wait in it: rank {rank}, or "
        "a higher one, wrote no dump",
        f"look at the log and exit code of rank {rank}; state --world-size if you know it",
        frozenset({rank}),
        last[0],
        last[0].place,
        tuple(sorted(waits.standing)),
    )
