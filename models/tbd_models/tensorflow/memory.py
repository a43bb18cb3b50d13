"""Estimate the memory of a workload's training in TensorFlow from the graph of a step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tbd_models.recorded import Recorded
from tbd_models.settings import Settings
from tbd_models.tensorflow.trainer import TensorFlowTrainer

_ITERATIONS = 3


def estimated(build: Any, dimensions: Any, settings: Settings, path: Path) -> Recorded:
    """Write memory.jsonl; tensors are those of the traced graph, in the order of its operations."""
    trainer = TensorFlowTrainer(build, dimensions, settings)
    trainer.record_memory(path, _ITERATIONS)
    return Recorded(trainer.describe(), trainer.layers())


# TensorFlow reports no single allocations: a run would give the same tensors.
measured = estimated
