"""Model how checkpointing of blocks changes a memory log.

A checkpointed block frees its feature maps at the end of its forward pass, and makes them again
before its backward pass. Its inputs live until then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain
from typing import Any

from tbd_collectors.fit.memory_log import Change, MemoryLog


@dataclass(slots=True)
class Call:
    """One forward and backward pass of a block; positions are those of the log's order."""

    made: list[int] = field(default_factory=list)  # positions of allocations in the forward pass
    end: int = 0  # position of the last of them
    backward: int | None = None  # position of the first allocation of the backward pass
    inputs: list[int] = field(default_factory=list)  # numbers of allocations
    outputs: list[int] = field(default_factory=list)
    freed: list[int] = field(default_factory=list)  # numbers freed by checkpointing
    replay: list[Change] = field(default_factory=list)  # before the backward pass


@dataclass(slots=True)
class Block:
    """A block that can be checkpointed."""

    name: str
    flop: int  # of its forward passes in an iteration
    calls: list[Call]


class CheckpointModel:
    """The memory of a log with any set of its blocks checkpointed.

    Args:
        log: the log without checkpointing.
        found: the blocks, as in the report of the program.
    """

    def __init__(self, log: MemoryLog, found: Sequence[dict[str, Any]]) -> None:
        self._log = log
        self._changes = list(log.changes())
        self._died = {n: at for at, (n, begins) in enumerate(log.order) if not begins}
        self.live = list(accumulate(size for _, size in self._changes))
        self.blocks = [self._block(entry) for entry in found]

    def changes(self, chosen: Sequence[Block]) -> list[Change]:
        """Return the changes of live bytes with some blocks checkpointed."""
        after: dict[int, list[Change]] = {}
        before: dict[int, list[Change]] = {}
        late: dict[int, int] = {}  # positions where inputs die
        for call in chain.from_iterable(block.calls for block in chosen):
            if call.backward is None:
                continue
            freed = [(number, -self._bytes(number)) for number in call.freed]
            after.setdefault(call.end, []).extend(freed)
            before.setdefault(call.backward, []).extend(call.replay)
            for number in call.inputs:
                if self._died.get(number, call.backward) < call.backward:
                    late[number] = max(late.get(number, 0), call.backward)
        for number, place in late.items():
            before.setdefault(place, []).append((number, -self._bytes(number)))
        found: list[Change] = []
        for place, change in enumerate(self._changes):
            found += before.get(place, ())
            if not (change[0] in late and change[1] < 0):
                found.append(change)
            found += after.get(place, ())
        return found

    def freed_bytes(self, block: Block) -> list[tuple[int, int, int]]:
        """Return the spans in which a block saves memory: first, last position, bytes."""
        return [
            (call.end, call.backward - 1, sum(map(self._bytes, call.freed)))
            for call in block.calls
            if call.backward is not None and call.freed
        ]

    def recomputations(self, block: Block) -> list[tuple[int, int]]:
        """Return where a block is computed again, and the most bytes that this adds there."""
        return [
            (call.backward - 1, max(accumulate(size for _, size in call.replay)))
            for call in block.calls
            if call.backward is not None and call.replay
        ]

    def _bytes(self, number: int) -> int:
        return self._log.allocations[number].bytes

    def _block(self, entry: dict[str, Any]) -> Block:
        calls: list[Call] = []
        for place, (number, begins) in enumerate(self._log.order):
            one = self._log.allocations[number]
            if not begins or not _is_inside(one.layer, entry["name"]):
                continue
            if one.phase == "forward":
                if not calls or calls[-1].backward is not None:
                    calls.append(Call())
                calls[-1].made.append(place)
                calls[-1].end = place
            elif one.phase == "backward" and calls and calls[-1].backward is None:
                calls[-1].backward = place
        for call, (inputs, outputs) in zip(calls, entry["calls"], strict=False):
            call.inputs, call.outputs = inputs, outputs
            self._divide(call)
        return Block(entry["name"], entry["flop"], calls)

    def _divide(self, call: Call) -> None:
        # Allocations of the forward pass that live until the backward pass are freed and made
        # again, and so are the others before the last of them.
        if call.backward is None:
            return
        numbers = [self._log.order[place][0] for place in call.made]
        kept = {*call.outputs, *call.inputs}
        lasting = [n for n in numbers if self._died.get(n, call.backward) >= call.backward]
        call.freed = [number for number in lasting if number not in kept]
        if not call.freed:
            return
        last = next(p for p in call.made[::-1] if self._log.order[p][0] == call.freed[-1])
        made, passing = set(numbers), set(call.freed)
        for place in range(call.made[0], last + 1):
            number, begins = self._log.order[place]
            if number in made:
                # A copy of a passing allocation gets a number that is not in the log.
                copy = number if number in passing else -1 - number
                call.replay.append((copy, self._bytes(number) * (1 if begins else -1)))
        alive = {number for number, size in call.replay if number < 0 and size > 0}
        alive -= {number for number, size in call.replay if number < 0 and size < 0}
        call.replay += [(number, -self._bytes(-1 - number)) for number in sorted(alive)]


def _is_inside(layer: str | None, block: str) -> bool:
    return layer is not None and (layer == block or layer.startswith(f"{block}."))
