"""Print what ``tbd-trace collect`` runs, and its captures: one row each."""

# polars is imported when a command runs, so that `--help` starts fast.
# ruff: noqa: PLC0415
from __future__ import annotations

from collections.abc import Sequence
from shlex import join, quote
from statistics import median
from typing import TYPE_CHECKING, Any

import typer

from tbd_collectors.choices import Device
from tbd_trace.cli.output import emit, note

if TYPE_CHECKING:
    import polars as pl

    from tbd_collectors.collect import Result
    from tbd_collectors.collection_request import Command, Profiling, Workload
    from tbd_collectors.sweep import Job


def note_missing_gpu(target: Workload | Command, requested: Device) -> None:
    """Note that a model trains on the CPU because there is no GPU, unless that was requested."""
    if target.device != "cpu" or requested is not Device.AUTO:
        return
    scale = getattr(target, "scale", None)
    if scale == "full":
        note(
            "there is no GPU here (tbd-trace doctor), so the whole model trains on the CPU, which "
            "takes minutes to hours; --device cpu --scale small takes seconds"
        )
    elif scale is not None:
        note("there is no GPU here (tbd-trace doctor), so the model trains on the CPU")


def show_commands(
    jobs: Sequence[Job], profiling: Profiling, compute_capability: str | None, missing: list[str]
) -> None:
    """Print the command lines of captures, and the programs missing for them."""
    from tbd_collectors import collect as collecting
    from tbd_collectors.plan import runs

    for target, capture in jobs:
        needs_gpu = not profiling.memory
        capability = compute_capability or (collecting.capability(target) if needs_gpu else None)
        for run in runs(target, profiling, capture, capability, missing=missing):
            variables = [f"{name}={value}" for name, value in sorted(run.environment.items())]
            typer.echo(f"# {run.name}")
            typer.echo(join([*(["env", *variables] if variables else []), *run.argv]))
    for text in missing:
        note(text)


def output_descriptors(form: Any) -> tuple[int, int]:
    """Return the descriptors to which the standard and error output of a command go.

    If the table of captures is to be read by a program, it has the standard output for itself.
    """
    return (1, 2) if form is None else (2, 2)


def show_results(results: list[Result], form: Any, *, wide: bool) -> None:
    """Print a table of captures, finished or not, and what to do next."""
    import polars as pl

    rows = [_summary(result) for result in results]
    # The type of a column may first show in a late row: a failed capture has no throughput.
    frame = pl.DataFrame(rows, infer_schema_length=None)
    if form is None and frame.height > 1:
        frame = frame.drop("size_bytes")  # the table is wide
    show_rows(frame, form, wide=wide)
    readable = [result for result in results if result.document["files"]]
    if readable:
        note(f"next: tbd-trace why {quote(str(readable[-1].capture))}")


def show_rows(frame: pl.DataFrame, form: Any, *, wide: bool) -> None:
    """Print rows of captures; a table for people has no empty columns."""
    if form is None:
        frame = frame.select(c for c in frame.columns if frame[c].null_count() < frame.height)
    emit(frame, form, limit=0, wide=wide)


def _summary(result: Result) -> dict[str, Any]:
    throughput = result.document.get("throughput") or {}
    files = [entry["file"] for entry in result.document["files"]]
    return {
        "capture": str(result.capture),
        "status": result.status,
        "batch_size": result.document.get("batch_size"),
        "iterations": result.document.get("iterations"),
        "warmup": result.document.get("warmup"),
        "stable": throughput.get("stable"),
        "samples_per_second": throughput.get("samples_per_second"),
        "profiler_slowdown": result.document.get("profiler_slowdown"),
        "unprofiled_ns": _unprofiled_ns(result),
        "size_bytes": sum((result.capture / name).stat().st_size for name in files) or None,
        "files": ", ".join(files) or None,
    }


def _unprofiled_ns(result: Result) -> float | None:
    timing = result.document.get("unprofiled") or {}
    return median(timing["iteration_ns"]) if timing else None
