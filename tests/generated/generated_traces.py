"""Generated databases: every canonical table has rows, from a seed."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from generated_job import MS, add_link_test, add_points, add_rank
from generated_memory import History, add_exhausted_device, add_plan
from generated_names import COUNTERS, DEVICES, KERNELS, LAYERS
from generated_timeline import Timeline
from made_trace import MadeTrace

STYLES = ["tbd_trace", "plain", "torch", "numbered", "family", "marks", "nested", "none", "host"]


def generated(seed: int) -> MadeTrace:
    """Return traces of all kinds: runs of a suite, their counters, memory, and a job of 3 ranks."""
    dice, made = Random(seed), MadeTrace()
    for number, style in enumerate(STYLES):
        _add_run(made, dice, f"t{number}", style)
    _add_counters(made, dice, "m0", capture_id="c0")
    _add_suite(made, dice)
    for number in range(3):
        _add_memory(made, dice, f"memory{number}", states=number != 1, grows=number != 2)
    starts = [100 * MS * number for number in range(1, 28)]
    for rank in range(3):
        trace = f"rank{rank}"
        _describe(made, dice, trace, "torch")
        Timeline(made, dice, trace, 1, "torch", grid=MS).run(4)
        add_rank(made, dice, trace, rank, starts)
    made.add_trace("nccl", kind="link", tool="nccl-tests", format="nccl-tests")
    add_link_test(made, dice, "nccl")
    return made


def _describe(made: MadeTrace, dice: Random, trace: str, style: str, **row: Any) -> None:
    batch = dice.choice([8, 16, 32, None])
    capture: dict[str, Any] = {
        "model": dice.choice(["resnet", "resnet", "bert"]), "batch_size": batch,
        "framework": dice.choice(["pytorch", "pytorch", "tensorflow"]), "framework_version": "2.3",
        "precision": dice.choice(["fp32", "fp32", "bf16", "mixed"]), "optimizer": "sgd",
        "world_size": dice.choice([1, 2]),
        "throughput": dice.choice([{}, {"samples_per_second": 50.0 * (batch or 1) ** 0.5,
            "iterations": 20, "unit": "image", "units_per_sample": 2}]),
        "peak_device_bytes": dice.choice([None, 8 << 30, 39 << 30]),
        "profiled": dice.choice([{}, {"execution": "eager"}, {"execution": "graph"}]),
    }  # fmt: skip
    tool = {"torch": "torch"}.get(style, "nsys")
    made.add_trace(trace, tool=tool, format="kineto" if tool == "torch" else "nsys-sqlite",
        capture=json.dumps(capture), batch_size=batch, start_ns=1000, name=f"{trace}/{trace}",
        utc_start_ns=dice.choice([None, 10**18]), **row)  # fmt: skip


def _add_run(made: MadeTrace, dice: Random, trace: str, style: str) -> None:
    _describe(made, dice, trace, style, capture_id="c" + trace[-1])
    for process in range(1, dice.choice([2, 3])):
        made.add("process", trace_id=trace, process_id=process, pid=100 + process, name="python")
        for thread in (1, 2):
            made.add("thread", trace_id=trace, process_id=process, thread_id=thread, tid=thread,
                name=dice.choice(["main", None]))  # fmt: skip
        iterations = 12 if style in ("tbd_trace", "none", "host") else dice.randint(4, 7)
        has_graphs = dice.random() < 0.3
        Timeline(made, dice, trace, process, style, has_graphs=has_graphs).run(iterations)
    for position, layer in enumerate(LAYERS[: dice.choice([0, 3, 4])]):
        made.add_layer(layer, position, trace_id=trace,
            layer_type=dice.choice(["CONV", "GEMM", None]), parameters=dice.choice([100, None]),
            weight_bytes=400, gradient_bytes=dice.choice([400, 4_000_000, None]),
            feature_map_bytes=dice.choice([800, None]), forward_flop=dice.choice([500.0, None]),
            backward_flop=dice.choice([1000.0, None]),
            precision=dice.choice(["fp32", "fp16", "tf32", None]))  # fmt: skip
    if dice.random() < 0.5:
        add_points(made, dice, trace)
    ends = [row["end_ns"] for table in ("kernel", "api_call", "annotation") for row in
        made.rows[table] if row["trace_id"] == trace and row["end_ns"] is not None]  # fmt: skip
    made.rows["trace"][-1]["end_ns"] = max(ends)


def _add_suite(made: MadeTrace, dice: Random) -> None:
    """Add short captures of two models, frameworks and GPUs with three batch sizes."""
    for model, kernel in (("resnet", KERNELS[1]), ("lstm", KERNELS[8])):
        for framework in ("pytorch", "tensorflow"):
            for gpu in (0, 1):
                for batch in (8, 16, 32):
                    trace = f"{model}-{framework}-{gpu}-{batch}"
                    rate = batch ** dice.choice([0.2, 0.5, 1]) * dice.choice([10, 12, 20])
                    peak = dice.choice([1, 2, 9]) * (batch << 24)
                    said = {"model": model, "framework": framework, "framework_version": "2",
                        "batch_size": batch, "precision": "fp32", "optimizer": "sgd",
                        "throughput": {"samples_per_second": rate, "iterations": 20},
                        "peak_device_bytes": peak}  # fmt: skip
                    made.add_trace(trace, name=f"{trace}/t.sqlite", batch_size=batch,
                        capture=json.dumps(said))  # fmt: skip
                    made.add("device", trace_id=trace, device_id=0, **DEVICES[gpu])
                    _add_short_run(made, dice, trace, kernel)


def _add_short_run(made: MadeTrace, dice: Random, trace: str, kernel: str) -> None:
    at = 1000
    for step in range(8):
        took = 1000 + dice.choice([0, 20, 100])
        made.add_range(at, at + took, f"step {step}", trace_id=trace)
        made.add_range(at + 5, at + 90, "phase:backward", trace_id=trace)
        for number in range(3):
            start = at + 100 + 200 * number
            made_kernel = made.launch(at + 10 + 20 * number, start,
                start + dice.choice([50, 100, 200]), kernel, trace_id=trace)  # fmt: skip
            for metric in COUNTERS["ncu"][:3]:
                value = float(dice.choice([100, 10_000, 90_000]))
                made.add_metric(made_kernel, metric, value, trace_id=trace)
        at += took


def _add_counters(made: MadeTrace, dice: Random, trace: str, **row: Any) -> None:
    made.add_trace(trace, kind="metrics", tool="ncu", format="ncu-csv", **row)
    made.add_device(trace_id=trace, process_id=None)
    for name in KERNELS:
        for _ in range(2):
            kernel = made.add_kernel(None, None, name, trace_id=trace, grid_x=8, block_x=128)
            for metric in COUNTERS["ncu"]:
                made.add_metric(kernel, metric, float(dice.choice([0, 5, 50, 99, 10_000])),
                    trace_id=trace, kernel_name=name)  # fmt: skip
    made.add("kernel_aggregate", trace_id=trace, device_id=0, name=KERNELS[0], instances=3,
        total_ns=90, mean_ns=30.0, min_ns=10, max_ns=50)  # fmt: skip


def _add_memory(made: MadeTrace, dice: Random, trace: str, states: bool, grows: bool) -> None:
    made.add_trace(trace, kind="memory", tool="torch", format="torch-snapshot",
        batch_size=dice.choice([8, 16]),
        capture=json.dumps({"model": "resnet", "batch_size": 8}))  # fmt: skip
    for device in (0, 1):
        head = {"trace_id": trace, "process_id": 1, "device_id": device,
            "allocator": "torch" if device == 0 or grows else "cuda",
            "memory_kind": None}  # fmt: skip
        History(made, dice, head, states, grows).run(dice.randint(5, 8))
    add_exhausted_device(made, trace)
    add_plan(made, dice, trace)
