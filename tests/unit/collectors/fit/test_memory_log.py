"""Logs as allocations with lifetimes, and those of other batch sizes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from tbd_collectors.fit.memory_log import Allocation, BatchLine, MemoryLog, read_log


def made(*sizes: int) -> MemoryLog:
    """Return a log of allocations that end in reverse order."""
    one = {
        n: Allocation("feature_map", size, f"layer{n}", "forward", 0)
        for n, size in enumerate(sizes)
    }
    numbers = list(one)
    return MemoryLog(one, [(n, True) for n in numbers] + [(n, False) for n in numbers[::-1]])


def test_a_file_becomes_allocations_with_their_last_class(tmp_path: Path) -> None:
    events = [
        {"format": "tbd-trace memory", "version": 1, "assumptions": ["of a test"]},
        {"action": "alloc", "address": 3, "bytes": 8, "class": "temporary", "phase": "forward"},
        {"action": "classify", "address": 3, "class": "feature_map", "layer": "conv"},
        {"action": "device", "used": 1, "total": 2, "reserved": 1},
        {"action": "free", "address": 3, "bytes": 8},
    ]
    path = tmp_path / "memory.jsonl"
    path.write_text("\n".join(map(json.dumps, events)), encoding="utf-8")
    log = read_log(path)
    assert log.allocations == {3: Allocation("feature_map", 8, "conv", "forward", None)}
    assert list(log.changes()) == [(3, 8), (3, -8)]
    assert log.assumptions == ("of a test",)


def test_sizes_of_another_batch_are_on_the_line() -> None:
    line = BatchLine(made(100, 40), made(100, 60), (4, 8))  # 20 + 5 per sample
    assert line.is_straight()
    for batch, size in ((1, 25), (4, 40), (12, 80)):
        assert [one.bytes for one in line.at(batch).allocations.values()] == [100, size]


def test_logs_of_different_events_are_on_no_line() -> None:
    first = made(100, 40)
    assert not BatchLine(first, made(100, 40, 1), (4, 8)).is_straight()
    assert not BatchLine(first, replace(first, order=first.order[::-1]), (4, 8)).is_straight()
