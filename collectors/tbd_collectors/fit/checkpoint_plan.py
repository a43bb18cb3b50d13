"""Find the blocks to checkpoint that make a program fit, with the least work to compute again."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

from tbd_collectors.fit.checkpoint_model import CheckpointModel
from tbd_collectors.fit.cover import Constraint, cheapest
from tbd_collectors.fit.need import peak_bytes

_ROUNDS = 200  # each adds a constraint, of which there are at most as many as events


@dataclass(frozen=True, slots=True)
class Plan:
    """Blocks to checkpoint."""

    blocks: tuple[str, ...]
    flop: int  # that an iteration computes again
    peak_bytes: int  # of tensors, as modelled


class Planner:
    """Solve for the least FLOP whose modelled peak stays below a limit.

    Constraints are added where the solution so far exceeds the limit, until it does not.
    """

    def __init__(self, model: CheckpointModel) -> None:
        self._model = model
        self._blocks = [block for block in model.blocks if model.freed_bytes(block)]
        self._spans = [model.freed_bytes(block) for block in self._blocks]

    def plan(self, limit_bytes: int) -> Plan | None:
        """Return the cheapest plan for a peak of tensors; None if no plan fits."""
        limit = limit_bytes
        constraints: list[Constraint] = []
        for _ in range(_ROUNDS):
            items = cheapest([block.flop for block in self._blocks], constraints)
            if items is None:
                return None
            chosen = [self._blocks[item] for item in items]
            peak = peak_bytes(self._model.changes(chosen))
            if peak <= limit_bytes:
                flop = sum(block.flop for block in chosen)
                return Plan(tuple(block.name for block in chosen), flop, peak)
            worst = self._worst(set(items), limit)
            if worst is not None:
                constraints.append(worst)
            else:  # inputs that live longer are not part of the constraints
                limit -= peak - limit_bytes
                constraints = [
                    Constraint(c.gains, c.least + peak - limit_bytes, c.only_with)
                    for c in constraints
                ]
        return None

    def smallest(self) -> Plan:
        """Return the plan with all blocks."""
        peak = peak_bytes(self._model.changes(self._blocks))
        flop = sum(block.flop for block in self._blocks)
        return Plan(tuple(block.name for block in self._blocks), flop, peak)

    def _worst(self, items: set[int], limit: int) -> Constraint | None:
        # The instant at which the chosen blocks exceed the limit most.
        live = self._live(items)
        place = max(range(len(live)), key=live.__getitem__)
        found: tuple[int, int, int | None] = (place, 0, None)
        excess = live[place] - limit
        for item in items:
            for at, added in self._model.recomputations(self._blocks[item]):
                if live[at] + added - limit > excess:
                    excess, found = live[at] + added - limit, (at, added, item)
        if excess <= 0:
            return None
        at, added, only_with = found
        gains = tuple(sum(s for a, b, s in spans if a <= at <= b) for spans in self._spans)
        return Constraint(gains, self._model.live[at] + added - limit, only_with)

    def _live(self, items: set[int]) -> list[int]:
        steps = [0] * (len(self._model.live) + 1)
        for item in items:
            for first, last, size in self._spans[item]:
                steps[first] -= size
                steps[last + 1] += size
        return [a + b for a, b in zip(self._model.live, accumulate(steps), strict=False)]
