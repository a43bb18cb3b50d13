"""Plans for a made chain of blocks, compared with all subsets of the blocks."""

from __future__ import annotations

from itertools import chain, combinations
from typing import Any

import pytest

from tbd_collectors.fit.checkpoint_model import CheckpointModel
from tbd_collectors.fit.checkpoint_plan import Planner
from tbd_collectors.fit.memory_log import Allocation, MemoryLog
from tbd_collectors.fit.need import peak_bytes

# Bytes of the map inside of each block, and FLOP of its forward pass.
INSIDE = {"h.0": 70, "h.1": 40, "h.2": 90, "h.3": 40}
FLOP = {"h.0": 50, "h.1": 40, "h.2": 95, "h.3": 20}


class Chain:
    """A log of a weight and blocks: each keeps a map and passes on its output of 10 B."""

    def __init__(self) -> None:
        self.allocations = {0: Allocation("weight", 100, "fc", "setup", None)}
        self.order = [(0, True)]

    def add(self, size: int, layer: str, phase: str = "forward") -> int:
        number = len(self.allocations)
        self.allocations[number] = Allocation("feature_map", size, layer, phase, 0)
        self.order.append((number, True))
        return number

    def free(self, *numbers: int) -> None:
        self.order += [(number, False) for number in numbers]


def made() -> tuple[MemoryLog, list[dict[str, Any]]]:
    steps = Chain()
    given, inside, found = [steps.add(10, "input")], {}, []
    for name, size in INSIDE.items():
        passing = steps.add(5, f"{name}.norm")
        inside[name] = steps.add(size, f"{name}.fc")
        steps.free(passing)
        given.append(steps.add(10, name))
        found.append({"name": name, "flop": FLOP[name], "calls": [[given[-2:-1], given[-1:]]]})
    for name in reversed(INSIDE):
        gradient = steps.add(10, f"{name}.fc", "backward")
        steps.free(inside[name], given.pop(), gradient)
    return MemoryLog(steps.allocations, steps.order), found


def subsets(model: CheckpointModel) -> list[tuple[int, int]]:
    """Return peak and FLOP of all subsets of the blocks."""
    blocks = model.blocks
    chosen = chain.from_iterable(combinations(blocks, n) for n in range(len(blocks) + 1))
    return [(peak_bytes(model.changes(some)), sum(b.flop for b in some)) for some in chosen]


def test_the_log_without_checkpointing_is_unchanged() -> None:
    log, found = made()
    model = CheckpointModel(log, found)
    assert model.changes([]) == list(log.changes())
    assert peak_bytes(log.changes()) == 100 + 10 + sum(INSIDE.values()) + 4 * 10 + 10


def test_a_block_is_made_again_before_its_backward_pass() -> None:
    log, found = made()
    model = CheckpointModel(log, found)
    (last,) = [block for block in model.blocks if block.name == "h.3"]
    # Its map is freed and made again at once: the peak stays, and all bytes are freed once.
    assert peak_bytes(model.changes([last])) == peak_bytes(log.changes())
    assert sum(size for _, size in model.changes([last])) == sum(s for _, s in log.changes())
    (first,) = [block for block in model.blocks if block.name == "h.0"]
    assert peak_bytes(model.changes([first])) == peak_bytes(log.changes()) - INSIDE["h.0"]


@pytest.mark.parametrize("limit", range(150, 410, 10))
def test_no_subset_is_cheaper(limit: int) -> None:
    model = CheckpointModel(*made())
    plan = Planner(model).plan(limit)
    possible = [flop for peak, flop in subsets(model) if peak <= limit]
    if not possible:
        assert plan is None
        assert Planner(model).smallest().peak_bytes > limit
        return
    assert plan is not None
    assert plan.flop == min(possible)
    assert plan.peak_bytes <= limit
