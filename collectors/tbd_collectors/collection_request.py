"""What to collect."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path

TIMELINE_TOOLS = ("nsys", "nvprof")


@dataclass(frozen=True, slots=True)
class Workload:
    """A model of the suite and how to train it.

    Attributes:
        model: name in the suite.
        framework: ``pytorch``, ``tensorflow`` or ``mxnet``.
        variant: published configuration, None for the model's default.
        scale: ``full`` or ``small``.
        device: ``cuda`` or ``cpu``.
        batch_size: samples per iteration.
        precision: ``fp32``, ``tf32`` or ``mixed``.
        execution: ``auto``, ``eager``, ``graph`` or ``xla``.
        iterations: iterations to measure.
        warmup: iterations before them, None until stable.
        seed: of weights and data.
        data: directory with a data set, None for synthetic data.
        python: interpreter that holds the framework.
    """

    model: str
    framework: str = "pytorch"
    variant: str | None = None
    scale: str = "full"
    device: str = "cuda"
    batch_size: int = 1
    precision: str = "fp32"
    execution: str = "auto"
    # The first and the last are not counted: kernels are new, and the end is not recorded.
    iterations: int = 12
    warmup: int | None = None
    seed: int = 0
    data: Path | None = None
    python: str = sys.executable

    def with_batch_size(self, batch_size: int) -> Workload:
        """Return the same workload at another batch size."""
        return replace(self, batch_size=batch_size)

    def title(self) -> str:
        """Return a name that tells captures of a suite or sweep apart."""
        parts = [self.model, self.variant, self.framework, self.precision, f"bs{self.batch_size}"]
        if self.scale != "full":
            parts.append(self.scale)
        if self.execution != "auto":
            parts.append(self.execution)
        return "-".join(part for part in parts if part)


@dataclass(frozen=True, slots=True)
class Command:
    """A training command of the user's own.

    Attributes:
        arguments: argument vector.
        device: ``cuda`` or ``cpu``: whether GPU work is expected.
        capture_range: ``cudaProfilerApi``, an NVTX range as ``NAME@DOMAIN``, or None for the whole
            run.
    """

    arguments: tuple[str, ...]
    device: str = "cuda"
    capture_range: str | None = None

    def title(self) -> str:
        """Return a name for the capture."""
        return "capture-" + Path(self.arguments[0]).stem


@dataclass(frozen=True, slots=True)
class Profiling:
    """How to profile.

    Attributes:
        timeline: profiler of the timeline: ``nsys`` or ``nvprof``.
        counters: whether to count with nvprof or ncu in a run of its own.
        counter_iterations: iterations of that run, which is slow.
        throughput: whether to run without a profiler first.
        gpu_metrics: whether nsys samples the GPU's metrics.
        memory_usage: whether nsys traces allocations of device memory.
        timeout_s: longest time that one run may take.
    """

    timeline: str = "nsys"
    counters: bool = True
    counter_iterations: int = 1
    throughput: bool = True
    gpu_metrics: bool = False
    memory_usage: bool = False
    timeout_s: float = 3600.0
