"""What a rule finds: which ranks hang the job, at which call, and why."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tbd_trace.analysis.hang.job import Call, Job, Place
from tbd_trace.analysis.hang.waits import Waits

_RECORD = "record the dumps of all ranks, with stacks: TORCH_FR_BUFFER_SIZE=2000, as pickle"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The finding of a rule."""

    # healthy, mismatch, no dump, behind, ahead, never called, order, unfinished or unknown
    rule: str
    evidence: str
    action: str
    ranks: frozenset[int] = frozenset()  # culprits, empty if they are unknown
    call: Call | None = None  # the collective
    place: Place | None = None  # line of the program
    waiting: tuple[int, ...] = ()  # ranks that wait, also through others


def unknown(waits: Waits, evidence: str, action: str = _RECORD) -> Verdict:
    """Return a verdict that names no rank, at the call that waits longest."""
    call = min(waits.standing.values(), key=time_of, default=None)
    return Verdict("unknown", evidence, action, call=call, waiting=tuple(sorted(waits.standing)))


def time_of(call: Call) -> tuple[int, int]:
    """Return the key that sorts calls by time."""
    return call.created_ns or 0, call.position


def named(job: Job, call: Call) -> str:
    """Name a collective: `all_reduce number 3 of group 0 (default_pg)`."""
    number = "" if call.is_point_to_point else f" number {call.sequence}"
    return f"{call.operation}{number} of {job.title(call.group)}"


def described(call: Call) -> str:
    """Return operation, shapes, types and line of a call."""
    details = " ".join(filter(None, [call.shapes, call.dtypes]))
    at = f" at {call.place}" if call.place else ""
    return f"{call.operation} {details}".rstrip() + at


def verb(ranks: Iterable[int], singular: str, plural: str) -> str:
    """Return the form of a verb for some ranks."""
    return singular if len(set(ranks)) == 1 else plural
