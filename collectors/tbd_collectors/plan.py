"""Which runs a capture takes, and their command lines."""

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
# Counting is slow, and what is counted does not depend on how warm the GPU is.
_COUNTER_WARMUP = 3
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the program.

    Attributes:
        name: ``throughput``, ``timeline`` or ``counters``.
        tool: ``nsys``, ``nvprof`` or ``ncu``, None without a profiler.
        argv: its command line.
        output: what the profiler is told to write.
        environment: variables that the profiler needs.
        lost: options that were asked for and that the profiler lacks.
    """

    name: str
    tool: str | None
    argv: list[str]
    output: Path
    environment: dict[str, str] = field(default_factory=dict)
    lost: tuple[str, ...] = ()


def runs(
    target: Workload | Command,
    profiling: Profiling,
    directory: Path,
    compute_capability: str | None,
    *,
    missing: list[str] | None = None,
    notes: list[str] | None = None,
) -> list[Run]:
    """Return the runs that make a capture, in order.

    Args:
        target: what to run.
        profiling: how to profile it.
        directory: where everything is written.
        compute_capability: of the GPU, None without one.
        missing: for runs that are only shown: gets what is wrong with the profilers, which are
            then called by their plain names.
        notes: for runs that are made: gets what the capture will lack. Without a profiler that
            counts, the timeline is worth having all the same.

    Raises:
        CollectionError: a profiler that is needed is not installed, and ``missing`` is None.
        UsageError: the profiler does not support the GPU.
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
            notes.append(f"{NO_COUNTERS}: {error}")
    return planned


def _found(look: Callable[[], _T], otherwise: _T, missing: list[str] | None) -> _T:
    """Return what a look at a profiler finds, or something else where that is only shown."""
    try:
        return look()
    except CollectionError as error:
        if missing is None:
            raise
        if str(error) not in missing:
            missing.append(str(error))
        return otherwise


def _program(target: Workload | Command, name: str, directory: Path, count: int) -> list[str]:
    if isinstance(target, Command):
        return list(target.arguments)
    return workload.command(
        target,
        report=directory / f"{name}.json",
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
            raise UsageError("nvprof records GPU work alone, and there is no GPU; use nsys")
        output = directory / f"{TIMELINE}.nvvp"
        whole = _is_whole_run(target)
        # Whether it supports the GPU comes before whether it is installed.
        nvprof_path = None if missing is None else _found(nvprof.installed, "nvprof", missing)
        argv = nvprof.timeline_command(
            program, output, compute_capability, whole_run=whole, tool=nvprof_path
        )
        return Run(TIMELINE, "nvprof", argv, output)
    output = directory / TIMELINE
    on_gpu = target.device == "cuda"
    named = f"{WINDOW}@{DOMAIN}" if isinstance(target, Workload) and not on_gpu else None
    if isinstance(target, Command) and target.capture_range != PROFILER_API:
        named = target.capture_range
    options = nsys.NsysOptions(
        gpu=on_gpu,
        whole_run=_is_whole_run(target),
        range_name=named,
        gpu_metrics="0" if profiling.gpu_metrics else None,
        memory_usage=profiling.memory_usage,
    )
    tool = _found(nsys.installed, nsys.USUAL, missing)
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
    """Count with nvprof where it still can, otherwise with ncu."""
    program = _program(target, COUNTERS, directory, profiling.counter_iterations)
    whole = _is_whole_run(target)
    if gpu_detection.parsed(compute_capability) < nsight_compute.FIRST:
        output = directory / f"{COUNTERS}.nvvp"
        tool = _found(nvprof.installed, "nvprof", missing)
        argv = nvprof.metric_command(
            program, output, compute_capability, whole_run=whole, tool=tool
        )
        return Run(COUNTERS, "nvprof", argv, output)
    output = directory / f"{COUNTERS}.csv"
    tool = _found(nsight_compute.installed, "ncu", missing)
    known = _found(partial(nsight_compute.known_metrics, compute_capability), None, missing)
    chosen = nsight_compute.select(compute_capability, known)
    options = nsight_compute.NcuOptions(chosen.metrics, whole_run=whole)
    argv = nsight_compute.command(program, output, options, tool)
    return Run(COUNTERS, "ncu", argv, output)


def _is_whole_run(target: Workload | Command) -> bool:
    """Tell whether nothing begins and stops the profile; nvprof and ncu begin at no NVTX range."""
    return isinstance(target, Command) and target.capture_range != PROFILER_API
