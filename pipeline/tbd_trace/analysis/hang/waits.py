"""Who waits for whom: the call in which each rank stands, and the ranks that are absent from it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from itertools import pairwise

from tbd_trace.analysis.hang.job import Call, Job

# Shorter waits are those of a running job that was recorded in the middle of a step.
SHORTEST_WAIT_NS = 500_000_000
# A wait is usual if earlier calls of the line took half as long.
_USUAL = 2


@dataclass(slots=True)
class Waits:
    """The graph of waits: from each rank to those absent from the call in which it stands."""

    standing: dict[int, Call] = field(default_factory=dict)  # by rank
    absent: dict[int, frozenset[int]] = field(default_factory=dict)  # by waiting rank

    def waiting_for(self, ranks: Iterable[int]) -> list[int]:
        """Return the ranks that wait for some ranks, also through others, sorted."""
        reached = set(ranks)
        wanted = set(reached)
        while True:
            more = {rank for rank, gone in self.absent.items() if gone & reached} - reached
            if not more:
                return sorted(reached - wanted)
            reached |= more

    def first_call(self, ranks: Iterable[int]) -> Call | None:
        """Return the call from which some ranks are absent: the earliest that waits for no other.

        Sends and receives come last: they wait for the peer's collectives.
        """
        wanted = frozenset(ranks)
        calls = [call for rank, call in self.standing.items() if self.absent[rank] & wanted]

        def order(call: Call) -> tuple[bool, bool, tuple[int, int]]:
            return call.is_point_to_point, bool(self.absent[call.rank] - wanted), _time(call)

        return min(calls, key=order, default=None)

    def has_cycle(self, without: Collection[int] = ()) -> bool:
        """Return True if ranks wait for each other, also where others are left out."""
        left = {rank: set(gone).difference(without) for rank, gone in self.absent.items()}
        while free := {rank for rank, gone in left.items() if not gone & left.keys()}:
            left = {rank: gone for rank, gone in left.items() if rank not in free}
        return bool(left)

    @property
    def ends(self) -> set[int]:
        """Ranks for which others wait, and which wait for no rank."""
        awaited = {rank for gone in self.absent.values() for rank in gone}
        return {rank for rank in awaited if not self.absent.get(rank)}


def find_waits(job: Job) -> Waits:
    """Return the graph of waits that are longer than in a running job."""
    return _waits(job, rooted=False) or _waits(job, rooted=True) or Waits()


def _waits(job: Job, *, rooted: bool) -> Waits | None:
    waits = Waits()
    for rank in job.ranks:
        call = _standing(job, rank, rooted=rooted)
        if call is not None and not _is_usual(job, call):
            waits.standing[rank] = call
            waits.absent[rank] = _absent(job, call)
    return waits if waits.standing else None


def waited_ns(job: Job, call: Call) -> int | None:
    """Return the time from a call to the dump of its rank, None if it is unknown."""
    written = job.ranks[call.rank].written_ns
    if written is None or call.created_ns is None or written < call.created_ns:
        return None
    return written - call.created_ns


def open_calls(job: Job, rank: int) -> list[Call]:
    """Return the calls of a rank that have not ended, in order."""
    return [call for call in job.by_rank[rank] if not call.is_retired]


def _standing(job: Job, rank: int, *, rooted: bool) -> Call | None:
    # The first call that has not ended; or the last call if it cannot have ended well, because
    # others never made it: gloo also retires calls that fail. A rooted call can have ended well.
    first = next(iter(open_calls(job, rank)), None)
    if first is not None:
        return first
    last = next(reversed(job.by_rank[rank]), None)
    if last is None or last.is_point_to_point or (last.is_rooted and not rooted):
        return None
    return last if _never_entered(job, last) else None


def _absent(job: Job, call: Call) -> frozenset[int]:
    if call.is_point_to_point:
        return _absent_peer(job, call)
    silent = {
        rank
        for rank in job.ranks_of(call.group)
        if not job.ranks[rank].has_records and not call.is_retired
    }
    return frozenset(silent | _never_entered(job, call)) - {call.rank}


def _never_entered(job: Job, call: Call) -> set[int]:
    return {
        rank
        for rank in job.ranks_of(call.group)
        if job.ranks[rank].has_records
        and (entered := job.entered(call.group, rank)) is not None
        and entered < call.sequence
    }


def _absent_peer(job: Job, call: Call) -> frozenset[int]:
    ranks = job.ranks_of(call.group)
    if call.peer is None or call.peer >= len(ranks):
        return frozenset()
    peer = ranks[call.peer]
    own = ranks.index(call.rank)
    answers = any(
        other.is_point_to_point
        and other.group == call.group
        and other.peer == own
        and other.operation != call.operation
        for other in open_calls(job, peer)
    )
    return frozenset() if answers else frozenset({peer})


def _is_usual(job: Job, call: Call) -> bool:
    waited = waited_ns(job, call)
    if waited is None:
        return False
    if waited < SHORTEST_WAIT_NS:
        return True
    return waited < _USUAL * _longest_before(job, call)


def _longest_before(job: Job, call: Call) -> int:
    # Time from an earlier call of the same line to the next call of the rank.
    calls = [one for one in job.by_rank[call.rank] if one.created_ns is not None]
    return max(
        (
            (after.created_ns or 0) - (before.created_ns or 0)
            for before, after in pairwise(calls)
            if (before.group, before.place) == (call.group, call.place)
            and before.position < call.position
        ),
        default=0,
    )


def _time(call: Call) -> tuple[int, int]:
    return call.created_ns or 0, call.sequence
