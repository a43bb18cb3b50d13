"""Processes of GPU operations where several processes have the same correlation ids."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tbd_trace
from fast import one_in
from made_kineto import document, kernel, launch, write

Event = dict[str, Any]


def rank(process: int, device: int, launches: int) -> list[Event]:
    """Launches of a rank, whose ids are those of any other."""
    events = []
    for number in range(launches):
        events.append(launch(10 * number + 1, number + 5, pid=process, tid=process))
        events.append(kernel(10 * number + 4, 2, number + 5, device=device) | {"pid": device})
    return events


def processes(folder: Path, events: list[Event]) -> tuple[list[tuple[Any, ...]], str]:
    session = tbd_trace.open(write(folder / "merged.json", document(events)))
    rows = session.sql("SELECT device_id, process_id FROM kernel ORDER BY kernel_id").rows()
    (notes,) = session.sql("SELECT notes FROM trace").rows()
    return rows, str(notes)


@pytest.mark.parametrize("devices", one_in(3, ["01", "00", "10"]))
def test_ranks_that_follow_each_other_keep_their_operations(devices: str, tmp_path: Path) -> None:
    first, second = map(int, devices)
    rows, notes = processes(tmp_path, rank(1000, first, 3) + rank(2000, second, 3))
    assert rows == [(first, 1000)] * 3 + [(second, 2000)] * 3
    assert "merges several processes, which have 3 correlation ids in common" in notes
    assert "assigned by the order of events" in notes


def test_the_operations_of_mixed_ranks_have_no_process(tmp_path: Path) -> None:
    pairs = zip(rank(1000, 0, 3), rank(2000, 1, 3), strict=True)
    rows, notes = processes(tmp_path, [event for pair in pairs for event in pair])
    assert {process for _, process in rows} == {None}
    assert "give each rank in another file" in notes


@pytest.mark.slow
@given(
    sizes=st.lists(st.integers(1, 4), min_size=2, max_size=4),
    at_end=st.booleans(),
)
@settings(max_examples=20, deadline=None)
def test_every_operation_belongs_to_its_rank(
    sizes: list[int], at_end: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Kineto writes the kernels of a rank among its calls, or after them."""
    events, truth = [], []
    for number, size in enumerate(sizes):
        own = rank(1000 + number, number, size)
        events += own[::2] + own[1::2] if at_end else own
        truth += [(number, 1000 + number)] * size
    rows, _ = processes(tmp_path_factory.mktemp("ranks"), events)
    assert rows == truth
