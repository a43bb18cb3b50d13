"""What capture.json says about a workload; docs/reference/capture_directory.md lists the fields."""

from __future__ import annotations

import statistics
from typing import Any

from tbd_collectors.collection_request import Workload
from tbd_models.registry import find


def described(workload: Workload, bare: dict[str, Any], profiled: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that tell what ran and how fast.

    Args:
        workload: what was asked for.
        bare: report of the run without a profiler, empty without one.
        profiled: report of the run under the timeline's profiler, empty without one.
    """
    return _what_ran(workload, profiled or bare) | {
        "throughput": _throughput(workload, bare),
        "profiled": _timing(profiled),
        "profiler_slowdown": _slowdown(bare, profiled),
    }


def _what_ran(workload: Workload, report: dict[str, Any]) -> dict[str, Any]:
    """Return what ran, in the fields of capture.json."""
    model = find(workload.model)
    variant = model.variant(workload.variant)
    return {
        "application": model.application,
        "model": model.name,
        "variant": variant.name,
        "framework": workload.framework,
        "framework_version": report.get("framework_version"),
        "dataset": f"synthetic, as {variant.dataset}" if workload.data is None else variant.dataset,
        "batch_size": workload.batch_size,
        "batch_definition": model.batch_definition,
        "sequence_policy": model.sequence_policy,
        "precision": workload.precision,
        "autocast": report.get("autocast"),
        "optimizer": variant.optimizer,
        "seed": workload.seed,
        "scale": workload.scale,
        "device": workload.device,
        "world_size": 1,
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


def _timing(report: dict[str, Any]) -> dict[str, Any] | None:
    """Return how a run went by its own clock."""
    if report.get("status") != "ok":
        return None
    fields = (
        *("execution", "inter_op_threads", "warmup", "stable", "reason"),
        *("seconds", "iteration_ns", "losses"),
    )
    return {name: report[name] for name in fields if report.get(name) not in (None, "")}


def _throughput(workload: Workload, report: dict[str, Any]) -> dict[str, Any] | None:
    timing = _timing(report)
    if timing is None:
        return None
    samples = workload.batch_size * workload.iterations
    model = find(workload.model)
    dimensions = model.variant(workload.variant).at(workload.scale)
    return {
        "samples_per_second": samples / timing["seconds"],
        "iterations": workload.iterations,
        "unit": model.throughput_unit,
        # An utterance counts as the seconds that it lasts, an image as one.
        "units_per_sample": float(getattr(dimensions, "units_per_sample", 1)),
        **timing,
    }


def _slowdown(bare: dict[str, Any], profiled: dict[str, Any]) -> float | None:
    """Return the median iteration under the profiler, divided by that without."""
    if bare.get("status") != "ok" or profiled.get("status") != "ok":
        return None
    with_profiler: float = statistics.median(profiled["iteration_ns"])
    without: float = statistics.median(bare["iteration_ns"])
    return with_profiler / without
