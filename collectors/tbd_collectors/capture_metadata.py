"""Build the content of capture.json for a workload; see docs/reference/capture_directory.md."""

from __future__ import annotations

import statistics
from typing import Any

from tbd_collectors.collection_request import Command, Workload
from tbd_models.definition import Model, Variant
from tbd_models.registry import find
from tbd_trace.redact.secrets import without_secrets

# What a command reports of itself (tbd_trace.instrument).
_COMMAND_KEYS = (
    *("framework", "framework_version", "device", "gpu", "batch_size", "iterations", "warmup"),
)


def described(
    workload: Workload,
    bare: dict[str, Any],
    profiled: dict[str, Any],
    memory: dict[str, Any],
    ranks: int = 1,
) -> dict[str, Any]:
    """Return the fields about a workload and its speed.

    ``bare``, ``profiled`` and ``memory`` are the reports of the runs without and with a profiler
    and of the one that recorded memory, or empty; ``ranks`` is the number of training processes.
    """
    # Versions and memory are those of the profiled run: the timeline belongs to it.
    return _what_ran(workload, profiled or memory or bare) | {
        "world_size": ranks,
        "throughput": _throughput(workload, bare, ranks),
        "profiled": _timing(profiled),
        "profiler_slowdown": _slowdown(bare, profiled),
    }


def _what_ran(workload: Workload, report: dict[str, Any]) -> dict[str, Any]:
    model = find(workload.model)
    variant = model.variant(workload.variant, workload.framework)
    lengths = report.get("lengths") or {}
    return {
        "application": model.application,
        "model": model.name,
        "variant": variant.name,
        "framework": workload.framework,
        "framework_version": report.get("framework_version"),
        "dataset": _dataset(workload, variant, lengths),
        "batch_size": workload.batch_size,
        "batch_definition": model.batch_definition,
        "sequence_policy": lengths.get("sequence_policy", model.sequence_policy),
        "precision": workload.precision,
        "autocast": report.get("autocast"),
        "optimizer": variant.optimizer,
        "gradient_accumulation": workload.gradient_accumulation,
        "activation_checkpointing": workload.activation_checkpointing,
        "seed": workload.seed,
        "loader_workers": workload.loader_workers if workload.input == "decode" else None,
        "scale": workload.scale,
        "device": workload.device,
        "gpu": report.get("gpu"),
        "parameters": report.get("parameters"),
        "python_version": report.get("python_version"),
        "cuda_version": report.get("cuda_version"),
        "cudnn_version": report.get("cudnn_version"),
        "cpu_threads": report.get("cpu_threads"),
        "iterations": workload.iterations,
        "warmup": report.get("warmup"),
        "peak_device_bytes": report.get("peak_device_bytes"),
    }


def _dataset(workload: Workload, variant: Variant, lengths: dict[str, Any]) -> str:
    if workload.data is not None:
        return variant.dataset
    if workload.input == "decode":
        return f"decoded files, as {variant.dataset}"
    # Synthetic data has the shapes of the data set, so its name is needed to compare runs.
    said = f"synthetic, as {variant.dataset}"
    return f"{said}, lengths of {lengths['histogram']}" if lengths else said


def _timing(report: dict[str, Any]) -> dict[str, Any] | None:
    if report.get("status") != "ok":
        return None
    fields = (
        *("execution", "inter_op_threads", "warmup", "stable", "reason"),
        *("seconds", "iteration_ns", "losses"),
    )
    timing = {name: report[name] for name in fields if report.get(name) not in (None, "")}
    lengths = report.get("lengths")
    if lengths is None:
        return timing
    names = ("padding_pct", "corpus_padding_pct", "corpus_work_variation_pct", "work")
    return timing | {
        "samples_per_iteration": lengths["samples"] / len(report["iteration_ns"]),
        "real_unit": lengths["unit"],
        "real_units_per_second": lengths["real_units"] / report["seconds"],
        **{name: lengths[name] for name in names},
    }


def _throughput(workload: Workload, report: dict[str, Any], ranks: int) -> dict[str, Any] | None:
    timing = _timing(report)
    if timing is None:
        return None
    # `seconds` spans all measured iterations of this rank; the others train as many.
    samples = timing.get("samples_per_iteration", workload.batch_size) * workload.iterations
    model = find(workload.model)
    dimensions = model.variant(workload.variant, workload.framework).at(workload.scale)
    return {
        "samples_per_second": samples * ranks / timing["seconds"],
        "iterations": workload.iterations,
        "unit": model.throughput_unit,
        # Samples differ in size: an utterance counts as its length in seconds, an image as 1.
        "units_per_sample": _units_per_sample(model, dimensions, report),
        **timing,
    }


def _units_per_sample(model: Model, dimensions: Any, report: dict[str, Any]) -> float:
    lengths = report.get("lengths")
    if lengths is not None and model.throughput_unit == f"{lengths['unit']}/s":
        return float(lengths["real_units"] / lengths["samples"])
    return float(getattr(dimensions, "units_per_sample", 1))


def _slowdown(bare: dict[str, Any], profiled: dict[str, Any]) -> float | None:
    if bare.get("status") != "ok" or profiled.get("status") != "ok":
        return None
    return _ratio(profiled, bare)


def _ratio(profiled: dict[str, Any], bare: dict[str, Any]) -> float:
    # The median, because a profiler flush can slow down a single iteration.
    with_profiler: float = statistics.median(profiled["iteration_ns"])
    without: float = statistics.median(bare["iteration_ns"])
    return with_profiler / without


def of_command(command: Command, training: dict[str, Any]) -> dict[str, Any]:
    """Return the fields about a command and its speed, with and without the profiler.

    ``training`` is the report of its iterations (`tbd_models.instrument.progress`), or empty.
    """
    known = {name: training.get(name) for name in _COMMAND_KEYS}
    return {"command": without_secrets(command.arguments), **known, **_speed(training)}


def _speed(training: dict[str, Any]) -> dict[str, Any]:
    bare, profiled = training.get("unprofiled"), training.get("profiled")
    if not bare or not profiled:
        return {"profiled": profiled}
    slowdown = _ratio(profiled, bare)
    return {"profiled": profiled, "unprofiled": bare, "profiler_slowdown": slowdown}
