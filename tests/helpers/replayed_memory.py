"""Reading memory.jsonl by nothing but its description: what is live, by class, at every event."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Replayed:
    header: dict[str, Any]
    allocations: list[dict[str, Any]] = field(default_factory=list)
    freed: set[int] = field(default_factory=set)  # addresses
    peak: int = 0

    def by(self, key: str, iteration: int = 0) -> Counter[Any]:
        """Return bytes of an iteration and of what was there before, by a field of events."""
        found: Counter[Any] = Counter()
        for event in self.allocations:
            if event["iteration"] in (None, iteration):
                found[event[key]] += event["bytes"]
        return found

    def layers(self, kind: str) -> dict[str | None, int]:
        """Return bytes of a class by layer."""
        found: Counter[str | None] = Counter()
        for event in self.allocations:
            if event["class"] == kind and event["iteration"] in (None, 0):
                found[event["layer"]] += event["bytes"]
        return dict(found)


def replay(path: Path) -> Replayed:
    """Replay a file; at every event the classes must add up to what is live."""
    first, *rest = path.read_text().splitlines()
    found = Replayed(json.loads(first))
    live: dict[int, tuple[str, int]] = {}
    by_class: Counter[str] = Counter()
    total = found.header["live_before_bytes"]
    for line in rest:
        event = json.loads(line)
        address, size = event["address"], event["bytes"]
        if event["action"] == "alloc":
            assert address not in live
            live[address] = (event["class"], size)
            by_class[event["class"]] += size
            total += size
            found.allocations.append(event)
        else:
            assert event["action"] == "free"
            kind, born_with = live.pop(address)
            assert born_with == size
            by_class[kind] -= size
            total -= size
            found.freed.add(address)
        assert sum(by_class.values()) == total
        assert min(by_class.values()) >= 0
        found.peak = max(found.peak, total)
    assert total == sum(size for _, size in live.values())
    return found
