"""``tbd-trace collect``: run a workload under a profiler."""

# polars and the collectors are imported when the command runs: `--help` stays fast.
# ruff: noqa: PLC0415
from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from shlex import join
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tbd_trace.cli.options import FormatOption, WideOption
from tbd_trace.cli.output import busy, emit, failure, note
from tbd_trace.errors import UsageError

if TYPE_CHECKING:
    from tbd_collectors.collect import Result
    from tbd_collectors.collection_request import Command, Profiling, Workload


class Framework(StrEnum):
    """Frameworks of the suite."""

    PYTORCH = "pytorch"
    TENSORFLOW = "tensorflow"
    MXNET = "mxnet"


class Device(StrEnum):
    """Where to train."""

    AUTO = "auto"
    CUDA = "cuda"
    CPU = "cpu"


class Scale(StrEnum):
    """Size of the model."""

    FULL = "full"
    SMALL = "small"


class Precision(StrEnum):
    """Arithmetic of the training."""

    FP32 = "fp32"
    TF32 = "tf32"
    MIXED = "mixed"


class Execution(StrEnum):
    """How a framework runs a model."""

    AUTO = "auto"
    EAGER = "eager"
    GRAPH = "graph"
    XLA = "xla"


class Timeline(StrEnum):
    """Profilers that record timelines."""

    NSYS = "nsys"
    NVPROF = "nvprof"


def _option(*names: str, text: str, **settings: Any) -> Any:
    return typer.Option(*names, help=text, **settings)


def collect(
    target: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="MODEL | -- COMMAND",
            help="A model of the suite (tbd-trace models lists them), or a command of your own.",
            show_default=False,
        ),
    ] = None,
    *,
    suite: Annotated[
        bool, _option("--suite", text="All models of the framework, a capture each, in -o.")
    ] = False,
    framework: Annotated[
        Framework | None,
        _option(
            "--framework",
            text="Framework of the model. By default PyTorch, or the first that has the model.",
            show_default=False,
        ),
    ] = None,
    variant: Annotated[
        str | None, _option("--variant", metavar="NAME", text="Published variant of the model.")
    ] = None,
    scale: Annotated[
        Scale,
        _option("--scale", text="small shrinks the model so that a CPU trains it in seconds."),
    ] = Scale.FULL,
    device: Annotated[
        Device, _option("--device", text="auto is cuda where there is a GPU.")
    ] = Device.AUTO,
    batch_size: Annotated[
        str | None,
        _option("--batch-size", metavar="N[,N…]", text="Batch sizes, a capture each."),
    ] = None,
    precision: Annotated[Precision, _option("--precision", text="mixed is automatic casting.")] = (
        Precision.FP32
    ),
    execution: Annotated[
        Execution,
        _option(
            "--execution",
            text="eager runs operation by operation, graph as a whole, xla compiled. auto is what "
            "the framework's users do.",
        ),
    ] = Execution.AUTO,
    iterations: Annotated[
        int,
        _option(
            "--iterations",
            metavar="N",
            min=1,
            text="Iterations to profile. Metrics count all but the first and the last.",
        ),
    ] = 12,
    warmup: Annotated[
        int | None,
        _option(
            "--warmup",
            metavar="N",
            min=0,
            text="Iterations before them. By default until their times are stable.",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[int, _option("--seed", metavar="N", text="Of weights and data.")] = 0,
    data: Annotated[
        Path | None,
        _option(
            "--data",
            metavar="DIR",
            text="Data set, one FIELD.npy per field of a batch. By default data are synthetic.",
            show_default=False,
        ),
    ] = None,
    python: Annotated[
        str | None,
        _option(
            "--python",
            metavar="PATH",
            text="Interpreter that holds the framework. By default that of tbd-trace env create, "
            "else this one.",
            show_default=False,
        ),
    ] = None,
    profiler: Annotated[
        Timeline, _option("--profiler", text="Profiler of the timeline.")
    ] = Timeline.NSYS,
    counters: Annotated[
        bool,
        _option(
            "--counters/--no-counters",
            text="Count with ncu (nvprof before compute capability 7.0), in a run of its own.",
        ),
    ] = True,
    throughput: Annotated[
        bool,
        _option("--throughput/--no-throughput", text="First run without a profiler."),
    ] = True,
    gpu_metrics: Annotated[
        bool, _option("--gpu-metrics", text="Let nsys sample the GPU's metrics.")
    ] = False,
    memory_usage: Annotated[
        bool, _option("--memory-usage", text="Let nsys trace allocations of device memory.")
    ] = False,
    capture_range: Annotated[
        str | None,
        _option(
            "--capture-range",
            metavar="cudaProfilerApi|RANGE@DOMAIN",
            text="What to record of a command of your own. By default the whole run.",
            show_default=False,
        ),
    ] = None,
    compute_capability: Annotated[
        str | None,
        _option(
            "--compute-capability",
            metavar="N.N",
            text="Of the GPU. By default the driver is asked.",
            show_default=False,
        ),
    ] = None,
    timeout: Annotated[
        float, _option("--timeout", metavar="SECONDS", min=1, text="For each run.")
    ] = 3600.0,
    output: Annotated[
        Path | None,
        _option(
            "--output",
            "-o",
            metavar="DIR",
            text="Capture directory to make; for several captures, the directory of them all.",
            show_default=False,
        ),
    ] = None,
    force: Annotated[bool, _option("--force", text="Replace captures that are there.")] = False,
    dry_run: Annotated[
        bool, _option("--dry-run", text="Print the command lines, run nothing.")
    ] = False,
    form: FormatOption = None,
    wide: WideOption = False,
) -> None:
    """Run a workload for a few iterations under a profiler.

    Makes a capture directory, which tbd-trace query, info and ingest take, on any machine. First
    the workload runs without a profiler, for throughput; then, warmed up until its iterations are
    stable, under nsys or nvprof for the timeline; on a GPU a third time for hardware counters.
    Commands of your own run once, under the timeline's profiler; tbd_trace.instrument marks their
    iterations, phases and layers.
    """
    from tbd_collectors.argument_parsing import places
    from tbd_collectors.collection_request import Profiling
    from tbd_collectors.sweep import collect_all

    place = _device(device)
    options = {
        "framework": framework.value if framework else None,
        "variant": variant,
        "scale": scale.value,
        "device": place,
        "precision": precision.value,
        "execution": execution.value,
        "iterations": iterations,
        "warmup": warmup,
        "seed": seed,
        "data": data,
        "python": python,
    }
    missing: list[str] | None = [] if dry_run else None
    targets = _targets(
        target or [], suite, options, batch_size, capture_range=capture_range, missing=missing
    )
    profiling = Profiling(
        timeline=profiler.value,
        counters=counters,
        throughput=throughput,
        gpu_metrics=gpu_metrics,
        memory_usage=memory_usage,
        timeout_s=timeout,
    )
    captures = places(targets, output, several=suite or len(targets) > 1)
    if missing is not None:
        for one, capture in zip(targets, captures, strict=True):
            _show_commands(one, profiling, capture, compute_capability, missing)
        for text in missing:
            note(text)
        return
    if execution is Execution.XLA:
        note("XLA compiles a step as a whole: iterations and two phases are marked, no layers")
    results: list[Result] = []
    try:
        exit_code = collect_all(
            list(zip(targets, captures, strict=True)),
            lambda one, capture: _collect(one, profiling, capture, force, compute_capability),
            results,
            on_error=failure,
        )
    finally:
        if results:
            _show(results, form, wide=wide)
    if exit_code:
        raise typer.Exit(exit_code)


def _device(device: Device) -> str:
    from tbd_trace import machine

    if device is not Device.AUTO:
        return device.value
    return "cuda" if machine.gpus()[0].status == "ok" else "cpu"


def _targets(
    words: list[str],
    suite: bool,
    options: dict[str, Any],
    batch_size: str | None,
    *,
    capture_range: str | None,
    missing: list[str] | None,
) -> list[Workload | Command]:
    from tbd_collectors import argument_parsing
    from tbd_collectors.collection_request import Command

    if suite == bool(words):
        raise UsageError("name a model, or a command after --, or ask for the whole --suite")
    if argument_parsing.is_command(words):
        return [Command(tuple(words), device=options["device"], capture_range=capture_range)]
    if capture_range is not None:
        raise UsageError("--capture-range is for commands; a model marks its own window")
    options["framework"] = options["framework"] or argument_parsing.usual_framework(words)
    names = argument_parsing.suite(options["framework"]) if suite else words
    sizes = argument_parsing.batch_sizes(batch_size)
    if options["python"] is None:
        # What is wrong with the names is said before that the framework is missing.
        argument_parsing.workloads(names, sizes, options)
        options |= {"python": _interpreter(options["framework"], missing)}
    return [*argument_parsing.workloads(names, sizes, options)]


def _interpreter(framework: str, missing: list[str] | None) -> str:
    """Return the framework's interpreter; where commands are only shown, what is missing is told.

    Raises:
        UsageError: no interpreter has the framework, and ``missing`` is None.
    """
    from tbd_collectors import environments

    try:
        return environments.interpreter(framework)
    except UsageError as error:
        if missing is None:
            raise
        missing.append(str(error))
        return sys.executable


def _show_commands(
    target: Workload | Command,
    profiling: Profiling,
    capture: Path,
    compute_capability: str | None,
    missing: list[str],
) -> None:
    from tbd_collectors import collect as collecting
    from tbd_collectors.plan import runs

    capability = compute_capability or collecting.capability(target)
    for run in runs(target, profiling, capture, capability, missing=missing):
        variables = [f"{name}={value}" for name, value in sorted(run.environment.items())]
        typer.echo(f"# {run.name}")
        typer.echo(join([*(["env", *variables] if variables else []), *run.argv]))


def _collect(
    target: Workload | Command,
    profiling: Profiling,
    capture: Path,
    force: bool,
    compute_capability: str | None,
) -> Result:
    from tbd_collectors.collect import collect as collect_one

    def say(text: str) -> None:
        typer.echo(f"{capture}: {text}", err=True)

    with busy(f"collecting {capture}") as show:
        result = collect_one(
            target,
            profiling,
            capture,
            force=force,
            compute_capability=compute_capability,
            say=say,
            on_line=show,
        )
    for text in result.notes:
        note(f"{capture}: {text}")
    if result.status != "ok":
        failure(f"{capture}: {result.reason}; its output is in {capture}/*.log")
    return result


def _show(results: list[Result], form: Any, *, wide: bool) -> None:
    import polars as pl

    rows = [_summary(result) for result in results]
    emit(pl.DataFrame(rows, infer_schema_length=None), form, limit=0, wide=wide)


def _summary(result: Result) -> dict[str, Any]:
    """Return the row that tells about a capture."""
    throughput = result.document.get("throughput") or {}
    return {
        "capture": str(result.capture),
        "status": result.status,
        "batch_size": result.document.get("batch_size"),
        "iterations": result.document.get("iterations"),
        "warmup": result.document.get("warmup"),
        "stable": throughput.get("stable"),
        "samples_per_second": throughput.get("samples_per_second"),
        "profiler_slowdown": result.document.get("profiler_slowdown"),
        "files": ", ".join(entry["file"] for entry in result.document["files"]) or None,
    }
