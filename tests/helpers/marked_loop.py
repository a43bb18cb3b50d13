"""A small training loop, and a receiver of its ranges."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

BATCH = 3


class Ranges:
    """Ranges in the order of their ends, by a clock that counts events."""

    def __init__(self) -> None:
        self.now = 0
        self.ended: list[tuple[str, int, int]] = []
        self.open: dict[int, tuple[str, int]] = {}
        self._stack: list[int] = []

    def start(self, text: str) -> int:
        self.now += 1
        self.open[self.now] = (text, self.now)
        return self.now

    def end(self, handle: int) -> None:
        self.now += 1
        text, start = self.open.pop(handle)
        self.ended.append((text, start, self.now))

    def push(self, text: str) -> None:
        self._stack.append(self.start(text))

    def pop(self) -> None:
        self.end(self._stack.pop())

    def of(self, prefix: str) -> list[tuple[str, int, int]]:
        found = [(t.removeprefix(prefix), a, b) for t, a, b in self.ended if t.startswith(prefix)]
        return sorted(found, key=lambda entry: entry[1])

    def phases(self) -> list[list[str]]:
        """Return the phases in every iteration that ended."""
        return [
            [name for name, start, end in self.of("phase:") if begin < start and end < finish]
            for _, begin, finish in self.of("iteration ")
        ]


Model = tuple[nn.Module, Any]


def trained_model() -> Model:
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(inplace=True), nn.Linear(8, 2))
    return model, torch.optim.SGD(model.parameters(), lr=0.1)


def iterate(model: nn.Module, optimizer: Any, passes: int = 1) -> float:
    for _ in range(passes):
        loss = model(torch.randn(BATCH, 4)).square().mean()
        loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return float(loss.detach())
