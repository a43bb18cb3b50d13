"""Refuse options of ``tbd-trace collect`` that would have no effect."""

from __future__ import annotations

import re

import typer

from tbd_trace.errors import UsageError

_OF_MODELS = (
    *("framework", "variant", "scale", "batch_size", "precision", "execution"),
    *("gradient_accumulation", "activation_checkpointing", "seed", "data", "lengths"),
    *("input_kind", "loader_workers", "python"),
)
_PROFILER_API = "cudaProfilerApi"
_NAMES = {"input_kind": "--input", "output": "-o"}  # of other options: the name of the parameter


def _option(parameter: str) -> str:
    return _NAMES.get(parameter, f"--{parameter.replace('_', '-')}")


def is_given(context: typer.Context, parameter: str) -> bool:
    """Return True if the user has written an option, also with its default value."""
    source = context.get_parameter_source(parameter)
    return source is not None and source.name == "COMMANDLINE"


def check_finish(context: typer.Context) -> None:
    """Raise UsageError for an argument or an option beside --finish that has no effect."""
    others = context.params.keys() - {"finish", "form", "wide"}
    for parameter in sorted(name for name in others if is_given(context, name)):
        what = "a model or command" if parameter == "target" else _option(parameter)
        raise UsageError(f"--finish DIR runs nothing and changes DIR alone; leave out {what}")


def check_command_options(context: typer.Context) -> None:
    """Raise UsageError for an option of models, beside a command."""
    for parameter in _OF_MODELS:
        if is_given(context, parameter):
            more = "; tbd_trace.instrument(batch_size=N) records it" * (parameter == "batch_size")
            raise UsageError(
                f"{_option(parameter)} is for models; a command chooses it itself{more}"
            )
    if is_given(context, "throughput") and context.params["throughput"]:
        raise UsageError(
            "--throughput is for models; a command is timed without the profiler after its window"
        )


def check_model_options(context: typer.Context) -> None:
    """Raise UsageError for an option of commands, beside a model."""
    if is_given(context, "auto") and not context.params["auto"]:
        raise UsageError("--no-auto is for commands; a model marks its iterations itself")


def check_memory_of_command(context: typer.Context) -> None:
    """Raise UsageError for an option that has no effect on the memory of a command."""
    for parameter in ("iterations", "warmup", "capture_range"):
        if is_given(context, parameter):
            raise UsageError(
                f"{_option(parameter)} is for timelines; --memory records the first 3 iterations"
            )
    if context.params["largest_batch"] is not None:
        raise UsageError("--largest-batch is for models; of a command, use tbd-trace fit GB -- …")
    if not context.params["estimate"]:
        return
    for parameter, given, reason in (
        ("keep_running", True, "its tensors have no data"),
        ("auto", False, "the model is found by the automatic marks"),
    ):
        if context.params[parameter] is given:
            option = _option(parameter) if given else f"--no-{parameter}"
            raise UsageError(f"{option} and --estimate exclude each other: {reason}")


def check_range(context: typer.Context, *, timeline: str, device: str) -> None:
    """Raise UsageError for a --capture-range that would not be recorded.

    Args:
        context: the options.
        timeline: the profiler.
        device: cuda or cpu.
    """
    wanted = context.params["capture_range"]
    if wanted is None:
        return
    is_api = wanted == _PROFILER_API
    if not is_api and not re.fullmatch(r".+@.+", wanted):
        raise UsageError(
            f"--capture-range {wanted!r} is neither {_PROFILER_API} nor RANGE@DOMAIN; write "
            f"'{wanted.strip('@')}@*' for the range in any domain"
        )
    if is_api and device == "cpu":
        raise UsageError(
            f"--capture-range {_PROFILER_API} needs a GPU; select an NVTX range by RANGE@DOMAIN, "
            "or leave it out"
        )
    if not is_api and timeline == "nvprof":
        raise UsageError(f"nvprof records no NVTX range; use {_PROFILER_API}, or --profiler nsys")
    for parameter in ("iterations", "warmup", "keep_running"):
        if is_given(context, parameter):
            option = _option(parameter)
            raise UsageError(f"{option} and --capture-range exclude each other; leave out one")


def check_recording(context: typer.Context, *, timeline: str, device: str) -> None:
    """Raise UsageError for records that the profiler or the device cannot give.

    Args:
        context: the options.
        timeline: the profiler.
        device: cuda or cpu.
    """
    options = context.params
    if options["memory"]:
        _check_memory(context)
        return
    if options["gpu_metrics"] and timeline != "nsys":
        raise UsageError(f"--gpu-metrics is for nsys; {timeline} does not sample them")
    if options["gpu_metrics"] and device == "cpu":
        raise UsageError("--gpu-metrics needs a GPU; see tbd-trace doctor")
    if options["memory_usage"] and timeline == "nvprof":
        raise UsageError("--memory-usage is for nsys and torch; nvprof does not trace allocations")
    if not is_given(context, "counters") or not options["counters"]:
        return
    for obstacle, is_there in (
        ("needs an NVIDIA GPU; see tbd-trace doctor", device == "cpu"),
        ("needs another run; leave out --ranks", options["ranks"] is not None),
        ("needs another run; leave out --keep-running", options["keep_running"]),
    ):
        if is_there:
            raise UsageError(f"--counters {obstacle}")


def _check_memory(context: typer.Context) -> None:
    for parameter in ("profiler", "counters", "gpu_metrics", "memory_usage"):
        if is_given(context, parameter) and context.params[parameter]:
            raise UsageError(f"{_option(parameter)} is for timelines; leave out --memory")
