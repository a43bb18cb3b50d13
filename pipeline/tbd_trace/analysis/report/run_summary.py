"""Section of a report about the run: its traces and the metadata of its captures."""

from __future__ import annotations

import json
from typing import Any

import polars as pl

from tbd_trace.analysis.report.page import Block, Section, Table
from tbd_trace.analysis.report.report_query import QueryRunner

_SHOWN = (
    *("name", "tool", "tool_version", "export_version", "format", "kind", "devices"),
    *("processes", "duration_ns", "kernels", "kernel_ns", "memcpys", "memsets", "graph_launches"),
    *("api_calls", "nvtx_ranges", "metrics", "file_bytes", "holds", "lacks", "notes"),
)
_FEW = 3  # up to this number, traces are shown as lists of columns
_NOT_SHOWN = {"synthetic", "notice", "format_version", "files"}  # shown elsewhere, or internal


def run_section(runner: QueryRunner, traces: pl.DataFrame) -> Section:
    """Return the section about the run; ``traces`` are rows of the ``trace`` table."""
    answer = runner.run("trace_info")
    blocks: list[Block] = []
    captures = capture_facts(traces)
    if not captures.is_empty():
        blocks.append(
            Table(
                captures,
                query="sql: SELECT capture FROM trace",
                caption="The run, as recorded in capture.json",
            )
        )
    blocks.append(
        Table(
            answer.frame,
            answer.units,
            answer.label,
            caption="The traces",
            docs=answer.docs,
            columns=_SHOWN,
            records=answer.frame.height <= _FEW,
        )
    )
    return Section("what-ran", "What ran", answer.query.question, blocks)


def notices(traces: pl.DataFrame) -> list[str]:
    """Return the notices of captures, such as that they are synthetic, without duplicates."""
    captures = [_capture(text) for text in traces["capture"].to_list()]
    notices_found = [str(capture["notice"]) for capture in captures if capture.get("notice")]
    if not notices_found and any(capture.get("synthetic") is True for capture in captures):
        notices_found = ["A trace of this report is synthetic: it was not measured."]
    return list(dict.fromkeys(notices_found))


def capture_facts(traces: pl.DataFrame) -> pl.DataFrame:
    """Return the metadata of the captures of ``trace`` rows: one row each, one column per field."""
    described = {
        row["capture_id"]: _facts(_capture(row["capture"]))
        for row in traces.select("capture_id", "capture").to_dicts()
        if row["capture"]
    }
    names = list(dict.fromkeys(name for facts in described.values() for name in facts))
    rows = [[facts.get(name) for name in names] for facts in described.values()]
    return pl.DataFrame(rows, schema=dict.fromkeys(names, pl.String), orient="row")


def one_line_summary(traces: pl.DataFrame) -> str:
    """Return model, framework, batch size, precision and GPU of ``trace`` rows, or their tools."""
    lines = dict.fromkeys(
        _line(_capture(row["capture"])) or f"profile of {row['tool']}"
        for row in traces.select("capture", "tool").to_dicts()
    )
    shown = list(lines)[:_FEW]
    return "; ".join(shown) + (f"; and {len(lines) - _FEW} more" if len(lines) > _FEW else "")


def _line(capture: dict[str, Any]) -> str:
    batch_size = capture.get("batch_size")
    framework = [capture.get("framework"), capture.get("framework_version")]
    notices_found = [
        capture.get("model"),
        " ".join(str(word) for word in framework if word),
        f"batch size {batch_size}" if batch_size else None,
        capture.get("precision"),
        capture.get("gpu"),
    ]
    return ", ".join(str(word) for word in notices_found if word)


def _capture(text: str | None) -> dict[str, Any]:
    capture = json.loads(text) if text else {}
    return capture if isinstance(capture, dict) else {}


def _facts(capture: dict[str, Any], within: str = "") -> dict[str, str]:
    # Nested objects become fields with the names joined by a space.
    facts: dict[str, str] = {}
    for name, value in capture.items():
        words = f"{within} {name}".strip().replace("_", " ")
        if isinstance(value, dict):
            facts |= _facts(value, words)
        elif value is not None and name not in _NOT_SHOWN:
            facts[words] = str(value)
    return facts
