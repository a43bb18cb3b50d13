"""How a profiler takes part in a capture: its runs, and the checks of their output."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from tbd_collectors import workload
from tbd_collectors.collection_request import Command, Profiling, Workload
from tbd_collectors.process import CollectionError
from tbd_collectors.profile_stats import Contents
from tbd_trace.machine.inspection import Finding

THROUGHPUT = "throughput"
TIMELINE = "timeline"
COUNTERS = "counters"
MEMORY = "memory"
PROFILER_API = "cudaProfilerApi"
# Counter values do not depend on clocks or caches settling, and warm-up costs time under replay.
_COUNTER_WARMUP = 3
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the program."""

    name: str  # throughput, timeline, counters or memory
    tool: str | None  # nsys, nvprof, torch or ncu; None without a profiler
    argv: list[str]
    output: Path  # file that the profiler writes
    environment: dict[str, str] = field(default_factory=dict)  # variables to add
    lost: tuple[str, ...] = ()  # requested options that the profiler lacks
    in_program: bool = False  # True if the profiler runs inside the program
    # Command that ends the recording while the program runs on, empty if there is none.
    stop: tuple[str, ...] = ()
    # True if the profiler starts the program in another process group.
    has_own_group: bool = False


@dataclass(frozen=True, slots=True)
class RunRequest:
    """The input of a profiler's plan."""

    target: Workload | Command
    profiling: Profiling
    directory: Path  # of the capture
    compute_capability: str | None  # None without a GPU
    missing: list[str] | None  # collects messages about absent profilers; None raises them

    @property
    def on_gpu(self) -> bool:
        """True if kernels are required."""
        return self.target.device == "cuda"

    @property
    def is_whole_run(self) -> bool:
        """True if a profiler that cannot start at an NVTX range records the whole run."""
        return isinstance(self.target, Command) and self.target.capture_range != PROFILER_API

    def program(self, name: str, torch_trace: Path | None = None) -> list[str]:
        """Return the command line of the program in the run of a name."""
        if isinstance(self.target, Command):
            return list(self.target.arguments)
        counts = name == COUNTERS
        return workload.command(
            self.target,
            report=self.directory / f"{name}.json",
            # Layers are read once; the counter run repeats them.
            layers=None if counts else self.directory / "layers.json",
            nvtx=torch_trace is None,  # the trace holds the ranges
            torch_trace=torch_trace,
            torch_memory=torch_trace is not None and self.profiling.memory_usage,
            iterations=self.profiling.counter_iterations if counts else self.target.iterations,
            warmup=_COUNTER_WARMUP if counts else self.target.warmup,
        )

    def find_tool(self, find: Callable[[], _T], fallback: _T) -> _T:
        """Return an installed program, the fallback if it is missing and messages are collected."""
        try:
            return find()
        except CollectionError as error:
            if self.missing is None:
                raise
            # Timeline and counters may lack the same profiler.
            if str(error) not in self.missing:
                self.missing.append(str(error))
            return fallback


@dataclass(frozen=True, slots=True)
class Timelines:
    """Recording of timelines."""

    plan: Callable[[RunRequest], Run]
    # Returns the profile of a run, given the last lines that it printed; converts the report, and
    # first says so.
    profile: Callable[[Run, Sequence[str], Callable[[str], None]], Path]
    # Raises NothingRecordedError if the profile lacks events; the flag requires kernels too.
    check: Callable[[Path, bool, Sequence[str]], Contents]


@dataclass(frozen=True, slots=True)
class Counters:
    """Collection of hardware counters."""

    supports: Callable[[str], bool]  # by compute capability
    plan: Callable[[RunRequest], Run]
    check: Callable[[Path, Sequence[str]], int]  # counted kernels, given all lines of the run


@dataclass(frozen=True, slots=True)
class Profiler:
    """One profiler."""

    name: str
    find: Callable[[], Finding]  # finds the installed version
    timelines: Timelines | None = None
    counters: Counters | None = None
