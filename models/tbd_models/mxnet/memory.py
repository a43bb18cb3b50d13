"""Estimate the memory of a workload's training in MXNet from shapes and gradients."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tbd_models.mxnet.trainer import MXNetTrainer
from tbd_models.recorded import Recorded
from tbd_models.settings import Settings

_ITERATIONS = 3


def estimated(build: Any, dimensions: Any, settings: Settings, path: Path) -> Recorded:
    """Write memory.jsonl; arrays are those of the graph of an iteration."""
    trainer = MXNetTrainer(build, dimensions, settings)
    trainer.record_memory(path, _ITERATIONS)
    return Recorded(trainer.describe(), trainer.layers())


# MXNet reports no single allocations: a run would give the same arrays.
measured = estimated
