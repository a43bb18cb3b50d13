"""Plan the runs of a capture and build their command lines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

from tbd_collectors import gpu_detection, nsight_compute, nsys, nvprof, workload
from tbd_collectors.collection_request import Command, Profiling, Workload
from tbd_collectors.process import CollectionError
from tbd_models.instrument.marks import DOMAIN, WINDOW
from tbd_trace.errors import UsageError

THROUGHPUT = "throughput"
TIMELINE = "timeline"
COUNTERS = "counters"
PROFILER_API = "cudaProfilerApi"
NO_COUNTERS = (
    "no hardware counters, so utilization by counters and achieved occupancy cannot be answered"
)
# Counter values do not depend on clocks or caches settling, and warm-up costs time under replay.
_COUNTER_WARMUP = 3
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the program."""

    name: str  # throughput, timeline or counters
    tool: str | None  # nsys, nvprof or ncu; None without a profiler
    argv: list[str]
    output: Path  # file that the profiler writes
    environment: dict[str, str] = field(default_factory=dict)  # variables to add
    lost: tuple[str, ...] = ()  # requested options that the profiler lacks


def runs(
    target: Workload | Command,
    profiling: Profiling,
    directory: Path,
    compute_capability: str | None,
    *,
    missing: list[str] | None = None,
    notes: list[str] | None = None,
) -> list[Run]:
    """Return the runs of a capture in order, without a GPU for a ``compute_capability`` of None.

    For a plan that is only displayed, ``missing`` collects messages about absent profilers, whose
    plain names are then used. For a capture, ``notes`` collects its limitations, such as a missing
    counter profiler. Without these lists an absent profiler raises CollectionError. Raises
    UsageError if a profiler does not support the GPU.
    """
    planned = []
    if profiling.throughput and isinstance(target, Workload):
        argv = workload.command(target, report=directory / f"{THROUGHPUT}.json")
        planned.append(Run(THROUGHPUT, None, argv, directory / f"{THROUGHPUT}.json"))
    planned.append(_timeline(target, profiling, directory, compute_capability, missing))
    if planned[-1].lost and notes is not None:
        notes.append(f"this nsys has no {', '.join(planned[-1].lost)}, which was left out")
    if profiling.counters and compute_capability is not None:
        try:
            planned.append(_counters(target, profiling, directory, compute_capability, missing))
        except CollectionError as error:
            if notes is None:
                raise
            # The timeline is useful without counters.
            notes.append(f"{NO_COUNTERS}: {error}")
    return planned


def _find_tool(find: Callable[[], _T], fallback: _T, missing: list[str] | None) -> _T:
    try:
        return find()
    except CollectionError as error:
        if missing is None:
            raise
        # Timeline and counters may lack the same profiler.
        if str(error) not in missing:
            missing.append(str(error))
        return fallback


def _program(target: Workload | Command, name: str, directory: Path, count: int) -> list[str]:
    if isinstance(target, Command):
        return list(target.arguments)
    return workload.command(
        target,
        report=directory / f"{name}.json",
        # Layers are read once; the counter run repeats them.
        layers=directory / "layers.json" if name == TIMELINE else None,
        nvtx=True,
        iterations=count,
        warmup=_COUNTER_WARMUP if name == COUNTERS else target.warmup,
    )


def _timeline(
    target: Workload | Command,
    profiling: Profiling,
    directory: Path,
    compute_capability: str | None,
    missing: list[str] | None,
) -> Run:
    iterations = target.iterations if isinstance(target, Workload) else 0
    program = _program(target, TIMELINE, directory, iterations)
    if profiling.timeline == "nvprof":
        if compute_capability is None:
            raise UsageError("nvprof records only GPU work, and there is no GPU; use nsys")
        output = directory / f"{TIMELINE}.nvvp"
        whole = _is_whole_run(target)
        # Not looked up yet: whether nvprof supports the GPU matters before it is installed.
        nvprof_path = None if missing is None else _find_tool(nvprof.installed, "nvprof", missing)
        argv = nvprof.timeline_command(
            program, output, compute_capability, whole_run=whole, tool=nvprof_path
        )
        return Run(TIMELINE, "nvprof", argv, output)
    output = directory / TIMELINE
    on_gpu = target.device == "cuda"
    # cudaProfilerStart does nothing on a machine without a GPU, an NVTX range works there too.
    named = f"{WINDOW}@{DOMAIN}" if isinstance(target, Workload) and not on_gpu else None
    if isinstance(target, Command) and target.capture_range != PROFILER_API:
        named = target.capture_range
    options = nsys.NsysOptions(
        gpu=on_gpu,
        whole_run=_is_whole_run(target),
        range_name=named,
        gpu_metrics="0" if profiling.gpu_metrics else None,  # workloads use the first GPU
        memory_usage=profiling.memory_usage,
    )
    tool = _find_tool(nsys.installed, nsys.USUAL, missing)
    argv = nsys.command(program, output, options, tool)
    lost = tuple(nsys.unavailable(options, tool))
    return Run(TIMELINE, "nsys", argv, output, nsys.environment(), lost)


def _counters(
    target: Workload | Command,
    profiling: Profiling,
    directory: Path,
    compute_capability: str,
    missing: list[str] | None,
) -> Run:
    # ncu starts with Volta (7.0); before it, nvprof counts.
    program = _program(target, COUNTERS, directory, profiling.counter_iterations)
    whole = _is_whole_run(target)
    if gpu_detection.parsed(compute_capability) < nsight_compute.FIRST:
        output = directory / f"{COUNTERS}.nvvp"
        tool = _find_tool(nvprof.installed, "nvprof", missing)
        argv = nvprof.metric_command(
            program, output, compute_capability, whole_run=whole, tool=tool
        )
        return Run(COUNTERS, "nvprof", argv, output)
    output = directory / f"{COUNTERS}.csv"
    tool = _find_tool(nsight_compute.installed, "ncu", missing)
    known = _find_tool(partial(nsight_compute.known_metrics, compute_capability), None, missing)
    chosen = nsight_compute.select(compute_capability, known)
    options = nsight_compute.NcuOptions(chosen.metrics, whole_run=whole)
    argv = nsight_compute.command(program, output, options, tool)
    return Run(COUNTERS, "ncu", argv, output)


def _is_whole_run(target: Workload | Command) -> bool:
    # nvprof and ncu cannot start at an NVTX range: without cudaProfilerStart they record it all.
    return isinstance(target, Command) and target.capture_range != PROFILER_API
