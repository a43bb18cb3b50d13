"""export: events that overlap are laid out so that a stack can draw them."""

from __future__ import annotations

from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tbd_trace.export.track_layout import TrackLayout

Event = tuple[int, int]
EVENTS = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 15)).map(lambda e: (e[0], e[0] + e[1])),
    max_size=25,
)


def laid_out(events: list[Event], nests: bool) -> dict[int, list[tuple[str, int]]]:
    """Return what begins and ends on each lane, in order."""
    lanes: dict[int, list[tuple[str, int]]] = defaultdict(list)
    layout = TrackLayout(
        nests,
        lambda lane, start: lanes[lane].append(("begin", start)),
        lambda lane, end: lanes[lane].append(("end", end)),
    )
    for start, end in sorted(events, key=lambda event: (event[0], -event[1])):
        layout.put(start, end)
    layout.close()
    return lanes


def drawn(marks: list[tuple[str, int]], deepest: int) -> list[Event]:
    """Return the events that a reader sees who matches each end with the last begin."""
    open_starts: list[int] = []
    found: list[Event] = []
    last = 0
    for kind, at in marks:
        assert at >= last  # in order of time
        last = at
        if kind == "begin":
            open_starts.append(at)
            assert len(open_starts) <= deepest
        else:
            found.append((open_starts.pop(), at))
    assert not open_starts
    return found


@pytest.mark.parametrize("nests", [True, False])
@given(events=EVENTS)
def test_a_reader_sees_the_events(nests: bool, events: list[Event]) -> None:
    lanes = laid_out(events, nests)
    seen = [event for marks in lanes.values() for event in drawn(marks, 100 if nests else 1)]
    assert sorted(seen) == sorted(events)
    assert sorted(lanes) == list(range(len(lanes)))


@given(EVENTS)
def test_no_more_lanes_than_events_at_a_time(events: list[Event]) -> None:
    lanes = laid_out(events, nests=False)
    moments = {start for start, _ in events}
    # an event without length is there at its start; a reader ends it before what begins then
    most = max((sum(s <= at < e or s == at for s, e in events) for at in moments), default=0)
    assert len(lanes) <= most


def test_what_nests_takes_one_lane_and_what_crosses_two() -> None:
    assert len(laid_out([(0, 10), (1, 5), (5, 9), (10, 12)], nests=True)) == 1
    assert len(laid_out([(0, 10), (5, 15)], nests=True)) == 2
    assert len(laid_out([(0, 10), (1, 5)], nests=False)) == 2
    assert len(laid_out([(0, 10), (10, 15)], nests=False)) == 1
