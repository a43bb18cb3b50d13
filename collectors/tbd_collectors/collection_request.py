"""Define the requests: which program to profile and how."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Workload:
    """A model of the suite and its training options."""

    model: str
    framework: str = "pytorch"  # or tensorflow, mxnet
    variant: str | None = None  # published configuration, None for the model's default
    scale: str = "full"  # or small
    device: str = "cuda"  # or cpu
    batch_size: int = 1  # samples per iteration
    precision: str = "fp32"  # or tf32, mixed
    execution: str = "auto"  # or eager, graph, xla
    gradient_accumulation: int = 1  # forward and backward passes per iteration
    activation_checkpointing: bool = False  # compute activations again in the backward pass
    # Measured iterations. The first (new kernels) and the last (cut off) are left out of metrics.
    iterations: int = 12
    warmup: int | None = None  # iterations before them, None until times are stable
    seed: int = 0  # of weights and data
    data: Path | None = None  # directory with a data set, None for synthetic data
    input: str = "synthetic"  # or decode: decode files of images or speech
    loader_workers: int = 0  # that decode; 0: the training process does
    lengths: str = "fixed"  # of samples; or corpus, or the path of a histogram
    python: str = sys.executable  # interpreter that has the framework
    layer_list: Path | None = None  # CSV file of the layers of the model `layer_list`
    # How ranks exchange gradients: ddp, fsdp, ps, p3, serial or dist_sync; None without ranks.
    scheme: str | None = None

    def with_batch_size(self, batch_size: int) -> Workload:
        """Return a copy with another batch size."""
        return replace(self, batch_size=batch_size)

    def title(self) -> str:
        """Return a directory name that is unique within a suite or sweep."""
        # Defaults are left out to keep names short.
        parts = [self.model, self.variant, self.framework, self.precision, f"bs{self.batch_size}"]
        if self.scale != "full":
            parts.append(self.scale)
        if self.execution != "auto":
            parts.append(self.execution)
        if self.gradient_accumulation > 1:
            parts.append(f"accumulated{self.gradient_accumulation}")
        if self.activation_checkpointing:
            parts.append("checkpointed")
        if self.input != "synthetic":
            parts.append(f"{self.input}{self.loader_workers}")
        if self.lengths != "fixed":
            parts.append(f"lengths-{Path(self.lengths).stem}")
        return "-".join(part for part in parts if part)


@dataclass(frozen=True, slots=True)
class Command:
    """A user's training command."""

    arguments: tuple[str, ...]
    device: str = "cuda"  # or cpu; decides whether kernels are required
    # cudaProfilerApi, an NVTX range as NAME@DOMAIN, or None for the whole run.
    capture_range: str | None = None
    iterations: int = 12  # to record; then the command is stopped
    warmup: int | None = None  # iterations before them
    auto: bool = True  # mark training that does not call tbd_trace.instrument
    keep_running: bool = False  # let the command run on after its iterations are recorded

    def title(self) -> str:
        """Return a directory name for the capture."""
        return "capture-" + Path(self.arguments[0]).stem


@dataclass(frozen=True, slots=True)
class Profiling:
    """Profilers and their options."""

    timeline: str = "nsys"  # or nvprof, torch
    counters: bool = True  # collect counters with ncu or nvprof in a separate run
    counter_iterations: int = 1  # replay makes each iteration slow
    throughput: bool = True  # measure without a profiler first
    gpu_metrics: bool = False  # nsys samples the GPU's metrics
    memory_usage: bool = False  # nsys and torch trace allocations
    memory: bool = False  # record allocations by class instead of a timeline
    estimate: bool = False  # compute them from shapes, without a run on the device
    timeout_s: float = 3600.0  # of each run
