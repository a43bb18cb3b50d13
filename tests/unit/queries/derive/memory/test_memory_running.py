"""Random histories of memory against a replay in Python; readings of devices."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fast import examples
from made_trace import MadeTrace, Row, metric

CLASSES = ("weight", "feature_map", "temporary", None)
ADDRESSES = (0, 512, 1 << 40, 2**64 - 1)
OURS = settings(max_examples=examples(10), suppress_health_check=[HealthCheck.too_slow])
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["allocate", "free", "free_requested", "segment_allocate", "classify"]),
        st.sampled_from(ADDRESSES),
        st.integers(0, 5000),
        st.sampled_from(CLASSES),
        st.sampled_from([None, 0, 1]),  # device
    ),
    min_size=1,
    max_size=25,
)
Step = tuple[str, int, int, str | None, int | None]
HISTORIES = st.lists(STEPS, min_size=3, max_size=8)  # a trace each


@dataclass
class Space:
    """What a replay of one device finds."""

    older: int = 0  # bytes that were released without an allocation
    live: dict[int, list[Any]] = field(default_factory=dict)  # size and class by address
    # position, live bytes by class and in all after each allocation and release
    totals: list[tuple[int, dict[str, int]]] = field(default_factory=list)
    unmatched: int = 0


def without_holes(steps: list[Step]) -> Iterator[Step]:
    """Leave out allocations of live addresses and releases of others."""
    live: set[tuple[int, int | None]] = set()
    for step in steps:
        key = step[1], step[4]
        if (step[0] == "allocate" and key in live) or (step[0] == "free" and key not in live):
            continue
        if step[0] == "allocate":
            live.add(key)
        elif step[0] == "free":
            live.discard(key)
        yield step


def replay(steps: list[Step]) -> dict[int | None, Space]:
    """Replay the steps of each device on their own."""
    spaces: dict[int | None, Space] = {device: Space() for *_, device in steps}
    for final in (False, True):  # the first pass finds what is older, and the last classes
        for space in spaces.values():
            space.live, space.totals, space.unmatched = {}, [], 0
        older = {device: space.older for device, space in spaces.items()}
        for position, (operation, address, size, _, device) in enumerate(steps):
            space = spaces[device]
            if operation == "allocate":
                space.live[address] = [size, last_class(steps, position)]
            elif operation == "free" and address in space.live:
                del space.live[address]
            elif operation == "free":
                space.unmatched += 1
                space.older += 0 if final else size
                older[device] -= size
            if operation in ("allocate", "free", "segment_allocate"):
                by_class: dict[str, int] = defaultdict(int)
                for live_size, live_kind in space.live.values():
                    by_class[live_kind] += live_size
                by_class["unknown"] += older[device]
                space.totals.append((position, by_class))
    return spaces


def last_class(steps: list[Step], born: int) -> str:
    """Return the last class that is stated before an allocation ends."""
    _, address, _, stated, device = steps[born]
    for operation, other, _, kind, on in steps[born + 1 :]:
        if (other, on) == (address, device):
            if operation in ("allocate", "free"):
                break
            if operation == "classify" and kind is not None:
                stated = kind
    return stated or "unknown"


def made(*histories: list[Step]) -> MadeTrace:
    trace = MadeTrace()
    for number, steps in enumerate(histories):
        add(trace, f"t{number}", steps)
    return trace


def add(trace: MadeTrace, trace_id: str, steps: list[Step]) -> None:
    for position, (operation, address, size, kind, device) in enumerate(steps):
        states = operation in ("allocate", "classify")
        trace.add(
            "memory_event",
            trace_id=trace_id,
            sequence=position,
            timestamp_ns=position * 10,
            operation=operation,
            allocator="torch",
            device_id=device,
            address=address,
            bytes=size,
            requested_bytes=None if operation == "segment_allocate" else size,
            **{"class": kind if states else None},
        )


def by_device(rows: list[Row]) -> dict[int | None, list[Row]]:
    found: dict[int | None, list[Row]] = defaultdict(list)
    for row in rows:
        found[row["device_id"]].append(row)
    return found


def check(histories: list[list[Step]]) -> None:
    with made(*histories).connect() as database:
        answers = {
            "running": database.relation("memory_running", "trace_id, space, sequence"),
            "spaces": database.relation("memory_space"),
            "peaks": database.metric("memory_peak"),
            "instants": database.metric("memory_timeline", points=1000),
        }
    for number, steps in enumerate(histories):
        mine = {
            name: [row for row in rows if row["trace_id"] == f"t{number}"]
            for name, rows in answers.items()
        }
        check_history(steps, mine)


def check_history(steps: list[Step], answers: dict[str, list[Row]]) -> None:
    spaces = {device: space for device, space in replay(steps).items() if space.totals}
    running = answers["running"]
    device_of = {row["space"]: row["device_id"] for row in answers["spaces"]}
    peaks, instants = by_device(answers["peaks"]), by_device(answers["instants"])
    assert peaks.keys() == spaces.keys()
    for device, space in spaces.items():
        totals = [(position, sum(classes.values())) for position, classes in space.totals]
        assert [
            (row["sequence"], row["requested_bytes"])
            for row in running
            if device_of[row["space"]] == device
        ] == totals
        (row,) = peaks[device]
        highest = max(total for _, total in totals)
        first = next(position for position, total in totals if total == highest)
        before = space.older
        assert row["peak_requested_bytes"] == max(highest, before)
        assert row["peak_sequence"] == (first if highest > before else None)
        assert row["start_requested_bytes"] == before
        assert row["end_requested_bytes"] == totals[-1][1]
        assert row["unmatched_frees"] == space.unmatched
        drawn: dict[int, dict[str, int]] = defaultdict(dict)
        for instant in instants[device]:
            drawn[instant["sequence"]][instant["part"]] = instant["requested_bytes"]
            assert instant["total_bytes"] == dict(totals)[instant["sequence"]]
        for position, classes in space.totals if instants[device] else ():
            shown = {part: size for part, size in drawn[position].items() if size}
            assert shown == {part: size for part, size in classes.items() if size}


@pytest.mark.slow
@given(HISTORIES)
@OURS
def test_histories_with_holes(histories: list[list[Step]]) -> None:
    check(histories)


@pytest.mark.slow
@given(HISTORIES)
@OURS
def test_histories_without_holes(histories: list[list[Step]]) -> None:
    none: list[Step] = [("allocate", 0, 1, None, 0)]
    check([list(without_holes(steps)) or none for steps in histories])


@pytest.mark.slow
@given(HISTORIES, st.permutations([None, 0, 1]))
@OURS
def test_numbers_of_devices_mean_nothing(
    histories: list[list[Step]], order: list[int | None]
) -> None:
    """Renumbered devices have the rows of the devices that they were."""
    new = dict(zip([None, 0, 1], order, strict=True))
    renamed = [[(*step[:4], new[step[4]]) for step in steps] for steps in histories]

    def rows(events: list[list[Step]], names: dict[int | None, int | None]) -> list[str]:
        with made(*events).connect() as database:
            found = database.metric("memory_peak") + database.metric("memory_breakdown")
        return sorted(str(row | {"device_id": names[row["device_id"]]}) for row in found)

    assert rows(histories, new) == rows(renamed, {n: n for n in (None, 0, 1)})


# readings of a device


def readings(*used: tuple[int | None, int]) -> MadeTrace:
    """Return one segment of 100 bytes from 10 ns and one of 200 bytes from 20 ns, and readings."""
    trace = MadeTrace()
    for at, size in ((10, 100), (20, 200)):
        trace.add(
            "memory_event", sequence=at // 10 - 1, timestamp_ns=at, operation="segment_allocate",
            allocator="torch", device_id=0, address=at, bytes=size,
        )  # fmt: skip
    trace.add("memory_total", device_id=0, allocator="torch", requested_bytes=0, reserved_bytes=300)
    for time, size in used:
        trace.add("memory_device", device_id=0, timestamp_ns=time, used_bytes=size, total_bytes=999)
    return trace


@pytest.mark.parametrize(
    ("time", "used", "held", "untracked"),
    [(15, 500, 100, 400), (20, 500, 300, 200), (99, 250, 300, 0), (None, 400, 300, 100)],
)
def test_memory_outside_the_allocator(
    time: int | None, used: int, held: int, untracked: int
) -> None:
    (row,) = metric(readings((time, used)), "memory_untracked")
    assert (row["used_bytes"], row["total_bytes"]) == (used, 999)
    assert (row["reserved_bytes"], row["untracked_bytes"]) == (held, untracked)
    assert row["untracked_pct"] == pytest.approx(100 * untracked / used)


def test_shares_of_a_device_are_parts_of_its_highest_reading() -> None:
    trace = readings((15, 500), (30, 800))
    trace.add(
        "memory_event", sequence=2, operation="allocate", allocator="torch", device_id=0,
        address=1, bytes=200, requested_bytes=200, **{"class": "weight"},
    )  # fmt: skip
    (row,) = metric(trace, "memory_breakdown", denominator="device")
    assert row["share_pct"] == 25


def test_without_a_reading_there_is_no_share_of_the_device() -> None:
    trace = made([("allocate", 0, 8, "weight", 0)])
    (row,) = metric(trace, "memory_breakdown", denominator="device")
    assert row["share_pct"] is None
