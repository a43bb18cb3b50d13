"""What an allocator held at the peak, at a failure and at the end, against a simulation."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from made_allocator import MIB, PAGE, History, State
from made_memory import Ingested, block, entry, segment, snapshot, write_pickle
from tbd_trace.query import sql


def states(path: Path) -> dict[tuple[int, str], dict[str, Any]]:
    made = Ingested(path)
    rows = sql(made.database, "FROM memory_state", list(made.ids.values())).to_dicts()
    return {(row["device_id"], row["moment"]): row for row in rows}


def compare(row: dict[str, Any], state: State) -> None:
    gaps = state.gaps()
    assert row["requested_bytes"] == row["allocated_bytes"] == state.live
    assert row["reserved_bytes"] == state.reserved
    assert row["unused_bytes"] == state.reserved - state.live
    assert row["free_inside_bytes"] == sum(size for size, live in gaps if live)
    assert row["free_segment_bytes"] == sum(size for size, live in gaps if not live)
    assert row["largest_free_bytes"] == max((size for size, _ in gaps), default=0)
    pages = sum(max(size // PAGE - 1, 0) for size, live in gaps if live)
    assert row["whole_page_bytes"] == pages * PAGE


@pytest.mark.slow
@pytest.mark.parametrize("expandable", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_states_are_those_of_a_simulation(tmp_path: Path, seed: int, expandable: bool) -> None:
    """Two devices; the ring buffer has lost the first events of each."""
    devices = []
    for device in range(2):
        made = History(Random(10 * seed + device), expandable, device)
        made.run(60)
        made.fail(512 * MIB, 3 * MIB)
        made.run(30)
        devices.append(made)
    lost = [Random(seed).randrange(40) for _ in devices]
    histories = [made.events[first:] for made, first in zip(devices, lost, strict=True)]
    segments = [part for made in devices for part in made.segments()]
    found = states(write_pickle(tmp_path / "s.pickle", snapshot(segments, *histories)))
    for made, first in zip(devices, lost, strict=True):
        failed = next(n for n, event in enumerate(made.events) if event["action"] == "oom")
        row = found[made.device, "failure"]
        assert row["sequence"] == failed - first
        compare(row, made.states[failed])
        compare(found[made.device, "end"], made.states[-1])
        recorded = made.states[max(first - 1, 0) :]
        top = max(state.live for state in recorded)
        peak = next(state for state in recorded if state.live == top)
        compare(found[made.device, "peak"], peak)
        assert row["is_expandable"] is expandable


def test_blocks_of_old_releases_and_pending_blocks_count(tmp_path: Path) -> None:
    pending = block(2 * MIB, 2 * MIB, state="active_pending_free")
    parts = [block(4 * MIB, 3 * MIB), pending, block(14 * MIB)]
    path = write_pickle(tmp_path / "s.pickle", [segment(1 << 30, parts)])
    row = states(path)[0, "end"]
    assert row["requested_bytes"] == 5 * MIB
    assert row["allocated_bytes"] == 6 * MIB
    assert row["unused_bytes"] == row["largest_free_bytes"] == 14 * MIB
    assert row["sequence"] is None


def test_the_rest_of_a_large_block_is_not_free(tmp_path: Path) -> None:
    """A block of 3.5 MiB fills a part of 4 MiB: the allocator splits off more than 1 MiB only."""
    asked = 3 * MIB + MIB // 2
    events = [
        entry("segment_alloc", 1 << 30, 20 * MIB),
        entry("alloc", 1 << 30, asked),
        entry("alloc", (1 << 30) + 4 * MIB, 16 * MIB),
        entry("oom", 0, 1),
    ]
    parts = [block(4 * MIB, asked), block(16 * MIB, 16 * MIB)]
    path = write_pickle(tmp_path / "s.pickle", snapshot([segment(1 << 30, parts)], events))
    found = states(path)
    assert found[0, "failure"]["free_inside_bytes"] == 0
    assert found[0, "failure"]["largest_free_bytes"] == 0


def test_without_events_of_segments_free_parts_are_unknown(tmp_path: Path) -> None:
    """The segments at the end are smaller than the live bytes at the peak."""
    events = [entry("alloc", 1 << 30, 8 * MIB), entry("free_completed", 1 << 30, 8 * MIB)]
    path = write_pickle(
        tmp_path / "s.pickle", snapshot([segment(2 << 30, [block(2 * MIB)])], events)
    )
    row = states(path)[0, "peak"]
    assert row["requested_bytes"] == 8 * MIB
    for name in ("reserved_bytes", "unused_bytes", "free_inside_bytes", "largest_free_bytes"):
        assert row[name] is None
