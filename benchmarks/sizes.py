"""How large a made trace is."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Size:
    """Dimensions of a made training run.

    Attributes:
        iterations: training iterations of each process.
        layers: layers of the model.
        kernels_per_layer: kernels of a layer's forward pass, and as many of its backward pass.
        depth: nested operator ranges around every kernel launch.
        threads: host threads of a process: 1 runs all, with 2 the backward pass has one of its
            own, further ones load data.
        processes: processes, each with a GPU of its own.
    """

    iterations: int
    layers: int = 100
    kernels_per_layer: int = 4
    depth: int = 7
    threads: int = 3
    processes: int = 2

    @property
    def kernels(self) -> int:
        """Number of kernels: forward, backward and one per layer by the optimizer."""
        per_iteration = self.layers * (2 * self.kernels_per_layer + 1)
        return self.processes * self.iterations * per_iteration


# Only the number of iterations differs, so that costs can be compared row by row.
SIZES = {
    "S": Size(iterations=18),
    "M": Size(iterations=158),
    "L": Size(iterations=1222),
    "toy": Size(iterations=4, layers=3, kernels_per_layer=2, depth=3),
}


def with_changes(size: Size, changes: dict[str, int | None]) -> Size:
    """Return a size with those dimensions replaced that are not None."""
    return replace(size, **{name: value for name, value in changes.items() if value is not None})
