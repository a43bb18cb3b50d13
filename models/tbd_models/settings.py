"""How to train, whatever the framework."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

EXECUTIONS = ("auto", "eager", "graph", "xla")


@dataclass(frozen=True, slots=True)
class Settings:
    """How to train.

    Attributes:
        batch_size: samples per iteration.
        precision: ``fp32``, ``tf32`` (matrix products in TF32) or ``mixed`` (automatic casting to
            FP16 with loss scaling on a GPU, to BF16 on a CPU).
        device: ``cuda`` or ``cpu``.
        seed: of weights and data.
        data: directory with a data set, None for synthetic data.
        execution: how the framework runs the model: ``eager`` (operation by operation), ``graph``
            (as a whole), ``xla`` (compiled), or ``auto``, what the framework's users do.
        marked: whether layers and phases are marked.
    """

    batch_size: int
    precision: str = "fp32"
    device: str = "cpu"
    seed: int = 0
    data: Path | None = None
    execution: str = "auto"
    marked: bool = False
