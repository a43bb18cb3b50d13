"""``tbd-trace collect``: run a workload under a profiler."""

# The collectors are imported when the command runs, so that `--help` starts fast.
# ruff: noqa: PLC0415
from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import typer

from tbd_collectors.choices import Device, Execution, Input, Precision, Scale
from tbd_trace.cli import collect_options as options
from tbd_trace.cli.collect_checks import (
    check_command_options,
    check_finish,
    check_memory_of_command,
    check_model_options,
    check_range,
    check_recording,
)
from tbd_trace.cli.collect_launched import (
    FinishOption,
    collect_rank,
    finish_job,
    rank_of_launcher,
)
from tbd_trace.cli.collect_ranks import RankOptions, collect_ranks, layer_list
from tbd_trace.cli.collect_results import note_missing_gpu, output_descriptors, show_commands
from tbd_trace.cli.collect_runs import Settings, run_jobs, search_largest
from tbd_trace.cli.options import FormatOption, WideOption
from tbd_trace.cli.output import note
from tbd_trace.errors import UsageError

if TYPE_CHECKING:
    from tbd_collectors.collection_request import Command, Workload


def collect(
    context: typer.Context,
    target: options.TargetArgument = None,
    *,
    suite: options.SuiteOption = False,
    framework: options.FrameworkOption = None,
    variant: options.VariantOption = None,
    scale: options.ScaleOption = Scale.FULL,
    device: options.DeviceOption = Device.AUTO,
    batch_size: options.BatchSizeOption = None,
    precision: options.PrecisionOption = Precision.FP32,
    execution: options.ExecutionOption = Execution.AUTO,
    gradient_accumulation: options.GradientAccumulationOption = 1,
    activation_checkpointing: options.ActivationCheckpointingOption = False,
    iterations: options.IterationsOption = 12,
    warmup: options.WarmupOption = None,
    seed: options.SeedOption = 0,
    data: options.DataOption = None,
    lengths: options.LengthsOption = "fixed",
    input_kind: options.InputOption = Input.SYNTHETIC,
    loader_workers: options.LoaderWorkersOption = 0,
    layers: options.LayersOption = None,
    python: options.PythonOption = None,
    profiler: options.ProfilerOption = None,
    counters: options.CountersOption = True,
    throughput: options.ThroughputOption = True,
    gpu_metrics: options.GpuMetricsOption = False,
    memory_usage: options.MemoryUsageOption = False,
    memory: options.MemoryOption = False,
    estimate: options.EstimateOption = False,
    largest_batch: options.LargestBatchOption = None,
    capture_range: options.CaptureRangeOption = None,
    auto: options.AutoOption = True,
    keep_running: options.KeepRunningOption = False,
    compute_capability: options.ComputeCapabilityOption = None,
    timeout: options.TimeoutOption = 3600.0,
    ranks: options.RanksOption = None,
    finish: FinishOption = None,
    bandwidth: options.BandwidthOption = None,
    latency: options.LatencyOption = None,
    scheme: options.SchemeOption = None,
    output: options.CaptureOption = None,
    force: options.ForceOption = False,
    dry_run: options.DryRunOption = False,
    form: FormatOption = None,
    wide: WideOption = False,
) -> None:
    """Run a workload for a few iterations under a profiler.

    Makes a capture directory, which tbd-trace query, info and ingest take, on any machine. First
    the workload runs without a profiler, for throughput; then, warmed up until its iterations are
    stable, under a profiler for the timeline; on a GPU a third time for hardware counters.
    With --memory, allocations are recorded in place of the timeline. Your own commands run once,
    under the timeline's profiler; iterations and layers of most training scripts are found, and
    after --iterations the command is stopped.
    With --ranks N, N processes train together, under a profiler each; --bandwidth repeats that at
    several rates of the links between them.
    """
    from tbd_collectors.argument_parsing import is_command, places
    from tbd_collectors.collection_request import Profiling

    if finish is not None:
        check_finish(context)
        finish_job(finish, form, wide=wide)
        return

    job = RankOptions(ranks, bandwidth, latency, scheme.value if scheme else None)
    job.check(memory=memory, dry_run=dry_run)
    words = layer_list(layers, target or []) if layers else target or []
    (check_command_options if is_command(words) else check_model_options)(context)
    if estimate and not memory:
        raise UsageError("--estimate needs --memory")
    if is_command(words) and memory:
        check_memory_of_command(context)
    if largest_batch is not None and not estimate:
        raise UsageError("--largest-batch needs --memory --estimate")
    # A dry run also shows commands whose programs are not installed, and lists these.
    missing: list[str] | None = [] if dry_run else None
    fields = {
        "framework": framework.value if framework else None,
        "variant": variant,
        "scale": scale.value,
        "device": "cuda" if estimate and device is Device.AUTO else _device(device, python, words),
        "precision": precision.value,
        "execution": execution.value,
        "gradient_accumulation": gradient_accumulation,
        "activation_checkpointing": activation_checkpointing,
        "iterations": iterations,
        "warmup": warmup,
        "seed": seed,
        "data": data,
        "lengths": lengths,
        "input": input_kind.value,
        "loader_workers": loader_workers,
        "python": python,
        "layer_list": layers.absolute() if layers else None,
    }
    targets = _targets(
        words,
        suite,
        fields,
        batch_size,
        own=_OwnCommand(capture_range, auto, keep_running),
        missing=missing,
    )
    if keep_running and ranks is not None:
        raise UsageError("--keep-running is for one process; leave out --ranks")
    targets = job.with_schemes(targets)
    note_missing_gpu(targets[0], device)
    profiling = Profiling(
        timeline=profiler or _usual_profiler(targets, quiet=memory),
        # The counters need another run, which the first one would disturb.
        counters=counters and ranks is None and not keep_running,
        throughput=throughput,
        gpu_metrics=gpu_metrics,
        memory_usage=memory_usage,
        memory=memory,
        estimate=estimate,
        timeout_s=timeout,
    )
    check_range(context, timeline=profiling.timeline, device=targets[0].device)
    check_recording(context, timeline=profiling.timeline, device=targets[0].device)
    launched = rank_of_launcher(targets[0], output, keep_running=keep_running)
    several = suite or len(targets) > 1 or largest_batch is not None
    captures = places(targets, output, several=several)
    jobs = list(zip(targets, captures, strict=True))
    settings = Settings(profiling, compute_capability, force, output_descriptors(form))
    search = search_largest(largest_batch, targets, output, settings) if largest_batch else None
    if missing is not None:
        show_commands(jobs, profiling, compute_capability, missing)
        if ranks is not None:
            note(
                f"each of {ranks} ranks runs these, with RANK and WORLD_SIZE as torchrun sets them"
            )
        return
    if launched is not None and ranks is None:
        profiling = replace(profiling, counters=False)
        collect_rank(targets[0], profiling, launched, form, force=force, wide=wide)
        return
    if ranks is not None:
        collect_ranks(targets, profiling, job, captures[0], form, force=force, wide=wide)
        return
    if execution is Execution.XLA:
        note("XLA compiles a step as a whole: iterations and two phases are marked, no layers")
    run_jobs(jobs, settings, form, wide=wide, search=search)


@dataclass(frozen=True, slots=True)
class _OwnCommand:
    """Options for commands of the user alone."""

    capture_range: str | None
    auto: bool
    keep_running: bool


def _device(device: Device, python: str | None, words: list[str]) -> str:
    from tbd_collectors import environments, usual_profiler
    from tbd_trace.machine import amd_gpu, inspection

    if device is not Device.AUTO:
        return device.value
    if inspection.gpus()[0].status == "ok":
        return "cuda"
    if not amd_gpu.architectures():
        return "cpu"
    # Integrated graphics are in the list too; PyTorch for ROCm shows that the GPU is for training.
    python = python or usual_profiler.interpreter_of(words)
    used = inspection.interpreter(python or environments.usual_interpreter("pytorch"))
    return "cuda" if "rocm" in (inspection.framework_version("pytorch", used) or "") else "cpu"


def _usual_profiler(targets: list[Workload | Command], quiet: bool) -> str:
    from tbd_collectors.usual_profiler import usual_profiler

    # Targets of one command differ by model and batch size only.
    name, reason = usual_profiler(targets[0])
    if reason and not quiet:
        note(f"{reason}, so torch.profiler records the timeline; --profiler chooses another")
    return name


def _targets(
    words: list[str],
    suite: bool,
    fields: dict[str, Any],
    batch_size: str | None,
    *,
    own: _OwnCommand,
    missing: list[str] | None,
) -> list[Workload | Command]:
    from tbd_collectors import argument_parsing
    from tbd_collectors.collection_request import Command

    if suite == bool(words):
        raise UsageError("name a model, or a command after --, or ask for the whole --suite")
    if argument_parsing.is_command(words):
        return [
            Command(
                tuple(words),
                device=fields["device"],
                capture_range=own.capture_range,
                iterations=fields["iterations"],
                warmup=fields["warmup"],
                auto=own.auto,
                keep_running=own.keep_running,
            )
        ]
    if own.capture_range is not None:
        raise UsageError("--capture-range is for commands; a model marks its own window")
    if own.keep_running:
        raise UsageError("--keep-running is for commands; a model trains as long as it is recorded")
    fields["framework"] = fields["framework"] or argument_parsing.usual_framework(words)
    names = argument_parsing.suite(fields["framework"]) if suite else words
    sizes = argument_parsing.batch_sizes(batch_size)
    if fields["python"] is None:
        # Names are checked first: a misspelt model is the more useful error of the two.
        argument_parsing.workloads(names, sizes, fields)
        fields |= {"python": _interpreter(fields["framework"], missing)}
    return [*argument_parsing.workloads(names, sizes, fields)]


def _interpreter(framework: str, missing: list[str] | None) -> str:
    from tbd_collectors import environments

    try:
        return environments.interpreter(framework)
    except UsageError as error:
        if missing is None:
            raise
        missing.append(str(error))
        return sys.executable
