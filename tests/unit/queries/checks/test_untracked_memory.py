"""The rule over device memory outside the allocator."""

from __future__ import annotations

import pytest

from made_checks import row_of, verdict
from made_checks_memory import Profile
from made_trace import metric

GIB = 1 << 30


def reading(used: float, total: float | None = 40) -> Profile:
    """Return 2 GiB held, and a reading of the device, in GiB."""
    made = Profile().hold(2048)
    made.make("weight", 1024)
    capacity = None if total is None else int(total * GIB)
    for size in (3, used):
        made.add("memory_device", device_id=0, used_bytes=int(size * GIB), total_bytes=capacity)
    return made


def test_much_memory_outside_the_allocator() -> None:
    row = row_of(reading(10), "MEM05")
    assert verdict(row) == ("finding", "warning")
    assert (row["value"], row["threshold"], row["evidence"]) == (20, 15, "device")
    assert "8.0 GiB of 10.0 GiB in use" in row["reason"]


@pytest.mark.parametrize(("used", "share"), [(8, 15), (1, 2.5)])
def test_little_memory_outside_the_allocator(used: float, share: float) -> None:
    row = row_of(reading(used), "MEM05")
    assert verdict(row) == ("pass", None)
    assert row["value"] == share


def test_memory_outside_needs_the_capacity_and_the_held_bytes() -> None:
    assert "unknown" in row_of(reading(10, total=None), "MEM05")["reason"]
    made = Profile()
    made.add("memory_device", device_id=0, used_bytes=GIB, total_bytes=4 * GIB)
    row = row_of(made, "MEM05")
    assert verdict(row) == ("not evaluable", None)
    assert "not recorded" in row["reason"]
    (row,) = metric(made, "memory_untracked")
    assert (row["untracked_bytes"], row["untracked_pct"]) == (None, None)


def test_held_bytes_of_several_allocators_are_added() -> None:
    """Of 10 GiB in use, each of two allocators holds 2 at last, after events at other times."""
    made = reading(10)
    for row in made.rows["memory_device"]:
        row["timestamp_ns"] = 100
    other = Profile().hold(2048)
    other.head["memory_kind"] = "pinned"
    other.make("weight", 1)
    other.make("weight", 1)
    for row in other.rows["memory_total"]:
        row["memory_kind"] = "pinned"
    assert row_of(made.join(other), "MEM05")["value"] == 15
