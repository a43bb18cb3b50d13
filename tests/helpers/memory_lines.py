"""A small reader of memory.jsonl, for tests of its writers."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

CLASSES = {
    "weight", "weight_gradient", "feature_map", "activation_gradient", "workspace", "temporary",
    "optimizer_state", "optimizer_temporary", "buffer", "input", "communication", "unknown",
}  # fmt: skip
PHASES = {"setup", "forward", "backward", "recompute", "optimizer", "other"}


class Memory:
    """Lifetimes in a file; raises AssertionError if the file breaks the format."""

    def __init__(self, path: Path) -> None:
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        self.header: dict[str, Any] = lines[0]
        self.events: list[dict[str, Any]] = [e for e in lines[1:] if e["action"] != "device"]
        self.readings: list[dict[str, Any]] = [e for e in lines[1:] if e["action"] == "device"]
        assert (self.header["format"], self.header["version"]) == ("tbd-trace memory", 1)
        self.lifetimes: list[dict[str, Any]] = []
        live: dict[int, dict[str, Any]] = {}
        for number, event in enumerate(self.events):
            address = event["address"]
            if event["action"] == "alloc":
                assert address not in live
                assert event["phase"] in PHASES
                live[address] = event | {"born": number, "died": len(self.events)}
                self.lifetimes.append(live[address])
            elif event["action"] == "classify":
                layer = event.get("layer", live[address].get("layer"))
                live[address] |= {"class": event["class"], "layer": layer}
            else:
                assert event["action"] == "free"
                dead = live.pop(address)
                assert event["bytes"] == dead["bytes"]
                dead["died"] = number
        assert {entry["class"] for entry in self.lifetimes} <= CLASSES

    def running(self) -> list[int]:
        """Return the live bytes after each event."""
        change = {"alloc": 1, "free": -1, "classify": 0}
        total, found = self.header["live_before_bytes"], []
        for event in self.events:
            total += change[event["action"]] * event.get("bytes", 0)
            found.append(total)
        return found

    def at(self, event: int) -> Counter[str]:
        """Return the live bytes of each class after an event."""
        found: Counter[str] = Counter()
        for entry in self.lifetimes:
            if entry["born"] <= event < entry["died"]:
                found[entry["class"]] += entry["bytes"]
        return found

    def peak(self) -> tuple[int, int]:
        """Return the first event with the most live bytes, and these bytes."""
        running = self.running()
        return running.index(max(running)), max(running)

    def select(self, **wanted: Any) -> list[dict[str, Any]]:
        """Return the lifetimes with these entries; ``kind`` stands for ``class``."""
        if "kind" in wanted:
            wanted["class"] = wanted.pop("kind")
        return [e for e in self.lifetimes if all(e.get(k) == v for k, v in wanted.items())]

    def total(self, **wanted: Any) -> int:
        """Return the bytes of all lifetimes with these entries."""
        return size(self.select(**wanted))

    def layers(self, **wanted: Any) -> dict[str | None, int]:
        """Return the bytes of each layer in lifetimes with these entries."""
        found: Counter[str | None] = Counter()
        for entry in self.select(**wanted):
            found[entry.get("layer")] += entry["bytes"]
        return dict(found)

    def check_conservation(self) -> None:
        """Compare the sum of classes, by lifetimes, with the running sum at each event."""
        born: Counter[int] = Counter()
        for entry in self.lifetimes:
            born[entry["born"]] += entry["bytes"]
            born[entry["died"]] -= entry["bytes"]
        total = self.header["live_before_bytes"]
        for number, running in enumerate(self.running()):
            total += born[number]
            assert total == running
            assert running >= 0
        for number in {0, len(self.events) // 2, self.peak()[0], len(self.events) - 1}:
            before = self.header["live_before_bytes"]
            assert sum(self.at(number).values()) + before == self.running()[number]


def size(entries: Iterable[dict[str, Any]]) -> int:
    """Return the bytes of lifetimes."""
    return sum(entry["bytes"] for entry in entries)
