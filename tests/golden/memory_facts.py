"""The memory sample as its generator knows it: what the worked answers about memory start from.

Nothing of tbd-trace is used here. The log states the true classes. The snapshot states none, so its
classes are the true ones where call stacks and sizes can show them (`_shown_class`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

from make_memory_sample import LOG, SNAPSHOT
from sample_memory.frames import Stack
from sample_memory.training import Allocation, Event, Training

MEMORY_CAPTURE = Path(__file__).resolve().parents[2] / "data" / "samples" / "synthetic_memory"
EVENT_NS = 10_000
DEVICE = 0

Row: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Life:
    """An allocation in one file; `born` and `died` are positions among the events of the file."""

    bytes: int
    born: int | None
    died: int | None
    kind: str
    layer: str | None
    operator: str | None
    phase: str | None
    iteration: int | None
    stack: Stack
    evidence: str

    @property
    def allocated(self) -> int:
        return max((self.bytes + 511) // 512, 1) * 512

    def live_after(self, position: int) -> bool:
        born = -1 if self.born is None else self.born
        return born <= position and (self.died is None or self.died > position)


@dataclass(frozen=True)
class Trace:
    """One of the two files.

    Attributes:
        changes: positions of the events that change what is live or held.
        held: bytes of the segments at each of them.
        ends: position of the last event of each iteration.
    """

    name: str
    lives: list[Life]
    changes: list[int]
    held: list[int]
    ends: list[int]

    @property
    def trace_id(self) -> str:
        def sha256(name: str) -> str:
            return hashlib.sha256((MEMORY_CAPTURE / name).read_bytes()).hexdigest()

        return hashlib.sha256((sha256(self.name) + sha256("capture.json")).encode()).hexdigest()[
            :12
        ]

    @property
    def is_log(self) -> bool:
        return self.name == LOG

    def live(self, position: int) -> list[Life]:
        return [life for life in self.lives if life.live_after(position)]

    def total(self, position: int) -> int:
        return sum(life.bytes for life in self.live(position))

    @property
    def peak(self) -> int:
        """The position of the first of the highest totals."""
        return max(self.changes, key=lambda position: (self.total(position), -position))

    def held_at(self, position: int) -> int:
        return self.held[self.changes.index(position)]


@cache
def training() -> Training:
    return Training().run()


@cache
def traces() -> list[Trace]:
    return sorted([_log(), _snapshot()], key=lambda trace: trace.trace_id)


def _log() -> Trace:
    logged = [e for e in training().events if e.action in ("alloc", "free", "classify")]
    died = {id(e.allocation): i for i, e in enumerate(logged) if e.action == "free"}
    lives = [
        Life(
            made.bytes, i, died.get(id(made)), made.kind, made.layer,
            made.operator and f"aten::{made.operator}", made.phase, made.iteration, (), "collector",
        )
        for i, made in _allocated(logged)
    ]  # fmt: skip
    changes = [i for i, e in enumerate(logged) if e.action != "classify"]
    last = {e.iteration: i for i, e in enumerate(logged) if e.action != "classify"}
    ends = [position for iteration, position in last.items() if iteration is not None]
    return Trace(LOG, lives, changes, list(_held()), ends)


def _held() -> Iterator[int]:
    # After each allocation and release, in segments of the generator's own allocator.
    reserved = 0
    for event in training().events:
        if event.segment:
            reserved += event.segment.size
        elif event.action in ("alloc", "free"):
            yield reserved


def _allocated(events: list[Event]) -> Iterator[tuple[int, Allocation]]:
    for i, event in enumerate(events):
        if event.action == "alloc" and event.allocation is not None:
            yield i, event.allocation


def _snapshot() -> Trace:
    first = training().starts[1]
    born: dict[int, int] = {}
    died: dict[int, int] = {}
    changes, held, ends = [], [], []
    reserved = sum(e.segment.size for e in training().events[:first] if e.segment)
    position = 0
    for event in training().events[first:]:
        if event.action == "classify":
            continue
        if event.segment:
            reserved += event.segment.size
        else:
            position += event.action == "free"  # the request before the completed release
            (born if event.action == "alloc" else died)[id(event.allocation)] = position
            if event.allocation is not None and event.allocation.kind == "optimizer_temporary":
                if len(ends) < event.iteration:  # type: ignore[operator]
                    ends.append(position)
                ends[-1] = position
        changes.append(position)
        held.append(reserved)
        position += 1
    gone = {id(e.allocation) for e in training().events[:first] if e.action == "free"}
    lives = [
        _shown(made, born.get(id(made)), died.get(id(made)))
        for _, made in _allocated(training().events)
        if id(made) not in gone
    ]
    return Trace(SNAPSHOT, lives, changes, held, ends)


def _shown(made: Allocation, born: int | None, died: int | None) -> Life:
    kind = _shown_class(made.kind, is_recorded=born is not None)
    evidence = "none" if kind == "unknown" else "stack"
    if born is None:  # its call stack was not recorded
        return Life(made.bytes, None, died, kind, None, None, None, None, (), evidence)
    in_module = made.phase in ("forward", "recompute")
    calls = [f.split("::")[2] for f, *_ in made.stack if f.startswith("at::_ops::")]
    return Life(
        made.bytes, born, died, kind,
        f"{made.layer_type}.forward" if in_module else None,
        calls[0].removesuffix("_Scalar"),
        "forward" if made.phase == "other" else made.phase,
        None, made.stack, evidence,
    )  # fmt: skip


def _shown_class(kind: str, *, is_recorded: bool) -> str:
    """Return the class that call stacks, lifetimes and sizes can show."""
    if is_recorded:
        # A tensor that the script makes and keeps looks like a feature map.
        return "feature_map" if kind == "unknown" else kind
    # Sizes of older memory are compared with those of weight gradients alone.
    return kind if kind in ("weight", "weight_gradient", "optimizer_state") else "unknown"
