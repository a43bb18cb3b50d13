"""Find the first collective that ranks call differently, and the ranks that differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from tbd_trace.analysis.hang.job import Call, Job, Place
from tbd_trace.analysis.hang.successions import follows, step_of, unusual_ranks


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Calls of one collective that differ."""

    culprits: frozenset[int]  # the minority, empty if it is unknown
    calls: Mapping[int, Call]  # of each rank, by rank
    usual: Call  # a call of the majority
    kind: str  # different, skipped or extra
    place: Place | None  # line of the fault


def find_mismatch(job: Job) -> Mismatch | None:
    """Return the first mismatch that was not followed by an agreement of all ranks."""
    first = [
        calls for group in job.collectives if (calls := _first_of_group(job, group)) is not None
    ]
    if not first:
        return None
    calls = min(first, key=_time)
    culprits = _minority(job, calls)
    if not culprits:
        usual = calls[min(calls)]
        return Mismatch(frozenset(), calls, usual, "different", None)
    calls = _since_lines_part(job, calls, culprits)
    usual = calls[min(calls.keys() - culprits)]
    own = calls[min(culprits)]
    kind = _kind(job, own, usual)
    place = usual.place if kind == "skipped" else own.place
    return Mismatch(culprits, calls, usual, kind, place or usual.place)


def _first_of_group(job: Job, group: str) -> dict[int, Call] | None:
    # Later agreement of all ranks shows that a difference was harmless.
    first = None
    sequences = job.collectives[group]
    recorded = {rank for rank in job.ranks_of(group) if job.ranks[rank].has_records}
    for sequence in sorted(sequences):
        calls = sequences[sequence]
        if len({call.signature for call in calls.values()}) > 1:
            first = first or calls
        elif calls.keys() == recorded and _all_agree(calls):
            first = None
    return first


def _all_agree(calls: Mapping[int, Call]) -> bool:
    return all(call.is_retired for call in calls.values()) and (
        len({call.place for call in calls.values()}) == 1
    )


def _time(calls: Mapping[int, Call]) -> int:
    return min((call.created_ns or 0) for call in calls.values())


def _minority(job: Job, calls: Mapping[int, Call]) -> frozenset[int]:
    counts = Counter(call.signature for call in calls.values()).most_common()
    (usual, most), (_, second) = counts[:2]
    if most == second:
        unusual = unusual_ranks(job, calls) or _larger_than_of_dead(job, calls)
        return frozenset(unusual)
    return frozenset(rank for rank, call in calls.items() if call.signature != usual)


def _larger_than_of_dead(job: Job, calls: Mapping[int, Call]) -> set[int]:
    # gloo ends a process that receives more than it expects: ranks that died of a mismatch called
    # the smaller one.
    sample = next(iter(calls.values()))
    silent = [rank for rank in job.ranks_of(sample.group) if not job.ranks[rank].has_records]
    sizes = {rank: call.bytes for rank, call in calls.items()}
    is_one = len({call.operation for call in calls.values()}) == 1
    if not silent or sample.backend != "gloo" or sample.is_rooted or not is_one:
        return set()
    known = [size for size in sizes.values() if size is not None]
    if len(known) < len(sizes) or len(set(known)) < 2:
        return set()
    return {rank for rank, size in sizes.items() if size == max(known)}


def where_lines_part(job: Job, call: Call, ranks: Collection[int]) -> Place | None:
    """Return the line at which some ranks left the lines of the others, None if they did not.

    Args:
        call: a call of one of the ranks, which the others have not made.
    """
    last = job.collectives[call.group].get(call.sequence - 1, {})
    if not last.keys() - set(ranks) or call.rank not in last:
        return None
    first = _since_lines_part(job, last, frozenset(ranks))
    places = {one.place for rank, one in first.items() if rank not in ranks}
    return None if first[call.rank].place in places else first[call.rank].place


def _since_lines_part(
    job: Job, calls: dict[int, Call], culprits: frozenset[int]
) -> dict[int, Call]:
    """Return the earliest calls since which the culprits are at other lines than the others.

    Equal calls from other lines are a rank that left out, or added, a call before.
    """
    sample = next(iter(calls.values()))
    sequences = job.collectives[sample.group]
    first = calls
    for sequence in range(sample.sequence - 1, min(sequences) - 1, -1):
        earlier = sequences.get(sequence, {})
        if not earlier.keys() >= calls.keys():
            return calls
        own = {earlier[rank].place for rank in culprits}
        usual = {call.place for rank, call in earlier.items() if rank not in culprits}
        if None in own | usual or len(usual) != 1:
            return calls
        if own == usual:
            return first
        first = earlier
    return calls  # they have never been at the same lines


def _kind(job: Job, own: Call, usual: Call) -> str:
    following = job.collectives[usual.group].get(usual.sequence + 1, {})
    after_usual, after_own = following.get(usual.rank), following.get(own.rank)
    is_next = after_usual is not None and step_of(after_usual) == step_of(own)
    if is_next or follows(job, usual, own):
        return "skipped"
    is_besides = after_own is not None and step_of(after_own) == step_of(usual)
    return "extra" if is_besides else "different"
