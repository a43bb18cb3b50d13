"""The row that compares a capture with others, from the answers about it alone."""

from __future__ import annotations

from typing import Any

import cpu_trace
from sample_facts import GPU, Row, capture
from worked_host import cpu_dominant_layer, cpu_iteration_summary, cpu_throughput
from worked_layers import dominant_layer
from worked_time import compute_util, iteration_summary
from worked_utilization import utilization
from worked_window import steady


def suite_compare() -> list[Row]:
    (busy,) = compute_util({None: steady()})
    return [
        compared(
            iteration_summary(),
            dominant_layer(),
            capture="synthetic_cnn",
            model=capture()["model"],
            framework=capture()["framework"],
            configuration=capture()["framework"],  # a lone capture differs from none
            batch_size=capture()["batch_size"],
            throughput=capture()["throughput"]["samples_per_second"],
            throughput_run="unprofiled",
            gpu_busy_pct=busy["gpu_busy_pct"],
            device=GPU,
            precision=capture()["precision"],
            profiler=f"nsys {capture()['profiler_version']}",
        )
    ]


def batch_sweep() -> list[Row]:
    """Counters tell of FP32, for want of them the layers of the tensor cores."""
    (alike,) = suite_compare()
    columns = (
        *("trace_id", "model", "configuration", "batch_size", "capture", "throughput"),
        *("throughput_unit", "throughput_run", "iteration_ns", "gpu_busy_pct"),
    )
    used = {}
    for precision in ("fp32", "tensor"):
        known = {r["evidence"]: r["busy_pct"] for r in utilization(precision)}
        evidence = min(name for name, value in known.items() if value is not None)
        used[f"{precision}_util_pct"] = known[evidence]
        used[f"{precision}_evidence"] = evidence
    last = ("peak_device_bytes", "device", "precision", "measured_over", "differs")
    return [{name: alike[name] for name in columns} | used | {name: alike[name] for name in last}]


def cpu_suite_compare() -> list[Row]:
    """The capture says little about the run: what it leaves out is not known."""
    (rate,) = cpu_throughput()
    return [
        compared(
            cpu_iteration_summary(),
            cpu_dominant_layer(),
            capture="capture",
            batch_size=cpu_trace.BATCH_SIZE,
            throughput=rate["samples_per_s"],
            throughput_run="profiled",
            profiler="nsys",
        )
    ]


def compared(summary: list[Row], layers: list[Row], **known: Any) -> Row:
    """Return a row; the period is the first of the summary, the dominant layer the first row."""
    period, first = summary[0], layers[0]
    found = known | {
        "throughput_unit": "samples/s",
        "iteration_ns": period["mean_ns"],
        "dominant_layer": first["layer"],
        "dominant_layer_type": first["layer_type"],
        "dominant_layer_pct": first["share_pct"],
        "layer_clock": first["clock"],
        "measured_over": period["measured_over"],
    }
    columns = (
        *("capture", "model", "framework", "configuration", "batch_size", "throughput"),
        *("throughput_unit", "throughput_run", "iteration_ns", "gpu_busy_pct", "dominant_layer"),
        *("dominant_layer_type", "dominant_layer_pct", "layer_clock", "peak_device_bytes"),
        *("device", "precision", "profiler", "measured_over", "differs"),
    )
    return {"trace_id": period["trace_id"]} | {name: found.get(name) for name in columns}
