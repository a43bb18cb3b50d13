"""Plan the runs of a capture."""

from __future__ import annotations

from pathlib import Path

from tbd_collectors import workload
from tbd_collectors.collection_request import Command, Profiling, Workload
from tbd_collectors.process import CollectionError
from tbd_collectors.profiler import MEMORY, THROUGHPUT, Run, RunRequest
from tbd_collectors.profilers import counting_profiler, profiler
from tbd_models.instrument.marks import MEMORY_VARIABLE
from tbd_models.instrument.memory_request import MemoryRequest
from tbd_trace.errors import UsageError

MEMORY_LOG = "memory.jsonl"
NO_COUNTERS = (
    "no hardware counters, so utilization by counters and achieved occupancy cannot be answered"
)


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
    request = RunRequest(target, profiling, directory, compute_capability, missing)
    planned = []
    if profiling.throughput and isinstance(target, Workload) and not profiling.estimate:
        argv = workload.command(target, report=directory / f"{THROUGHPUT}.json")
        planned.append(Run(THROUGHPUT, None, argv, directory / f"{THROUGHPUT}.json"))
    if profiling.memory:
        return [*planned, _memory(request)]
    recording = profiler(profiling.timeline).timelines
    if recording is None:
        raise UsageError(f"{profiling.timeline} records no timelines")
    planned.append(recording.plan(request))
    if planned[-1].lost and notes is not None:
        notes.append(
            f"this {profiling.timeline} has no {', '.join(planned[-1].lost)}, which was left out"
        )
    if profiling.counters and compute_capability is not None:
        try:
            counting = counting_profiler(compute_capability).counters
            assert counting is not None
            planned.append(counting.plan(request))
        except CollectionError as error:
            if notes is None:
                raise
            # The timeline is useful without counters.
            notes.append(f"{NO_COUNTERS}: {error}")
    return planned


def _memory(request: RunRequest) -> Run:
    output = request.directory / MEMORY_LOG
    if isinstance(request.target, Command):
        # Hooks in the program write there, or tbd_trace.instrument(model, memory=True).
        variables = {MEMORY_VARIABLE: str(output)}
        if request.target.auto:
            variables |= MemoryRequest(
                request.directory / f"{MEMORY}.json",
                request.profiling.estimate,
                request.target.device,
            ).variables()
        return Run(MEMORY, None, list(request.target.arguments), output, variables)
    argv = workload.command(
        request.target,
        report=request.directory / f"{MEMORY}.json",
        layers=request.directory / "layers.json",
        memory=output,
        estimate=request.profiling.estimate,
    )
    return Run(MEMORY, None, argv, output)
