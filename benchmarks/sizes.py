"""Sizes of synthetic traces."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Size:
    """Dimensions of a synthetic training run."""

    iterations: int  # of each process
    layers: int = 100
    kernels_per_layer: int = 4  # in the forward pass, and as many in the backward pass
    depth: int = 7  # nested operator ranges around each kernel launch
    threads: int = 3  # of a process: main, autograd, then data loaders
    processes: int = 2  # one GPU each

    @property
    def kernels(self) -> int:
        """Number of kernels: forward, backward and one per layer in the optimizer."""
        per_iteration = self.layers * (2 * self.kernels_per_layer + 1)
        return self.processes * self.iterations * per_iteration


# Sizes differ only in iterations, so that costs per row can be compared.
SIZES = {
    "S": Size(iterations=18),
    "M": Size(iterations=158),
    "L": Size(iterations=1222),
    "toy": Size(iterations=4, layers=3, kernels_per_layer=2, depth=3),
}


def with_changes(size: Size, changes: dict[str, int | None]) -> Size:
    """Return a size with the given dimensions replaced; None keeps a dimension."""
    return replace(size, **{name: value for name, value in changes.items() if value is not None})
