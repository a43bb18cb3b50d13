"""The generator of memory snapshots: its numbers agree with the events that it writes."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.memory_snapshot import STACKS, write_snapshot

from memory_replay import load, replay, start_state


@pytest.mark.parametrize(("events", "seed"), [(1, 0), (97, 1), (5000, 2), (20_000, 3)])
def test_numbers_of_a_generated_snapshot(tmp_path: Path, events: int, seed: int) -> None:
    path = tmp_path / "snapshot.pickle"
    truth = write_snapshot(path, events, seed)
    snapshot = load(path)
    (history,) = snapshot["device_traces"]
    assert len(history) == events == truth.events
    segments, live = start_state(snapshot)
    assert sum(requested for _, requested in live.values()) == truth.start_bytes > 0
    assert len(live) == truth.start_blocks
    running, totals = truth.start_bytes, []
    for event in history:
        running += {"alloc": 1, "free_completed": -1}.get(event["action"], 0) * event["size"]
        totals.append(running)
    assert (max(totals), totals.index(max(totals))) == (truth.peak_bytes, truth.peak_event)
    assert running == truth.end_bytes
    blocks = [block for segment in snapshot["segments"] for block in segment["blocks"]]
    active = [block for block in blocks if block["state"] == "active_allocated"]
    assert sum(block["requested_size"] for block in active) == truth.end_bytes
    assert len(active) == truth.end_blocks
    assert sum(block["size"] for block in blocks) == truth.reserved_bytes
    assert len(segments) <= len(snapshot["segments"])


def test_equal_arguments_give_equal_files(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    assert write_snapshot(first, 3000, 7) == write_snapshot(second, 3000, 7)
    assert first.read_bytes() == second.read_bytes()
    assert write_snapshot(second, 3000, 8) != write_snapshot(first, 3000, 7)


def test_generated_addresses_are_reproduced_and_stacks_are_shared(tmp_path: Path) -> None:
    path = tmp_path / "snapshot.pickle"
    truth = write_snapshot(path, 6000)
    snapshot = load(path)
    stacks = {id(event["frames"]) for event in snapshot["device_traces"][0]}
    assert STACKS * 3 // 4 < len(stacks) <= STACKS
    allocator, addresses = replay(snapshot)
    assert all(real == simulated for real, simulated in addresses)
    assert allocator.reserved_bytes == truth.reserved_bytes
