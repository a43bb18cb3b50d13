"""Print the captures of ``tbd-trace collect``: one row each."""

# polars is imported when a command runs, so that `--help` starts fast.
# ruff: noqa: PLC0415
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tbd_trace.cli.output import emit

if TYPE_CHECKING:
    from tbd_collectors.collect import Result


def show_results(results: list[Result], form: Any, *, wide: bool) -> None:
    """Print a table of captures, finished or not."""
    import polars as pl

    rows = [_summary(result) for result in results]
    # The type of a column may first show in a late row: a failed capture has no throughput.
    emit(pl.DataFrame(rows, infer_schema_length=None), form, limit=0, wide=wide)


def _summary(result: Result) -> dict[str, Any]:
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
