"""Define the training settings that all frameworks share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

EXECUTIONS = ("auto", "eager", "graph", "xla")


@dataclass(frozen=True, slots=True)
class Settings:
    """Training settings."""

    batch_size: int  # samples per iteration
    # fp32, tf32 (matrix products in TF32), or mixed (autocast: FP16 with loss scaling on a GPU,
    # BF16 on a CPU).
    precision: str = "fp32"
    device: str = "cpu"  # or cuda
    seed: int = 0  # of weights and data
    data: Path | None = None  # directory with a data set, None for synthetic data
    # eager (operation by operation), graph, xla (compiled), or auto, the framework's usual way.
    execution: str = "auto"
    marked: bool = False  # emit ranges for phases and layers
