"""The simulated caching allocator: against real snapshots, and against a slow model."""

from __future__ import annotations

import csv
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpus import corpus_file, corpus_files
from memory_replay import MIB, load, replay
from tbd_trace.sources.torch_memory.caching_allocator import (
    Block,
    CachingAllocator,
    OutOfDeviceMemoryError,
    rounded,
    segment_bytes,
)


def test_segments_of_a_real_run_from_its_start() -> None:
    name = "silmont2000_assignment2-systems__mem_snapshot.pickle"
    snapshot = load(corpus_file(f"memory_snapshot/{name}"))
    events = snapshot["device_traces"][0]
    allocator, addresses = replay(snapshot)
    created = [event["size"] for event in events if event["action"] == "segment_alloc"]
    assert [segment.bytes for segment in allocator.segments] == created
    assert len(created) == allocator.peak_segments == 9
    assert allocator.reserved_bytes == allocator.peak_reserved_bytes == 3_781_165_056
    assert allocator.allocated_bytes == 31_719_936
    assert allocator.requested_bytes == 31_719_428
    assert allocator.peak_requested_bytes == 3_249_143_816
    assert all(real == simulated for real, simulated in addresses)


@pytest.mark.parametrize("path", corpus_files("memory_snapshot/*.pickle"))
def test_addresses_of_real_runs(path) -> None:
    snapshot = load(path)
    if any(segment.get("is_expandable") for segment in snapshot["segments"]):
        pytest.skip("expandable segments are not simulated")
    allocator, addresses = replay(snapshot)
    assert addresses
    assert [real for real, _ in addresses] == [simulated for _, simulated in addresses]
    segments = snapshot["segments"]
    assert allocator.allocated_bytes == sum(segment["allocated_size"] for segment in segments)
    assert allocator.reserved_bytes == sum(segment["total_size"] for segment in segments)
    assert {(s.address, s.bytes) for s in allocator.segments} == {
        (segment["address"], segment["total_size"]) for segment in segments
    }
    with (corpus_file("oracle/memory_snapshots.csv")).open(newline="") as lines:
        known = {row["file"]: row for row in csv.DictReader(lines)}.get(path.name)
    if known:
        assert allocator.requested_bytes == int(known["end_requested_bytes"])


@pytest.mark.parametrize(
    ("requested", "block", "segment"),
    [
        (1, 512, 2 * MIB),
        (512, 512, 2 * MIB),
        (513, 1024, 2 * MIB),
        (MIB, MIB, 2 * MIB),
        (MIB + 1, MIB + 512, 20 * MIB),
        (10 * MIB - 1, 10 * MIB, 10 * MIB),
        (10 * MIB - 512, 10 * MIB - 512, 20 * MIB),
        (10 * MIB, 10 * MIB, 10 * MIB),
        (10 * MIB + 1, 10 * MIB + 512, 12 * MIB),
    ],
)
def test_sizes(requested: int, block: int, segment: int) -> None:
    assert rounded(requested) == block
    assert segment_bytes(block) == segment


def test_large_block_keeps_a_rest_of_one_mib() -> None:
    allocator = CachingAllocator()
    assert allocator.allocate(19 * MIB).bytes == 20 * MIB
    assert allocator.allocate(19 * MIB - 512).bytes == 19 * MIB - 512
    assert allocator.reserved_bytes == 40 * MIB
    # The rest of the second segment, 1 MiB + 512 B, is the only free block.
    allocator.allocate(MIB + 512)
    assert allocator.reserved_bytes == allocator.allocated_bytes == 40 * MIB


def test_release_of_cached_segments_precedes_out_of_memory() -> None:
    allocator = CachingAllocator(capacity_bytes=40 * MIB)
    first = allocator.allocate(30 * MIB)
    allocator.free(first)
    kept = allocator.allocate(32 * MIB)
    assert allocator.reserved_bytes == 32 * MIB
    with pytest.raises(OutOfDeviceMemoryError) as error:
        allocator.allocate(10 * MIB)
    assert error.value.segment_bytes == 10 * MIB
    assert error.value.reserved_bytes == allocator.allocated_bytes == 32 * MIB
    allocator.free(kept)
    assert allocator.allocate(40 * MIB).bytes == 40 * MIB


def test_streams_and_pools_do_not_share_segments() -> None:
    allocator = CachingAllocator()
    blocks = [allocator.allocate(size, stream) for stream in (0, 7) for size in (100, 2 * MIB)]
    assert len({block.segment.address for block in blocks}) == 4
    for block in blocks:
        allocator.free(block)
    allocator.allocate(100, stream=7)
    assert len(allocator.segments) == 4


def test_zero_bytes_and_double_free() -> None:
    allocator = CachingAllocator()
    nothing = allocator.allocate(0)
    allocator.free(nothing)
    assert allocator.reserved_bytes == allocator.peak_segments == 0
    block = allocator.allocate(1)
    allocator.free(block)
    with pytest.raises(ValueError, match="already free"):
        allocator.free(block)
    with pytest.raises(ValueError, match="negative"):
        allocator.allocate(-1)


class SlowAllocator:
    """A list of all blocks [segment, stream, small, address, size, live], scanned each time."""

    def __init__(self) -> None:
        self.blocks: list[list] = []
        self.next = 0

    def allocate(self, requested: int, stream: int) -> int:
        size = -(-requested // 512) * 512
        small = size <= 2**20
        fitting = [
            b for b in self.blocks if b[1:3] == [stream, small] and not b[5] and b[4] >= size
        ]
        if fitting:
            block = min(fitting, key=lambda b: (b[4], b[3]))
        else:
            reserved = (
                2**21 if small else 20 * 2**20 if size < 10 * 2**20 else -(-size // 2**21) * 2**21
            )
            self.next += 2**40
            block = [self.next, stream, small, self.next, reserved, False]
            self.blocks.append(block)
        rest = block[4] - size
        if rest >= 512 if small else rest > 2**20:
            self.blocks.append([*block[:3], block[3] + size, rest, False])
            block[4] = size
        block[5] = True
        return block[3]

    def free(self, address: int) -> None:
        block = next(b for b in self.blocks if b[3] == address)
        block[5] = False
        for other in [b for b in self.blocks if b[0] == block[0] and not b[5] and b is not block]:
            if other[3] + other[4] == block[3]:
                block[3], block[4] = other[3], block[4] + other[4]
                self.blocks.remove(other)
            elif block[3] + block[4] == other[3]:
                block[4] += other[4]
                self.blocks.remove(other)


SIZES = st.one_of(
    st.integers(1, 4096),
    st.integers(1, 2 * MIB),
    st.integers(1, 40 * MIB),
    st.sampled_from([512, MIB, MIB + 1, 10 * MIB - 512, 10 * MIB, 19 * MIB, 20 * MIB]),
)
# A size and stream allocates; a number frees one of the live blocks.
ACTIONS = st.lists(st.one_of(st.tuples(SIZES, st.integers(0, 2)), st.integers(0, 2**16)))


def check(allocator: CachingAllocator, live: list[Block]) -> None:
    found = []
    for segment in allocator.segments:
        at, before_free = segment.address, False
        for block in segment.blocks():
            assert block.address == at
            assert block.segment is segment
            assert not (before_free and not block.live), "free neighbours are not merged"
            before_free = not block.live
            at += block.bytes
            if block.live:
                found.append(id(block))
        assert at == segment.address + segment.bytes
    assert sorted(found) == sorted(map(id, live))
    assert allocator.requested_bytes == sum(block.requested_bytes for block in live)
    assert allocator.allocated_bytes == sum(block.bytes for block in live)
    assert allocator.reserved_bytes == sum(segment.bytes for segment in allocator.segments)
    assert allocator.requested_bytes <= allocator.allocated_bytes <= allocator.reserved_bytes
    assert allocator.peak_requested_bytes <= allocator.peak_allocated_bytes
    assert allocator.peak_allocated_bytes <= allocator.peak_reserved_bytes


@given(ACTIONS)
def test_equals_the_slow_model(actions) -> None:
    allocator, slow = CachingAllocator(), SlowAllocator()
    live: list[Block] = []
    for action in actions:
        if isinstance(action, tuple):
            block = allocator.allocate(*action)
            assert block.address == slow.allocate(*action)
            live.append(block)
        elif live:
            block = live.pop(action % len(live))
            slow.free(block.address)
            allocator.free(block)
        check(allocator, live)
        assert allocator.allocated_bytes == sum(b[4] for b in slow.blocks if b[5])
        assert allocator.reserved_bytes == sum(b[4] for b in slow.blocks)
    for block in live:
        allocator.free(block)
    check(allocator, [])
    assert allocator.allocated_bytes == 0
    assert allocator.release_cached() == sum(b[4] for b in slow.blocks)
    assert allocator.reserved_bytes == 0
    assert not allocator.segments


@pytest.mark.slow
@given(ACTIONS, st.integers(1, 100))
def test_capacity_is_never_exceeded(actions, capacity_mib) -> None:
    allocator = CachingAllocator(capacity_bytes=capacity_mib * MIB)
    live: list[Block] = []
    for action in actions:
        if isinstance(action, tuple):
            try:
                live.append(allocator.allocate(*action))
            except OutOfDeviceMemoryError as error:
                assert error.reserved_bytes + error.segment_bytes > capacity_mib * MIB
        elif live:
            allocator.free(live.pop(action % len(live)))
        check(allocator, live)
        assert allocator.peak_reserved_bytes <= capacity_mib * MIB


@pytest.mark.slow
@given(ACTIONS)
def test_numbers_of_streams_do_not_matter(actions) -> None:
    totals = []
    for renamed in ((0, 1, 2), (9, 4, 7)):
        allocator, live = CachingAllocator(), []
        for action in actions:
            if isinstance(action, tuple):
                live.append(allocator.allocate(action[0], renamed[action[1]]))
            elif live:
                allocator.free(live.pop(action % len(live)))
        totals.append((allocator.peak_allocated_bytes, allocator.peak_reserved_bytes))
    assert totals[0] == totals[1]


@pytest.mark.slow
def test_a_million_events_take_seconds() -> None:
    allocator, live = CachingAllocator(), []
    began = time.perf_counter()
    for number in range(500_000):
        live.append(allocator.allocate((number * 7919) % (3 * MIB) + 1))
        if len(live) > 1000:
            allocator.free(live.pop((number * 31) % 1000))
    assert time.perf_counter() - began < 20
