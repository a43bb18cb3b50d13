"""Arguments and options of ``tbd-trace collect``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tbd_collectors.choices import Device, Execution, Framework, Input, Precision, Scale, Scheme
from tbd_collectors.profilers import timeline_profilers

TargetArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="MODEL | -- COMMAND",
        help="A model of the suite (tbd-trace models lists them), or your own command.",
        show_default=False,
    ),
]

# The workload: passed on to `python -m tbd_models run`, apart from --suite.
SuiteOption = Annotated[
    bool,
    typer.Option("--suite", help="All models of the framework, a capture each, in -o."),
]
FrameworkOption = Annotated[
    Framework | None,
    typer.Option(
        "--framework",
        help="Framework of the model. By default PyTorch, or the first that has the model.",
        show_default=False,
    ),
]
VariantOption = Annotated[
    str | None,
    typer.Option("--variant", metavar="NAME", help="Published variant of the model."),
]
ScaleOption = Annotated[
    Scale,
    typer.Option("--scale", help="small shrinks the model so that a CPU trains it in seconds."),
]
DeviceOption = Annotated[
    Device, typer.Option("--device", help="auto is cuda where there is a GPU.")
]
BatchSizeOption = Annotated[
    str | None,
    typer.Option("--batch-size", metavar="N[,N…]", help="Batch sizes, a capture each."),
]
PrecisionOption = Annotated[
    Precision, typer.Option("--precision", help="mixed is automatic casting.")
]
ExecutionOption = Annotated[
    Execution,
    typer.Option(
        "--execution",
        help="eager runs operation by operation, graph as a whole, xla compiled. auto is what "
        "the framework's users do.",
    ),
]
GradientAccumulationOption = Annotated[
    int,
    typer.Option(
        "--gradient-accumulation",
        metavar="N",
        min=1,
        help="Forward and backward passes per optimizer step, which share the batch (PyTorch).",
    ),
]
ActivationCheckpointingOption = Annotated[
    bool,
    typer.Option(
        "--activation-checkpointing",
        help="Compute activations again in the backward pass, to save memory (llm).",
    ),
]
IterationsOption = Annotated[
    int,
    typer.Option(
        "--iterations",
        metavar="N",
        min=1,
        help="Iterations to profile. Metrics count all but the first and the last. Then a command "
        "is stopped.",
    ),
]
WarmupOption = Annotated[
    int | None,
    typer.Option(
        "--warmup",
        metavar="N",
        min=0,
        help="Iterations before them. By default until their times are stable; 5 of a command.",
        show_default=False,
    ),
]
SeedOption = Annotated[int, typer.Option("--seed", metavar="N", help="Of weights and data.")]
DataOption = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        help="Data set, one FIELD.npy per field of a batch. By default data are synthetic.",
        show_default=False,
    ),
]
LengthsOption = Annotated[
    str,
    typer.Option(
        "--lengths",
        metavar="fixed|corpus|FILE",
        help="Sizes of samples: equal, as in the data set, or by a histogram.",
    ),
]
InputOption = Annotated[
    Input,
    typer.Option("--input", help="decode reads files of images or speech during training."),
]
LoaderWorkersOption = Annotated[
    int,
    typer.Option(
        "--loader-workers",
        metavar="N",
        min=0,
        help="Workers that decode with --input decode; 0 is the training process.",
    ),
]
PythonOption = Annotated[
    str | None,
    typer.Option(
        "--python",
        metavar="PATH",
        help="Interpreter that holds the framework. By default that of tbd-trace env create, "
        "else this one.",
        show_default=False,
    ),
]


# The runs and their profilers.
def _known_profiler(name: str | None) -> str | None:
    if name is not None and name not in timeline_profilers():
        known = ", ".join(repr(profiler) for profiler in timeline_profilers())
        raise typer.BadParameter(f"{name!r} is not one of {known}.")
    return name


ProfilerOption = Annotated[
    str | None,
    typer.Option(
        "--profiler",
        metavar="NAME",
        callback=_known_profiler,
        help=f"Profiler of the timeline: {' or '.join(timeline_profilers())}. By default nsys; "
        "torch for PyTorch on a CPU or an AMD GPU, and where nsys is missing.",
        show_default=False,
    ),
]
CountersOption = Annotated[
    bool,
    typer.Option(
        "--counters/--no-counters",
        help="Count with ncu (nvprof before compute capability 7.0), in a separate run.",
    ),
]
ThroughputOption = Annotated[
    bool,
    typer.Option("--throughput/--no-throughput", help="First run without a profiler."),
]
GpuMetricsOption = Annotated[
    bool, typer.Option("--gpu-metrics", help="Let nsys sample the GPU's metrics.")
]
MemoryUsageOption = Annotated[
    bool, typer.Option("--memory-usage", help="Let nsys or torch trace allocations of memory.")
]
MemoryOption = Annotated[
    bool,
    typer.Option(
        "--memory",
        help="Record allocations by class (memory.jsonl) instead of a timeline; no profiler runs.",
    ),
]
EstimateOption = Annotated[
    bool,
    typer.Option(
        "--estimate",
        help="With --memory: compute them from shapes, without a GPU, data and training.",
    ),
]
LargestBatchOption = Annotated[
    str | None,
    typer.Option(
        "--largest-batch",
        metavar="GPU|GB",
        help="With --estimate: estimate further batches, until the largest that fits is found.",
        show_default=False,
    ),
]
CaptureRangeOption = Annotated[
    str | None,
    typer.Option(
        "--capture-range",
        metavar="cudaProfilerApi|RANGE@DOMAIN",
        help="Part of a command to record. By default the whole run.",
        show_default=False,
    ),
]
AutoOption = Annotated[
    bool,
    typer.Option(
        "--auto/--no-auto",
        help="Mark iterations and layers of a command that trains with PyTorch, fit of Keras or "
        "gluon.Trainer.",
    ),
]
KeepRunningOption = Annotated[
    bool, typer.Option("--keep-running", help="Let a command run on once it is recorded.")
]
ComputeCapabilityOption = Annotated[
    str | None,
    typer.Option(
        "--compute-capability",
        metavar="N.N",
        help="Of the GPU. Default: read from the driver.",
        show_default=False,
    ),
]
TimeoutOption = Annotated[
    float, typer.Option("--timeout", metavar="SECONDS", min=1, help="For each run.")
]

# Distributed jobs.
RanksOption = Annotated[
    int | None,
    typer.Option(
        "--ranks",
        metavar="N",
        min=1,
        max=1000,
        help="Run N processes, as torchrun does, with a report each in rank=K/.",
        show_default=False,
    ),
]
BandwidthOption = Annotated[
    str | None,
    typer.Option(
        "--bandwidth",
        metavar="RATE[,RATE…]",
        help="With --ranks: limit the link of each rank, such as 0.3gbit,1gbit. Needs root, or "
        "user namespaces. By default the machine's own network.",
        show_default=False,
    ),
]
LatencyOption = Annotated[
    str | None,
    typer.Option(
        "--latency",
        metavar="TIME",
        help="With --bandwidth: delay of each rank's outgoing packets, such as 1ms.",
        show_default=False,
    ),
]
SchemeOption = Annotated[
    Scheme | None,
    typer.Option(
        "--scheme",
        help="With --ranks: gradients by DistributedDataParallel (ddp, the default of PyTorch); "
        "parameters sharded over the ranks (fsdp); or a parameter server on the ranks, whole "
        "layers in order (ps) or slices by priority (p3). TensorFlow: serial, one all-reduce after "
        "the backward pass. MXNet: dist_sync, its key-value store.",
        show_default=False,
    ),
]
LayersOption = Annotated[
    Path | None,
    typer.Option(
        "--layers",
        metavar="FILE",
        help="In place of a model: layers that sleep, as a CSV file "
        "(name,fwd_s,bwd_s,grad_bytes), to measure communication.",
        show_default=False,
    ),
]

# The captures.
CaptureOption = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="DIR",
        help="Capture directory to make; for several captures, the directory of them all.",
        show_default=False,
    ),
]
ForceOption = Annotated[bool, typer.Option("--force", help="Replace existing captures.")]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Print the command lines, run nothing.")
]
