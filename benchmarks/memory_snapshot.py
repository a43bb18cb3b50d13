"""Generate a memory snapshot of a PyTorch training of any length.

Usage: python -m benchmarks.memory_snapshot FILE [--events N] [--seed S]

Prints the requested bytes before, at the peak and at the end of the history, which are counted
while it is generated. Equal arguments give equal files.
"""

from __future__ import annotations

import argparse
import pickle
import random
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tbd_trace.sources.torch_memory.caching_allocator import Block, CachingAllocator, Segment

EVENTS = 1_000_000  # 59 MB
STACKS = 400
_LAYERS = 40
_START_US = 1_700_000_000_000_000

Event = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Truth:
    """Numbers of a generated snapshot; bytes are requested sizes."""

    events: int
    start_bytes: int  # before the first event
    start_blocks: int
    peak_bytes: int
    peak_event: int  # first event with the peak, from 0
    end_bytes: int
    end_blocks: int
    reserved_bytes: int  # at the end


class _History:
    """Events of an allocator, with bytes and blocks in use after each."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.allocator = CachingAllocator()
        self.events: list[Event] = []
        self.bytes_after: list[int] = []
        self.blocks_after: list[int] = []
        self.live: dict[int, list[Event]] = {}  # frames by address
        self.stacks = [_stack(number) for number in range(STACKS)]
        self.segments: set[int] = set()
        self.microseconds = _START_US

    def allocate(self, size: int, stack: int) -> Block:
        block = self.allocator.allocate(size)
        frames = self.stacks[stack % STACKS]
        segment = block.segment
        if segment and segment.address not in self.segments:
            self.segments.add(segment.address)
            self._record("segment_alloc", segment.address, segment.bytes, frames)
        self.live[block.address] = frames
        self._record("alloc", block.address, size, frames)
        return block

    def free(self, block: Block, stack: int) -> None:
        frames, address, size = self.stacks[stack % STACKS], block.address, block.requested_bytes
        self._record("free_requested", address, size, frames)
        del self.live[address]
        self.allocator.free(block)
        self._record("free_completed", address, size, frames)

    def _record(self, action: str, address: int, size: int, frames: list[Event]) -> None:
        self.microseconds += self.random.randrange(1, 40)
        self.events.append(
            {
                "action": action,
                "addr": address,
                "size": size,
                "stream": 0,
                "time_us": self.microseconds,
                "frames": frames,
            }
        )
        self.bytes_after.append(self.allocator.requested_bytes)
        self.blocks_after.append(len(self.live))


def _stack(number: int) -> list[Event]:
    return [
        {"filename": f"model/layer_{number % 97}.py", "line": number + depth, "name": f"f{depth}"}
        for depth in range(8 + number % 25)
    ]


def _iteration(history: _History, weights: list[int]) -> None:
    scale = history.random.choice((1, 2, 3))  # lengths of sequences vary
    saved: list[Block] = []
    for layer, weight in enumerate(weights):
        for output in range(3):
            size = scale * (weight // (output + 1)) + history.random.randrange(1, 4096)
            saved.append(history.allocate(size, 10 * layer + output))
        for scratch in range(3):
            stack = 10 * layer + 3 + scratch
            history.free(history.allocate(512 + history.random.randrange(2**22), stack), stack)
    gradients: list[Block] = []
    for layer, weight in reversed(list(enumerate(weights))):
        flowing = history.allocate(scale * weight, 10 * layer + 6)
        gradients.append(history.allocate(4 * weight, 10 * layer + 7))
        for _ in range(3):
            history.free(saved.pop(), 10 * layer + 8)
        history.free(flowing, 10 * layer + 9)
    for gradient in gradients:
        temporary = history.allocate(gradient.requested_bytes, 9)
        history.free(temporary, 9)
        history.free(gradient, 9)


def _segment(segment: Segment, frames: dict[int, list[Event]]) -> dict[str, Any]:
    blocks = list(segment.blocks())
    allocated = sum(block.bytes for block in blocks if block.live)
    return {
        "device": 0,
        "address": segment.address,
        "total_size": segment.bytes,
        "allocated_size": allocated,
        "active_size": allocated,
        "requested_size": sum(block.requested_bytes for block in blocks),
        "stream": segment.stream,
        "segment_type": "small" if segment.small else "large",
        "segment_pool_id": (0, 0),
        "is_expandable": False,
        "frames": [],
        "blocks": [
            {
                "address": block.address,
                "size": block.bytes,
                "requested_size": block.requested_bytes,
                "state": "active_allocated" if block.live else "inactive",
                "frames": frames.get(block.address, []) if block.live else [],
            }
            for block in blocks
        ],
    }


def write_snapshot(path: Path, events: int = EVENTS, seed: int = 0) -> Truth:
    """Write a snapshot whose history is a full ring buffer of `events` events."""
    if events < 1:
        raise ValueError(f"{events} events: at least 1 is required")
    history = _History(seed)
    weights = [history.random.randrange(2**10, 2**21) for _ in range(_LAYERS)]
    for layer, weight in enumerate(weights):
        for copy in range(3):  # the weight and the two moments of Adam
            history.allocate(4 * weight, 10 * layer + copy)
    # The ring buffer drops all events of the set-up.
    needed = len(history.events) + events
    while len(history.events) < needed:
        _iteration(history, weights)
    kept = history.bytes_after[-events:]
    snapshot = {
        "segments": [_segment(segment, history.live) for segment in history.allocator.segments],
        "device_traces": [history.events[-events:]],
        "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": "", "expandable_segments": False},
        "external_annotations": [],
    }
    with path.open("wb") as file:
        pickle.dump(snapshot, file, protocol=4)
    return Truth(
        events=events,
        start_bytes=history.bytes_after[-events - 1],
        start_blocks=history.blocks_after[-events - 1],
        peak_bytes=max(kept),
        peak_event=kept.index(max(kept)),
        end_bytes=kept[-1],
        end_blocks=history.blocks_after[-1],
        reserved_bytes=history.allocator.reserved_bytes,
    )


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path, metavar="FILE")
    parser.add_argument("--events", type=int, default=EVENTS, metavar="N")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for name, value in asdict(write_snapshot(options.file, options.events, options.seed)).items():
        print(f"{name:<16} {value:>15,}")


if __name__ == "__main__":
    main()
