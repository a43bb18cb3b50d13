"""Choose a cheapest subset under linear constraints, exactly, by branch and bound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from math import gcd, inf


@dataclass(frozen=True, slots=True)
class Constraint:
    """The chosen items' gains must reach ``least``, if item ``only_with`` is chosen (or always)."""

    gains: tuple[int, ...]
    least: int
    only_with: int | None = None


def cheapest(costs: Sequence[int], constraints: Sequence[Constraint]) -> list[int] | None:
    """Return the items of a cheapest subset that satisfies all constraints; None if there is none.

    The bound of a node is that of the fractional problem of each constraint alone, rounded up to
    the greatest common divisor of the costs.
    """
    return _Search(costs, constraints).run()


class _Search:
    def __init__(self, costs: Sequence[int], constraints: Sequence[Constraint]) -> None:
        self._costs = costs
        self._constraints = constraints
        self._unit = reduce(gcd, costs, 0) or 1
        # Items alike in everything are taken in order: other choices among them are the same.
        conditional = {c.only_with for c in constraints}
        keys = [
            (cost, tuple(c.gains[i] for c in constraints), i if i in conditional else None)
            for i, cost in enumerate(costs)
        ]
        self._order = sorted(range(len(costs)), key=lambda i: (-_worth(i, costs, constraints), i))
        self._twin: dict[int, int] = {}
        last: dict[object, int] = {}
        for item in self._order:
            if keys[item] in last:
                self._twin[item] = last[keys[item]]
            last[keys[item]] = item
        self._best: tuple[float, list[int] | None] = (inf, None)

    def run(self) -> list[int] | None:
        needs = [constraint.least for constraint in self._constraints]
        self._visit(0, [], 0, needs)
        return self._best[1]

    def _visit(self, depth: int, chosen: list[int], cost: int, needs: list[int]) -> None:
        if self._bound(depth, chosen, cost, needs) >= self._best[0]:
            return
        if all(need <= 0 for need in self._active(chosen, needs)):
            self._best = (cost, sorted(chosen))
            return
        if depth == len(self._order):
            return
        item = self._order[depth]
        twin = self._twin.get(item)
        if twin is None or twin in chosen:
            rest = [
                need - constraint.gains[item]
                for need, constraint in zip(needs, self._constraints, strict=True)
            ]
            self._visit(depth + 1, [*chosen, item], cost + self._costs[item], rest)
        self._visit(depth + 1, chosen, cost, needs)

    def _active(self, chosen: list[int], needs: list[int]) -> list[int]:
        return [
            need
            for need, constraint in zip(needs, self._constraints, strict=True)
            if constraint.only_with is None or constraint.only_with in chosen
        ]

    def _bound(self, depth: int, chosen: list[int], cost: int, needs: list[int]) -> float:
        bound = float(cost)
        free = self._order[depth:]
        for need, constraint in zip(needs, self._constraints, strict=True):
            is_active = constraint.only_with is None or constraint.only_with in chosen
            if is_active and need > 0:
                least = _fractional(need, free, constraint.gains, self._costs)
                bound = max(bound, cost + _rounded_up(least, self._unit))
        return bound


def _worth(item: int, costs: Sequence[int], constraints: Sequence[Constraint]) -> float:
    gain = sum(constraint.gains[item] for constraint in constraints)
    return gain / max(costs[item], 1)


def _fractional(
    need: int, free: Sequence[int], gains: Sequence[int], costs: Sequence[int]
) -> float:
    # The least cost if parts of items could be chosen.
    useful = [item for item in free if gains[item] > 0]
    total = 0.0
    for item in sorted(useful, key=lambda i: costs[i] / gains[i]):
        if need <= gains[item]:
            return total + costs[item] * need / gains[item]
        total += costs[item]
        need -= gains[item]
    return inf


def _rounded_up(value: float, unit: int) -> float:
    # The tolerance keeps a sum of shares from being rounded up to the next multiple.
    return value if value == inf else -(-(value * (1 - 1e-12)) // unit) * unit
