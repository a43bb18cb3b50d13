"""The calls of all ranks of a job, as the rules read them."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

# Bytes of an element by name of the type.
_BYTES = {
    **dict.fromkeys(("Double", "Long", "ComplexFloat"), 8),
    **dict.fromkeys(("Float", "Int"), 4),
    **dict.fromkeys(("Half", "BFloat16", "Short"), 2),
    **dict.fromkeys(("Byte", "Char", "Bool"), 1),
}
# Operations that a rank can end before others call them.
_ROOTED = ("broadcast", "reduce", "gather", "scatter", "_broadcast_oop", "_reduce_oop")


@dataclass(frozen=True, slots=True)
class Place:
    """A line of the program."""

    file: str
    line: int | None
    function: str | None = None

    def __str__(self) -> str:
        return self.file if self.line is None else f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Call:
    """A collective of a process group on a rank, or a send or receive."""

    rank: int
    group: str
    sequence: int  # number in the group, the same on all ranks
    position: int  # place among the operations of the dump
    operation: str
    signature: str  # what all ranks must pass alike
    is_retired: bool = False  # True if it has ended
    created_ns: int | None = None  # UTC
    is_point_to_point: bool = False
    peer: int | None = None  # number in the group
    shapes: str | None = None
    dtypes: str | None = None
    backend: str | None = None
    place: Place | None = None  # None without stacks

    @property
    def bytes(self) -> int | None:
        """Bytes of the tensors, None if they are unknown."""
        try:
            shapes, dtypes = json.loads(self.shapes or ""), json.loads(self.dtypes or "")
            sizes = [math.prod(shape) for shape in shapes]
            return int(sum(n * _BYTES[kind] for n, kind in zip(sizes, dtypes, strict=True)))
        except (ValueError, TypeError, KeyError):
            return None

    @property
    def is_rooted(self) -> bool:
        """True if a rank can end it before others call it."""
        return self.operation in _ROOTED


@dataclass(frozen=True, slots=True)
class Member:
    """Progress of a rank in a process group."""

    entered: int | None  # last collective that it called, 0 before the first; None: unknown
    completed: int | None  # last one before the first that has not ended; None: unknown


@dataclass(frozen=True, slots=True)
class Rank:
    """The dump of a rank."""

    dump: str = "records"  # records, no records, empty file or missing
    written_ns: int | None = None  # UTC, None if unknown
    unrecorded: int = 0  # operations that the recorder left out

    @property
    def has_records(self) -> bool:
        return self.dump == "records"


@dataclass(frozen=True)
class Job:
    """All ranks of a job."""

    name: str
    ranks: Mapping[int, Rank]
    calls: tuple[Call, ...]
    members: Mapping[str, Mapping[int, Member]]  # by group and rank
    world_size: int | None = None  # None if only file names give the number of ranks
    descriptions: Mapping[str, str] = field(default_factory=dict)  # of groups, by name

    @cached_property
    def by_rank(self) -> dict[int, list[Call]]:
        """Calls of each rank, in order."""
        calls: dict[int, list[Call]] = {rank: [] for rank in self.ranks}
        for call in sorted(self.calls, key=lambda call: call.position):
            calls[call.rank].append(call)
        return calls

    @cached_property
    def collectives(self) -> dict[str, dict[int, dict[int, Call]]]:
        """Collectives by group, sequence and rank; without sends and receives."""
        found: dict[str, dict[int, dict[int, Call]]] = defaultdict(lambda: defaultdict(dict))
        for call in self.calls:
            if not call.is_point_to_point:
                found[call.group][call.sequence][call.rank] = call
        return found

    @property
    def silent(self) -> set[int]:
        """Ranks without records: no dump, or an empty one."""
        return {rank for rank, known in self.ranks.items() if not known.has_records}

    @property
    def uses_gloo(self) -> bool:
        return any(call.backend == "gloo" for call in self.calls)

    def ranks_of(self, group: str) -> list[int]:
        """Return the known ranks of a group, sorted."""
        return sorted(self.members.get(group, {}))

    def entered(self, group: str, rank: int) -> int | None:
        """Return the last collective of a group that a rank called, None if unknown."""
        member = self.members.get(group, {}).get(rank)
        return None if member is None else member.entered

    def title(self, group: str) -> str:
        """Name a group with its description."""
        description = self.descriptions.get(group)
        return f"group {group} ({description})" if description else f"group {group}"


def listed(ranks: Iterable[int]) -> str:
    """Name ranks: `rank 3`, `ranks 0 and 2`, `ranks 0-3 and 5`."""
    known = sorted(set(ranks))
    if len(known) == 1:
        return f"rank {known[0]}"
    runs: list[list[int]] = []
    for rank in known:
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    parts: list[str] = []
    for run in runs:
        parts += [f"{run[0]}-{run[-1]}"] if len(run) > 2 else map(str, run)
    return f"ranks {joined(parts)}"


def joined(parts: list[str]) -> str:
    """Join words: `a`, `a and b`, `a, b and c`."""
    return " and ".join(filter(None, [", ".join(parts[:-1]), *parts[-1:]]))
