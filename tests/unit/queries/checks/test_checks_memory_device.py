"""Rules over memory and its device: fragmentation, and room for a larger batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from benchmarks.memory_snapshot import write_snapshot

from made_checks import row_of, rows_of, verdict
from made_checks_memory import MIB, Profile
from made_memory import Ingested
from memory_replay import allocator_at_start, load
from tbd_trace.query import execute
from tbd_trace.query.catalogue import derive_relations

# fragmentation


def two_segments(first: float, second: float, *, later: float | None = None) -> Profile:
    """Two segments of 200 and 300 MiB with so many live MiB at the peak, a free one of 100 MiB.

    `later` live MiB replace those of the first segment after the peak.
    """
    made = Profile().hold(600)
    one = made.make("weight", first, address=1 << 30)
    made.make("weight", second, address=2 << 30)
    if later is not None:
        made.free(one)
        made.make("weight", later, address=1 << 30)
    made.segment(1 << 30, 200, first if later is None else later)
    made.segment(2 << 30, 300, second)
    made.segment(3 << 30, 100)
    return made


def test_free_memory_between_live_blocks_at_the_peak() -> None:
    row = row_of(two_segments(20, 280), "MEM01")
    assert verdict(row) == ("finding", "warning")
    assert row["value"] == pytest.approx(100 * (180 + 20) / 600)  # the free segment is left out
    assert (row["threshold"], row["evidence"]) == (15, "allocator")
    assert "200.0 MiB of the 600.0 MiB that the allocator holds at the peak" in row["reason"]
    assert "expandable_segments" in row["advice"]


def test_full_segments_are_not_fragmented() -> None:
    row = row_of(two_segments(190, 280), "MEM01")
    assert verdict(row) == ("pass", None)
    assert row["value"] == pytest.approx(100 * 30 / 600)


@pytest.mark.parametrize(("least", "expected"), [(128, "finding"), (201, "pass")])
def test_few_free_bytes_are_no_fragmentation(least: int, expected: str) -> None:
    made = two_segments(20, 280)
    assert row_of(made, "MEM01", min_fragmented_mb=least)["verdict"] == expected


def test_fragmentation_at_the_end_alone_is_a_note() -> None:
    row = row_of(two_segments(190, 280, later=20), "MEM01")
    assert verdict(row) == ("finding", "note")
    assert row["value"] == pytest.approx(100 * 200 / 600)
    assert "at the end of the recording" in row["reason"]
    assert "later iterations" in row["advice"]


def test_segments_returned_after_the_peak_count_at_the_peak() -> None:
    """At the peak, 50 of 400 MiB are live in one of two segments; it is freed, the other stays."""
    made = Profile()
    one = made.make("weight", 50, address=1 << 30)
    made.make("weight", 100, address=2 << 30)
    made.free(one)
    made.event("segment_free", 1 << 30, 400 * MIB)
    made.segment(2 << 30, 100, 100)
    for sequence, held in ((-1, 500), (None, 100)):
        made.add("memory_total", **made.head, sequence=sequence, reserved_bytes=held * MIB)
    row = row_of(made, "MEM01")
    assert verdict(row) == ("finding", "warning")
    assert row["value"] == 70


def test_expandable_segments_return_their_free_memory() -> None:
    made = Profile().hold(500)
    address = made.make("weight", 450)
    made.segment(address, 500, 450, is_expandable=True)
    row = row_of(made, "MEM01")
    assert verdict(row) == ("pass", None)
    assert "at most 50.0 MiB of the 500.0 MiB" in row["reason"]


def test_without_segments_a_bound_can_suffice() -> None:
    """590 of 600 held MiB are live: less than 2 % can be free between blocks."""
    made = Profile().hold(600)
    made.make("weight", 590)
    row = row_of(made, "MEM01")
    assert verdict(row) == ("pass", None)
    assert row["value"] == pytest.approx(100 * 10 / 600)
    assert "at most" in row["reason"]


@pytest.mark.parametrize(("held", "said"), [(None, "not recorded"), (900, "in which segments")])
def test_fragmentation_needs_segments(held: int | None, said: str) -> None:
    made = Profile()
    made.make("weight", 590)
    row = row_of(made.hold(held) if held else made, "MEM01")
    assert verdict(row) == ("not evaluable", None)
    assert said in row["reason"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_segments_at_the_peak_are_those_of_the_replayed_allocator(
    tmp_path: Path, seed: int
) -> None:
    path = tmp_path / "snapshot.pickle"
    peak = write_snapshot(path, 6000, seed).peak_event
    snapshot = load(path)
    allocator, live = allocator_at_start(snapshot)
    for event in snapshot["device_traces"][0][: peak + 1]:
        match event["action"]:
            case "alloc":
                live[event["addr"]] = allocator.allocate(event["size"], event["stream"])
            case "free_completed":
                allocator.free(live.pop(event["addr"]))
            case "segment_free":
                allocator.release_cached()
    expected = {address: [segment.bytes, 0] for address, segment in allocator._segments.items()}
    for block in live.values():
        expected[block.segment.address][1] += block.bytes
    (query,) = [query for query in derive_relations() if query.name == "_peak_segment"]
    frame = execute(Ingested(path).database, query).frame
    rows = frame.select("address", "bytes", "live_bytes").rows()
    assert {address: [size, used] for address, size, used in rows} == expected


# room for a larger batch


def iteration(unknown: float = 0, **options: Any) -> Profile:
    """Weights of 100 MiB and feature maps of 50 MiB, which grow with the batch."""
    made = Profile(**options)
    made.make("weight", 100, "setup")
    maps = made.make("feature_map", 50)
    other = made.make(None, unknown, "setup") if unknown else None
    made.make("weight_gradient", 0, "backward")
    made.free(maps, *([other] if other else []))
    return made


def room(made: Profile, mib: float, **more: Any) -> Any:
    """Return the answer for a device that leaves so many MiB to the allocator."""
    return row_of(made, "MEM04", memory_gb=(mib + 200) / 1024, context_mb=200, **more)


def test_the_batch_could_grow() -> None:
    row = room(iteration(batch_size=8), 300)  # 100 + 4 * 50
    assert verdict(row) == ("finding", "note")
    assert (row["value"], row["threshold"], row["evidence"]) == (4, 2, "modelled")
    assert "holds 4.0 times the batch (batch 32)" in row["reason"]
    assert "up to 50.0 MiB of feature maps" in row["reason"]


def test_the_batch_could_not_double() -> None:
    row = room(iteration(), 199)
    assert verdict(row) == ("pass", None)
    assert row["value"] == pytest.approx(1.98)
    assert "2.0 times" in row["reason"]


def test_state_of_later_iterations_does_not_fit() -> None:
    """The recorded peak of 200 MiB fits in 220; the next iteration needs 250."""
    made = iteration()
    made.make("optimizer_state", 100, "optimizer")
    row = room(made, 220)
    assert verdict(row) == ("pass", None)
    assert row["value"] == pytest.approx(0.4)
    assert "does not fit the 220.0 MiB" in row["reason"]


def test_a_peak_above_the_device_is_severe() -> None:
    row = room(iteration(), 120)
    assert verdict(row) == ("finding", "severe")
    assert (row["value"], row["threshold"], row["unit"]) == (150 * MIB, 120 * MIB, "byte")
    assert "at the peak 0.15 GiB are live, more than the 0.12 GiB" in row["reason"]
    assert "tbd-trace why" in row["advice"]


def test_held_bytes_above_the_device_are_a_warning() -> None:
    row = room(iteration().hold(300), 200)
    assert verdict(row) == ("finding", "warning")
    assert (row["value"], row["threshold"]) == (300 * MIB, 200 * MIB)
    assert "are held" in row["reason"]


def test_a_run_fits_the_device_that_it_ran_on() -> None:
    """450 of 600 MiB are live: the assumed context of 500 MiB would leave 100."""
    made = iteration()
    made.make("weight", 350, "setup")
    made.add("device", device_id=0, memory_bytes=600 * MIB)
    assert verdict(row_of(made, "MEM04")) == ("pass", None)
    assert verdict(row_of(made, "MEM04", memory_gb=600 / 1024)) == ("finding", "severe")


def test_a_peak_counts_without_a_backward_pass() -> None:
    made = Profile()
    made.make("weight", 100, "setup")
    assert verdict(room(made, 99)) == ("finding", "severe")
    assert verdict(room(made, 101)) == ("not evaluable", None)


@pytest.mark.parametrize(
    ("gib", "expected", "said"),
    [
        (0.2, ("finding", "severe"), "at the end of the recording 0.29 GiB are live"),
        (0.5, ("not evaluable", None), "the snapshot has no history"),
        (0, ("not evaluable", None), "the memory of the device is unknown"),
    ],
)
def test_a_snapshot_without_history(gib: float, expected: tuple[str, str], said: str) -> None:
    made = Profile()
    made.segment(1 << 30, 400, 300)
    row = row_of(made, "MEM04", memory_gb=gib, context_mb=0)
    assert verdict(row) == expected
    assert said in row["reason"]


@pytest.mark.parametrize("free", [20 * MIB, None])
def test_a_failed_allocation_is_severe(free: int | None) -> None:
    made = iteration()
    made.add("memory_failure", **made.head, sequence=made.last + 1, requested_bytes=200 * MIB,
        device_free_bytes=free)  # fmt: skip
    row = room(made, 1000)
    assert verdict(row) == ("finding", "severe")
    assert (row["value"], row["threshold"]) == (200 * MIB, free)
    assert row["reason"].startswith("device 0: an allocation of 200.00 MiB failed (out of memory)")
    assert ("20.00 MiB free on the device" in row["reason"]) is (free is not None)


def test_the_device_that_failed_is_judged() -> None:
    made = iteration()
    other = Profile(device=1)
    other.make("feature_map", 10)
    other.add("memory_failure", **other.head, sequence=1, requested_bytes=5 << 30)
    assert "device 1: an allocation of 5.00 GiB" in room(made.join(other), 120)["reason"]


def test_held_bytes_exceed_live_bytes() -> None:
    """300 MiB are held for 150 live ones: 600 MiB suffice for 300, 100 + 4 * 50."""
    assert room(iteration().hold(300), 600)["value"] == pytest.approx(4)


def test_optimizer_state_of_later_iterations_counts() -> None:
    """The first iteration makes the state after its feature maps; the next has both at once."""
    made = iteration()
    made.make("optimizer_state", 100, "optimizer")
    assert room(made, 400)["value"] == pytest.approx(4)  # 100 + 100 + 4 * 50


@pytest.mark.parametrize(
    ("mib", "expected", "factor"),
    # 100 + 2 * (50 + 50), or 150 + 3 * 50
    [(300, "finding", 2), (280, "not evaluable", None), (240, "pass", 1.4)],
)
def test_unknown_bytes_could_grow_with_the_batch(
    mib: int, expected: str, factor: float | None
) -> None:
    row = room(iteration(unknown=50), mib)
    assert row["verdict"] == expected
    assert row["value"] == (factor if factor is None else pytest.approx(factor))
    assert (expected != "not evaluable") or "between 1.8 and 2.6 times" in row["reason"]


@pytest.mark.slow
def test_the_recorded_memory_of_the_device_is_used() -> None:
    made = iteration()
    made.add("device", device_id=0, memory_bytes=800 * MIB)
    assert row_of(made, "MEM04")["value"] == pytest.approx(4)  # less 500 MiB of context
    made = iteration().hold(150)
    made.add("memory_device", device_id=0, used_bytes=250 * MIB, total_bytes=400 * MIB)
    assert row_of(made, "MEM04")["value"] == pytest.approx(4)  # less 100 MiB in use by others


def test_a_timeline_of_the_same_capture_knows_the_device() -> None:
    made = iteration(capture_id="c")
    other = Profile("timeline", capture_id="c")
    other.add("device", trace_id="timeline", device_id=0, memory_bytes=800 * MIB)
    found = {row["trace_id"]: row for row in rows_of(made.join(other), "MEM04")}
    assert found["t"]["value"] == pytest.approx(4)


def test_the_memory_of_the_device_is_unknown() -> None:
    row = row_of(iteration(), "MEM04")
    assert verdict(row) == ("not evaluable", None)
    assert row["reason"] == "the memory of the device is unknown"
    assert "memory_gb" in row["advice"]


def test_host_memory_has_no_device() -> None:
    row = room(iteration(device=None), 300)
    assert verdict(row) == ("not evaluable", None)


def test_a_forward_pass_can_end_before_the_peak() -> None:
    made = Profile()
    made.make("weight", 100, "setup")
    made.make("feature_map", 50)
    assert "no backward pass" in room(made, 300)["reason"]


def test_a_sweep_shows_the_growth() -> None:
    """Batches of 4 and 8 hold 300 and 500 MiB: 50 MiB per sample, and 28 samples in 1500 MiB."""
    four = iteration(trace_id="a", batch_size=4, model="net").hold(300)
    eight = iteration(trace_id="b", batch_size=8, model="net").hold(500)
    rows = rows_of(four.join(eight), "MEM04", memory_gb=1700 / 1024, context_mb=200)
    small, large = sorted(rows, key=lambda row: row["trace_id"])
    assert verdict(small) == ("not evaluable", None)
    assert "batch 8 of the same sweep" in small["reason"]
    assert verdict(large) == ("finding", "note")
    assert (large["value"], large["evidence"]) == (3.5, "extrapolated")
    assert "from batch 4 to 8, the held bytes grow by 50.0 MiB per sample" in large["reason"]
    assert "(batch 28)" in large["reason"]


def test_a_run_that_did_not_fit_is_no_point_of_a_sweep() -> None:
    made = iteration(trace_id="a", batch_size=8, model="net")
    failed = iteration(trace_id="b", batch_size=16, model="net", status="out_of_memory")
    rows = rows_of(made.join(failed), "MEM04", memory_gb=500 / 1024, context_mb=200)
    found = {row["trace_id"]: row for row in rows}
    assert found["a"]["value"] == pytest.approx(4)
    assert found["b"]["reason"] == "the run ended early (out of memory)"
