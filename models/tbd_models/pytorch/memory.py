"""Record the memory of a workload's training in PyTorch, or estimate it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import Tensor

from tbd_models.instrument.marks import NoMarks
from tbd_models.instrument.memory_pytorch import MemoryRecorder
from tbd_models.instrument.memory_storages_pytorch import (
    BACKWARD,
    FORWARD,
    OPTIMIZER,
    OTHER,
)
from tbd_models.instrument.memory_training_pytorch import ITERATIONS, open_recorder
from tbd_models.pytorch.estimate import estimating, fake_batches, update_at_once
from tbd_models.pytorch.trainer import PyTorchTrainer, repeated_batches
from tbd_models.pytorch.workload import Batch, Workload
from tbd_models.recorded import Recorded
from tbd_models.settings import Settings

_PHASES = {"data": OTHER, "forward": FORWARD, "loss": FORWARD, "backward": BACKWARD,
           "optimizer": OPTIMIZER}  # fmt: skip


class PhaseMarks(NoMarks):
    """Set the recorder's phase from the marks of a trainer."""

    def __init__(self, recorder: MemoryRecorder) -> None:
        self._place = recorder.place

    def push(self, text: str) -> None:
        self._place.base = _PHASES[text.removeprefix("phase:")]
        self._place.layers.clear()

    def pop(self) -> None:
        self._place.base = OTHER


def record(trainer: PyTorchTrainer, path: Path, header: dict[str, Any]) -> None:
    """Record the live state of a trainer and a few iterations, the first included."""
    timed = not header.get("estimated", False)
    recorder, file = open_recorder(trainer.model, path, header, timed=timed)
    marks = PhaseMarks(recorder)
    try:
        recorder.start(trainer.optimizer)
        recorder.place.base = OTHER
        for number in range(ITERATIONS):
            recorder.place.iteration = number
            trainer.step(marks)
            recorder.adopt_state(trainer.optimizer)
        recorder.stop()
    except BaseException:
        recorder.stop()
        file.discard()
        raise
    file.close()


def measured(build: Any, dimensions: Any, settings: Settings, path: Path) -> Recorded:
    """Train for a few iterations and write memory.jsonl."""
    trainer = PyTorchTrainer(build, dimensions, settings, copied_batches)
    record(trainer, path, {"batch_size": settings.batch_size})
    return Recorded(trainer.describe(), trainer.layers())


def estimated(build: Any, dimensions: Any, settings: Settings, path: Path) -> Recorded:
    """Do the same from shapes alone, without data, device and memory for tensors."""
    with estimating(settings) as (on_cpu, assumptions):
        trainer = PyTorchTrainer(build, dimensions, on_cpu, fake_batches)
        if settings.device == "cuda":
            update_at_once(trainer.optimizer)
        header = {
            "batch_size": settings.batch_size,
            "device_type": settings.device,
            "allocator": "torch" if settings.device == "cuda" else "none",
            "estimated": True,
            "assumptions": assumptions,
        }
        record(trainer, path, header)
        return Recorded(trainer.describe(), trainer.layers())


def copied_batches(workload: Workload, settings: Settings) -> Callable[[int], Batch]:
    """Return batches like ``repeated_batches``, in new storages on a CPU too."""
    # A GPU receives each batch in a new storage, so that memory holds one batch, not all.
    get = repeated_batches(workload, settings)
    if settings.device != "cpu":
        return get
    return lambda number: {name: _copied(value) for name, value in get(number).items()}


def _copied(value: Any) -> Any:
    return value.clone() if isinstance(value, Tensor) else [_copied(entry) for entry in value]
