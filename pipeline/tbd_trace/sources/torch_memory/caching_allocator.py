"""Simulate the CUDA caching allocator of PyTorch with its default settings.

Rules of ``c10/cuda/CUDACachingAllocator.cpp``. Not simulated: expandable segments, private pools of
CUDA graphs, and the options ``max_split_size_mb``, ``roundup_power2_divisions`` and
``garbage_collection_threshold``.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain, count

_MIB = 2**20
_ROUNDING = 512  # sizes of blocks are multiples
_LARGEST_SMALL = 1 * _MIB  # larger requests use the large pool
_SMALL_SEGMENT = 2 * _MIB
_LARGE_SEGMENT = 20 * _MIB
_SHARED_BELOW = 10 * _MIB  # larger requests get a segment of their size
_SEGMENT_ROUNDING = 2 * _MIB
_FIRST_ADDRESS = 2**40


class OutOfDeviceMemoryError(Exception):
    """An allocation exceeds the capacity of the device."""

    def __init__(self, segment_bytes: int, reserved_bytes: int, capacity_bytes: int) -> None:
        super().__init__(
            f"segment of {segment_bytes:,} B: {reserved_bytes:,} of {capacity_bytes:,} B reserved"
        )
        self.segment_bytes = segment_bytes  # size of the segment that does not fit
        self.reserved_bytes = reserved_bytes  # after the release of cached segments
        self.capacity_bytes = capacity_bytes


@dataclass(slots=True, eq=False)
class Block:
    """A part of a segment: one allocation, or free space."""

    address: int
    bytes: int  # including rounding
    requested_bytes: int  # 0 if free
    segment: Segment | None = field(repr=False)  # None for allocations of 0 bytes
    live: bool
    previous: Block | None = field(default=None, repr=False)  # neighbours in the segment
    next: Block | None = field(default=None, repr=False)


@dataclass(slots=True, eq=False)
class Segment:
    """Device memory obtained by one cudaMalloc."""

    address: int
    bytes: int
    stream: int
    small: bool  # pool
    free_list: _FreeList
    first: Block

    def blocks(self) -> Iterator[Block]:
        """Yield the blocks in order of their addresses; they fill the segment."""
        block: Block | None = self.first
        while block:
            yield block
            block = block.next


class _FreeList:
    # Free blocks of one pool and stream, ordered by size, then address.

    __slots__ = ("blocks", "keys")

    def __init__(self) -> None:
        self.keys: list[tuple[int, int]] = []
        self.blocks: dict[int, Block] = {}

    def add(self, block: Block) -> None:
        insort(self.keys, (block.bytes, block.address))
        self.blocks[block.address] = block

    def remove(self, block: Block) -> None:
        del self.keys[bisect_left(self.keys, (block.bytes, block.address))]
        del self.blocks[block.address]

    def pop_best_fit(self, size: int) -> Block | None:
        # A tuple of one element is less than all keys of the same size.
        index = bisect_left(self.keys, (size,))
        if index == len(self.keys):
            return None
        return self.blocks.pop(self.keys.pop(index)[1])


def rounded(requested: int) -> int:
    """Return the size of the block for a request."""
    return max(_ROUNDING, (requested + _ROUNDING - 1) // _ROUNDING * _ROUNDING)


def segment_bytes(size: int) -> int:
    """Return the size of a new segment for a block of `size` bytes."""
    if size <= _LARGEST_SMALL:
        return _SMALL_SEGMENT
    if size < _SHARED_BELOW:
        return _LARGE_SEGMENT
    return (size + _SEGMENT_ROUNDING - 1) // _SEGMENT_ROUNDING * _SEGMENT_ROUNDING


class CachingAllocator:
    """Allocator of one device.

    Args:
        capacity_bytes: memory available to segments; None is unlimited.
        segment_addresses: addresses of successive segments, which decide between free blocks of
            equal size; ascending when exhausted or None.
    """

    def __init__(
        self, capacity_bytes: int | None = None, segment_addresses: Iterator[int] | None = None
    ) -> None:
        self.capacity_bytes = capacity_bytes
        self.requested_bytes = self.peak_requested_bytes = 0
        self.allocated_bytes = self.peak_allocated_bytes = 0
        self.reserved_bytes = self.peak_reserved_bytes = 0
        self.peak_segments = 0  # most segments at a time
        # Gaps of one size between segments of at most 1 TiB: addresses cannot overlap.
        self._addresses = chain(segment_addresses or (), count(_FIRST_ADDRESS, _FIRST_ADDRESS))
        self._segments: dict[int, Segment] = {}
        self._free: dict[tuple[bool, int], _FreeList] = {}

    @property
    def segments(self) -> list[Segment]:
        """Segments in order of their creation."""
        return list(self._segments.values())

    def allocate(self, requested: int, stream: int = 0) -> Block:
        """Allocate `requested` bytes.

        Raises:
            OutOfDeviceMemoryError: the capacity is exceeded after the release of cached segments.
        """
        if requested < 0:
            raise ValueError(f"negative size {requested}")
        if requested == 0:
            # PyTorch returns a null pointer, without a block.
            return Block(0, 0, 0, None, live=True)
        size = rounded(requested)
        small = size <= _LARGEST_SMALL
        free = self._free.get((small, stream))
        if free is None:
            free = self._free[small, stream] = _FreeList()
        block = free.pop_best_fit(size) or self._new_segment(size, stream, small, free).first
        rest = block.bytes - size
        if rest > _LARGEST_SMALL or (small and rest >= _ROUNDING):
            self._split(block, size, free)
        block.live = True
        block.requested_bytes = requested
        self._count(requested, block.bytes)
        return block

    def free(self, block: Block) -> None:
        """Return a block to its segment, and merge it with free neighbours."""
        if not block.live:
            raise ValueError(f"block at {block.address:#x} is already free")
        block.live = False
        segment = block.segment
        if segment is None:
            return
        self._count(-block.requested_bytes, -block.bytes)
        block.requested_bytes = 0
        # The left block absorbs the right one, so that the first block of a segment remains.
        if block.next and not block.next.live:
            segment.free_list.remove(block.next)
            _absorb_next(block)
        if block.previous and not block.previous.live:
            block = block.previous
            segment.free_list.remove(block)
            _absorb_next(block)
        segment.free_list.add(block)

    def release_cached(self) -> int:
        """Release segments without allocations, as ``empty_cache``; return their bytes."""
        before = self.reserved_bytes
        for segment in self.segments:
            if not segment.first.live and segment.first.next is None:
                segment.free_list.remove(segment.first)
                del self._segments[segment.address]
                self.reserved_bytes -= segment.bytes
        return before - self.reserved_bytes

    def _new_segment(self, size: int, stream: int, small: bool, free: _FreeList) -> Segment:
        wanted = segment_bytes(size)
        if self._exceeds(wanted):
            self.release_cached()
            if self._exceeds(wanted):
                raise OutOfDeviceMemoryError(wanted, self.reserved_bytes, self.capacity_bytes or 0)
        address = next(self._addresses)
        block = Block(address, wanted, 0, None, live=False)
        block.segment = Segment(address, wanted, stream, small, free, block)
        self._segments[address] = block.segment
        self.reserved_bytes += wanted
        self.peak_reserved_bytes = max(self.peak_reserved_bytes, self.reserved_bytes)
        self.peak_segments = max(self.peak_segments, len(self._segments))
        return block.segment

    def _exceeds(self, size: int) -> bool:
        return self.capacity_bytes is not None and self.reserved_bytes + size > self.capacity_bytes

    def _split(self, block: Block, size: int, free: _FreeList) -> None:
        rest = Block(block.address + size, block.bytes - size, 0, block.segment, live=False)
        rest.previous, rest.next = block, block.next
        if rest.next:
            rest.next.previous = rest
        block.next = rest
        block.bytes = size
        free.add(rest)

    def _count(self, requested: int, size: int) -> None:
        self.requested_bytes += requested
        self.allocated_bytes += size
        if size > 0:
            self.peak_requested_bytes = max(self.peak_requested_bytes, self.requested_bytes)
            self.peak_allocated_bytes = max(self.peak_allocated_bytes, self.allocated_bytes)


def _absorb_next(block: Block) -> None:
    absorbed = block.next
    assert absorbed is not None
    block.bytes += absorbed.bytes
    block.next = absorbed.next
    if block.next:
        block.next.previous = block
