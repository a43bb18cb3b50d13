"""Divide the states of training over GPUs."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from tbd_collectors.fit.memory_log import Allocation, MemoryLog

_STATES = {
    "fsdp": {"weight", "weight_gradient", "optimizer_state", "optimizer_temporary"},
    "zero2": {"weight_gradient", "optimizer_state", "optimizer_temporary"},
}


@dataclass(frozen=True, slots=True)
class Sharding:
    """States divided over GPUs."""

    scheme: str  # fsdp divides weights, gradients, optimizer state; zero2 leaves weights whole
    gpus: int
    blocks: tuple[str, ...]  # names of layers whose weights are gathered one after another

    def size(self, one: Allocation) -> int:
        """Return the bytes of an allocation on each GPU."""
        if one.kind not in _STATES[self.scheme]:
            return one.bytes
        return -(-one.bytes // self.gpus)

    def gathered_bytes(self, log: MemoryLog) -> int:
        """Return the whole weights that exist at a time beside the divided ones.

        With fsdp these are the weights outside of blocks, and two blocks: the next one is gathered
        while one computes.
        """
        if self.scheme != "fsdp":
            return 0
        weights: dict[str, int] = defaultdict(int)
        for one in log.allocations.values():
            if one.kind == "weight":
                weights[self._block(one.layer or "")] += one.bytes
        outside = weights.pop("", 0)
        return outside + sum(sorted(weights.values())[-2:])

    def _block(self, layer: str) -> str:
        return next((b for b in self.blocks if layer == b or layer.startswith(f"{b}.")), "")
