"""Write memory.jsonl from buffers with lifetimes on a schedule of operations."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

ASSUMPTIONS = (
    "operations run in the order of the graph; a tensor is freed after its last reader",
    "no operation reuses the buffer of an input, and none needs workspace",
)


@dataclass(slots=True)
class Buffer:
    """A buffer; ``born`` and ``last`` are positions of its first and last use in the schedule."""

    kind: str  # class in memory.jsonl
    shape: tuple[int, ...]
    dtype: str
    item_bytes: int
    phase: str
    born: int = 0
    last: int = 0
    layer: str | None = None
    operator: str | None = None

    @property
    def size(self) -> int:
        """Return the size in bytes."""
        return prod(self.shape) * self.item_bytes

    def fields(self) -> dict[str, Any]:
        """Return the fields that describe it in memory.jsonl."""
        return {
            "class": self.kind,
            "layer": self.layer,
            "phase": self.phase,
            "operator": self.operator,
            "shape": "x".join(map(str, self.shape)),
            "dtype": self.dtype,
        }


@dataclass(slots=True)
class Recording:
    """Events of a training: buffers that stay, and the schedules of an iteration in order."""

    framework: str
    allocator: str
    device_type: str
    batch_size: int
    assumptions: list[str]
    permanent: list[Buffer] = field(default_factory=list)
    schedules: list[list[Buffer]] = field(default_factory=list)

    def write(self, path: Path, iterations: int) -> None:
        """Write memory.jsonl atomically."""
        beside = path.with_name(f".{path.name}.{os.getpid()}")
        with beside.open("w", encoding="utf-8") as file:
            for line in (self._header(), *self._events(iterations)):
                file.write(json.dumps(line) + "\n")
        beside.replace(path)

    def _header(self) -> Mapping[str, Any]:
        return {
            "format": "tbd-trace memory",
            "version": 1,
            "framework": self.framework,
            "allocator": self.allocator,
            "device": 0,
            "device_type": self.device_type,
            "time_unit": "ns",
            "live_before_bytes": 0,
            "batch_size": self.batch_size,
            "estimated": True,
            "assumptions": [*ASSUMPTIONS, *self.assumptions],
        }

    def _events(self, iterations: int) -> Iterator[Mapping[str, Any]]:
        # Addresses are numbers of allocations: unique, although estimates have no addresses.
        address = 0
        for buffer in self.permanent:
            yield _event("alloc", address, buffer, None) | buffer.fields()
            address += 1
        for iteration in range(iterations):
            for schedule in self.schedules:
                for action, number in _actions(schedule):
                    event = _event(action, address + number, schedule[number], iteration)
                    yield event | schedule[number].fields() if action == "alloc" else event
                address += len(schedule)


def _event(action: str, address: int, buffer: Buffer, iteration: int | None) -> dict[str, Any]:
    return {
        "t": None,
        "action": action,
        "address": address,
        "bytes": buffer.size,
        "stream": 0,
        "iteration": iteration,
    }


def _actions(schedule: list[Buffer]) -> Iterable[tuple[str, int]]:
    born, died = defaultdict(list), defaultdict(list)
    for number, buffer in enumerate(schedule):
        born[buffer.born].append(number)
        died[max(buffer.last, buffer.born)].append(number)
    for position in sorted({*born, *died}):
        # An operation holds its inputs while it writes its outputs: allocations precede frees.
        yield from (("alloc", number) for number in born[position])
        yield from (("free", number) for number in died[position])
