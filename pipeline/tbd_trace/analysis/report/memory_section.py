"""Headline numbers of memory and remarks of its chapter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from tbd_trace.analysis.report.page import Figure
from tbd_trace.analysis.report.report_query import QueryRunner
from tbd_trace.present.values import scaled

ID = "memory-use"
"""HTML id of the chapter."""
SPACE = ("process_id", "device_id", "allocator", "memory_kind")
_MOST_SPACES = 3  # of a trace, those with the highest peaks


def memory_figures(runner: QueryRunner, trace: str) -> list[Figure]:
    """Return the peaks of a trace's memory spaces, each with its largest class."""
    peaks = _rows(runner.run("memory_peak").frame, trace)
    if not peaks:
        return []
    # Rows of a space whose classes are mostly unknown have a reason in `why_not`.
    classes = _rows(runner.run("memory_breakdown", allow_unknown="true").frame, trace)
    return [_peak(row, classes, several=len(peaks) > 1) for row in peaks[:_MOST_SPACES]]


def _rows(frame: pl.DataFrame, trace: str) -> list[dict[str, Any]]:
    return [] if frame.is_empty() else frame.filter(pl.col("trace_id") == trace).to_dicts()


def _peak(row: Mapping[str, Any], classes: list[dict[str, Any]], *, several: bool) -> Figure:
    own = [each for each in classes if all(each[key] == row[key] for key in SPACE)]
    value, unit = scaled(row["peak_requested_bytes"], "byte").split(" ")
    details, evidence = [], "live bytes after each event"
    if row["allocator"] == "cuda":
        details.append("allocated from the CUDA driver; frameworks divide it further")
    elif own and own[0]["why_not"] is not None:
        details += own[0]["why_not"]
    elif own:
        first = own[0]
        details.append(
            f"largest class {first['class']}, {scaled(first['requested_bytes'], 'byte')} "
            f"({first['share_pct']:.3g} %)"
        )
        evidence += f"; class: {first['evidence']}"
    if row["peak_reserved_bytes"] is not None:
        details.append(f"the allocator held {scaled(row['peak_reserved_bytes'], 'byte')}")
    label = f"Memory peak, {_place(row)}" if several else "Memory peak"
    return Figure(label, value, unit, evidence, "memory_peak", "; ".join(details), ID)


def _place(row: Mapping[str, Any]) -> str:
    device = "host" if row["device_id"] is None else f"device {row['device_id']}"
    process = "" if row["process_id"] is None else f"process {row['process_id']}"
    return ", ".join(filter(None, (process, device, row["allocator"], row["memory_kind"])))


def segments_left_out(frame: pl.DataFrame) -> str:
    """Return how many segments of each device a segment map shows; empty if it shows all."""
    shown = frame.group_by("trace_id", "process_id", "device_id", maintain_order=True).agg(
        pl.col("segment_id").n_unique(),
        pl.col("bytes").sum(),
        pl.col("segments").first(),
        pl.col("reserved_bytes").first(),
    )
    texts = [
        f"device {row['device_id']}: the {row['segment_id']} largest of {row['segments']:,} "
        f"segments, {100 * row['bytes'] / row['reserved_bytes']:.3g} % of "
        f"{scaled(row['reserved_bytes'], 'byte')}"
        for row in shown.to_dicts()
        if row["segment_id"] < row["segments"]
    ]
    return f"Shown are, of {'; '.join(texts)}. `segment_map top=0` has all." if texts else ""
