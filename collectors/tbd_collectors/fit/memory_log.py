"""Read a memory log as allocations with lifetimes, and predict the log of another batch size."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

Change = tuple[int, int]  # number of the allocation, its bytes: negative for its end


@dataclass(frozen=True, slots=True)
class Allocation:
    """An allocation of a log."""

    kind: str  # class, the last one stated
    bytes: int
    layer: str | None
    phase: str
    iteration: int | None


@dataclass(frozen=True, slots=True)
class MemoryLog:
    """Allocations by number, and their begins and ends in order."""

    allocations: dict[int, Allocation]
    order: list[tuple[int, bool]]  # number, True for its begin
    assumptions: tuple[str, ...] = ()

    def changes(self) -> Iterator[Change]:
        """Yield the changes of live bytes in order."""
        for number, begins in self.order:
            size = self.allocations[number].bytes
            yield number, size if begins else -size

    def resized(self, size: Callable[[Allocation], int]) -> MemoryLog:
        """Return the log with other sizes."""
        changed = {n: replace(one, bytes=size(one)) for n, one in self.allocations.items()}
        return replace(self, allocations=changed)


def read_log(path: Path) -> MemoryLog:
    """Read memory.jsonl; see docs/reference/memory_log.md."""
    allocations: dict[int, Allocation] = {}
    order = []
    with path.open(encoding="utf-8") as file:
        header = json.loads(next(file))
        for event in map(json.loads, file):
            action, number = event["action"], event.get("address")
            if action == "alloc":
                allocations[number] = Allocation(
                    event["class"], event["bytes"], event.get("layer"), event["phase"],
                    event.get("iteration"),
                )  # fmt: skip
                order.append((number, True))
            elif action == "free":
                order.append((number, False))
            elif action == "classify":
                known = allocations[number]
                layer = event.get("layer") or known.layer
                allocations[number] = replace(known, kind=event["class"], layer=layer)
    return MemoryLog(allocations, order, tuple(header.get("assumptions", ())))


@dataclass(frozen=True, slots=True)
class BatchLine:
    """Logs of two batch sizes, whose sizes are on a line for each allocation."""

    first: MemoryLog
    second: MemoryLog
    batches: tuple[int, int]

    def is_straight(self) -> bool:
        """Return True if both logs have the same allocations in the same order."""
        return self.first.order == self.second.order and all(
            (one.kind, one.layer) == (other.kind, other.layer)
            for one, other in zip(
                self.first.allocations.values(), self.second.allocations.values(), strict=True
            )
        )

    def at(self, batch: int) -> MemoryLog:
        """Return the log predicted for a batch size."""
        low, high = self.batches
        changed = {}
        for number, one in self.first.allocations.items():
            growth = self.second.allocations[number].bytes - one.bytes
            size = one.bytes + round(growth * (batch - low) / (high - low))
            changed[number] = replace(one, bytes=max(0, size))
        return replace(self.first, allocations=changed)
