"""Define the training settings that all frameworks share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tbd_models.definition import UnsupportedError

if TYPE_CHECKING:
    from tbd_models.corpus import Plan

EXECUTIONS = ("auto", "eager", "graph", "xla")
INPUTS = ("synthetic", "decode")
SCHEMES = ("ddp", "fsdp", "ps", "p3", "serial", "dist_sync")


@dataclass(frozen=True, slots=True)
class Settings:
    """Training settings."""

    batch_size: int  # samples per iteration
    # fp32, tf32 (matrix products in TF32), or mixed (autocast: FP16 with loss scaling on a GPU,
    # BF16 on a CPU, and on a GPU for workloads that prefer it).
    precision: str = "fp32"
    device: str = "cpu"  # or cuda
    seed: int = 0  # of weights and data
    data: Path | None = None  # directory with a data set, None for synthetic data
    # eager (operation by operation), graph, xla (compiled), or auto, the framework's usual way.
    execution: str = "auto"
    marked: bool = False  # emit ranges for phases and layers
    gradient_accumulation: int = 1  # forward and backward passes per iteration; they share a batch
    activation_checkpointing: bool = False  # compute activations again in the backward pass
    # How ranks exchange gradients: ddp, fsdp (sharded parameters), ps (parameter server) or p3
    # (slices by priority); serial (after the backward pass) in TensorFlow; dist_sync in MXNet.
    scheme: str = "ddp"
    input: str = "synthetic"  # or decode: decode files of images or speech
    # Processes (PyTorch) or threads that decode; 0: the training process does.
    loader_workers: int = 0
    lengths: Plan | None = None  # batches of samples of unequal size; None: all have the same

    @property
    def micro_batch_size(self) -> int:
        """Return the samples per forward pass; raise UnsupportedError for a remainder."""
        size, remainder = divmod(self.batch_size, self.gradient_accumulation)
        if remainder:
            raise UnsupportedError(
                f"a batch of {self.batch_size} cannot be divided among "
                f"{self.gradient_accumulation} passes; use a multiple as --batch-size"
            )
        return size


def refuse_pytorch_options(settings: Settings, framework: str) -> None:
    """Raise UnsupportedError for settings that only the PyTorch workloads have."""
    asked = {
        "--gradient-accumulation": settings.gradient_accumulation > 1,
        "--activation-checkpointing": settings.activation_checkpointing,
    }
    for option in (name for name, is_asked in asked.items() if is_asked):
        raise UnsupportedError(f"{option} is for the PyTorch workloads, not for {framework}")
