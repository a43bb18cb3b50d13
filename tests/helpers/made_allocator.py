"""A random history of an allocator, and its state at each event by direct simulation.

Segments are fixed, or one expandable segment whose pages are mapped and unmapped. Blocks lie where
the dice put them. The simulation keeps every byte range in lists, and knows nothing of SQL.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

from made_memory import block, entry, segment

MIB = 1 << 20
PAGE = 20 * MIB
_BASE = 1 << 40


@dataclass
class State:
    """What an allocator holds: ranges of addresses, and live blocks in them (address: size)."""

    ranges: list[tuple[int, int]]
    blocks: dict[int, int]

    @property
    def live(self) -> int:
        return sum(self.blocks.values())

    @property
    def reserved(self) -> int:
        return sum(end - start for start, end in self.ranges)

    def gaps(self) -> list[tuple[int, int]]:
        """Return the sizes of the free parts, each with the live bytes of its range."""
        found = []
        for start, end in self.ranges:
            inside = sorted(a for a in self.blocks if start <= a < end)
            at, live = start, sum(self.blocks[a] for a in inside)
            for address in inside:
                found.append((address - at, live))
                at = address + self.blocks[address]
            found.append((end - at, live))
        return [gap for gap in found if gap[0]]


@dataclass
class History:
    """Events of one device, and the state after each of them."""

    dice: Random
    expandable: bool
    device: int = 0
    events: list[dict[str, Any]] = field(default_factory=list)
    states: list[State] = field(default_factory=list)
    ranges: list[tuple[int, int]] = field(default_factory=list)
    blocks: dict[int, int] = field(default_factory=dict)

    def run(self, steps: int) -> None:
        """Do some random operations."""
        for _ in range(steps):
            self.dice.choice(
                (self._grow, self._allocate, self._allocate, self._free, self._shrink)
            )()

    def fail(self, asked: int, free: int | None) -> None:
        """Let a request fail."""
        more = {} if free is None else {"device_free": free}
        event = entry("oom", 0, asked, self._time(), **more)
        del event["addr"]
        self._add(event)

    def _time(self) -> int:
        return 1_000_000 + 10 * len(self.events)

    def _add(self, event: dict[str, Any]) -> None:
        self.events.append(event)
        self.states.append(State(self._joined(), dict(self.blocks)))

    def _joined(self) -> list[tuple[int, int]]:
        # Pages of an expandable segment that touch are one range.
        joined: list[tuple[int, int]] = []
        for start, end in sorted(self.ranges):
            if self.expandable and joined and joined[-1][1] == start:
                joined[-1] = (joined[-1][0], end)
            else:
                joined.append((start, end))
        return joined

    def _grow(self) -> None:
        taken = {start for start, _ in self.ranges}
        place = self.dice.choice([n for n in range(12) if _BASE + n * PAGE not in taken] or [12])
        start = _BASE + place * PAGE
        if start in taken:
            return
        self.ranges.append((start, start + PAGE))
        name = "segment_map" if self.expandable else "segment_alloc"
        self._add(entry(name, start, PAGE, self._time()))

    def _shrink(self) -> None:
        empty = [r for r in self.ranges if not any(r[0] < a + s and a < r[1]
            for a, s in self.blocks.items())]  # fmt: skip
        if empty:
            start, end = self.dice.choice(empty)
            self.ranges.remove((start, end))
            name = "segment_unmap" if self.expandable else "segment_free"
            self._add(entry(name, start, end - start, self._time()))

    def _allocate(self) -> None:
        size = 2 * self.dice.randrange(2, 5) * MIB
        for start, end in self.dice.sample(self._joined(), len(self._joined())):
            at = start + self.dice.randrange(0, 3) * 2 * MIB
            inside = [(a, a + s) for a, s in self.blocks.items()]
            if at + size <= end and all(at + size <= a or b <= at for a, b in inside):
                self.blocks[at] = size
                self._add(entry("alloc", at, size, self._time()))
                return

    def _free(self) -> None:
        if self.blocks:
            address = self.dice.choice(sorted(self.blocks))
            size = self.blocks.pop(address)
            self._add(entry("free_completed", address, size, self._time()))

    def segments(self) -> list[dict[str, Any]]:
        """Return the segments of the final snapshot."""
        made = []
        for start, end in self._joined():
            parts, at = [], start
            for address in sorted(a for a in self.blocks if start <= a < end):
                if address > at:
                    parts.append(block(address - at))
                parts.append(block(self.blocks[address], self.blocks[address]))
                at = address + self.blocks[address]
            if end > at:
                parts.append(block(end - at))
            made.append(segment(start, parts, device=self.device, segment_type="large",
                is_expandable=self.expandable))  # fmt: skip
        return made
