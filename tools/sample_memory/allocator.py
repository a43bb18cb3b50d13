"""A small caching allocator: best fit in segments, with PyTorch's sizes."""

from __future__ import annotations

from dataclasses import dataclass, field

ROUND = 512
SMALL = 1 << 20  # larger requests come from large segments
SMALL_SEGMENT, LARGE_SEGMENT = 2 << 20, 20 << 20
_BASE = 0x7F00_0000_0000


def rounded(size: int) -> int:
    """Return the size of the block for a request."""
    return max(-(-size // ROUND) * ROUND, ROUND)


@dataclass
class Block:
    """A block of a segment; ``requested`` is None while it is free."""

    address: int
    size: int
    requested: int | None = None


@dataclass
class Segment:
    """Memory that the allocator holds; its blocks tile it."""

    address: int
    size: int
    is_small: bool
    blocks: list[Block] = field(default_factory=list)


class Allocator:
    """Allocator of one stream."""

    def __init__(self) -> None:
        self.segments: list[Segment] = []

    def allocate(self, size: int) -> tuple[int, Segment | None]:
        """Return the address of a new block, and the segment that it needed, if any."""
        wanted, is_small = rounded(size), size <= SMALL
        best = self._best(wanted, is_small)
        new = None
        if best is None:
            new = self._segment(is_small)
            best = new, new.blocks[0]
        segment, block = best
        rest = block.size - wanted
        if rest >= (ROUND if is_small else SMALL + 1):
            at = segment.blocks.index(block)
            segment.blocks.insert(at + 1, Block(block.address + wanted, rest))
            block.size = wanted
        block.requested = size
        return block.address, new

    def _best(self, wanted: int, is_small: bool) -> tuple[Segment, Block] | None:
        fitting = [
            (segment, block)
            for segment in self.segments
            if segment.is_small == is_small
            for block in segment.blocks
            if block.requested is None and block.size >= wanted
        ]
        return min(fitting, key=lambda pair: (pair[1].size, pair[1].address), default=None)

    def _segment(self, is_small: bool) -> Segment:
        size = SMALL_SEGMENT if is_small else LARGE_SEGMENT
        address = _BASE + len(self.segments) * (32 << 20)
        segment = Segment(address, size, is_small, [Block(address, size)])
        self.segments.append(segment)
        return segment

    def free(self, address: int) -> None:
        """Free the block at an address and merge it with free neighbours."""
        segment = next(s for s in self.segments if s.address <= address < s.address + s.size)
        block = next(b for b in segment.blocks if b.address == address)
        block.requested = None
        merged: list[Block] = []
        for part in segment.blocks:
            if merged and merged[-1].requested is None and part.requested is None:
                merged[-1].size += part.size
            else:
                merged.append(part)
        segment.blocks = merged
