"""Every golden answer, worked out from the captures' files without tbd-trace.

    python tests/golden/worked.py

writes the CSV files beside this one anew. Their rows are never taken from a query: `test_golden.py`
compares both the worked rows and the query's rows with the committed files.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from sample_facts import Row
from tbd_trace import resources
from worked_host import (
    cpu_dominant_layer,
    cpu_iteration_summary,
    cpu_iteration_timing,
    cpu_layer_time,
    cpu_throughput,
)
from worked_kernels import (
    kernel_summary,
    memory_operations,
    nvtx_gpu_time,
    nvtx_kernels,
)
from worked_layers import dominant_layer, layer_time
from worked_memory import (
    fragmentation,
    memory_at_peak,
    memory_breakdown,
    memory_by_layer,
    memory_leak,
    memory_peak,
    memory_timeline,
    memory_vs_batch,
)
from worked_network import dp_speedup, min_bandwidth
from worked_occupancy import occupancy
from worked_plots import (
    gpu_activity,
    kernel_durations,
    occupancy_histogram,
)
from worked_roofline import roofline
from worked_segments import segment_map
from worked_step_work import step_work
from worked_suite import cpu_suite_compare
from worked_time import (
    compute_util,
    step_breakdown,
    throughput,
)
from worked_torch import mfu, module_summary, op_summary
from worked_utilization import low_util_kernels, utilization
from worked_window import all_iterations, parts, steady, whole_trace

GOLDEN = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Case:
    """A query with some parameters, and how its answer is worked out.

    Attributes:
        name: the query, and after a dot the variant: the stem of the CSV file.
        rows: works the answer out.
        parameters: what the query is asked with, the defaults apart.
        capture: what is asked: the sample, the run without a GPU (cpu_trace), or the sample of
            memory or of torch.profiler.
    """

    name: str
    rows: Callable[[], list[Row]]
    parameters: dict[str, str] = field(default_factory=dict)
    capture: Literal["sample", "cpu_only", "memory", "torch"] = "sample"

    @property
    def query(self) -> str:
        return self.name.split(".")[0]

    @property
    def path(self) -> Path:
        return GOLDEN / f"{self.name}.csv"


POINTS = {"points": "12"}
MEMORY: list[tuple[str, Callable[[], list[Row]], dict[str, str]]] = [
    ("fragmentation", fragmentation, {}),
    ("fragmentation.pool", lambda: fragmentation("pool"), {"by": "pool"}),
    ("memory_at_peak", memory_at_peak, {}),
    ("memory_at_peak.top", lambda: memory_at_peak(3), {"top": "3"}),
    ("memory_breakdown", memory_breakdown, {}),
    ("memory_breakdown.end", lambda: memory_breakdown("end"), {"at": "end"}),
    ("memory_breakdown.step", lambda: memory_breakdown("step"), {"at": "step"}),
    (
        "memory_breakdown.tensors",
        lambda: memory_breakdown(denominator="tensors", sizes="allocated"),
        {"denominator": "tensors", "sizes": "allocated"},
    ),
    ("memory_by_layer", memory_by_layer, {}),
    ("memory_by_layer.iteration", lambda: memory_by_layer(1), {"iteration": "1"}),
    ("memory_leak", memory_leak, {}),
    ("memory_leak.min_iterations", lambda: memory_leak(4), {"min_iterations": "4"}),
    ("memory_peak", memory_peak, {}),
    ("memory_timeline", memory_timeline, POINTS),
    ("memory_timeline.layer", lambda: memory_timeline("layer"), {"by": "layer"} | POINTS),
    ("memory_vs_batch", memory_vs_batch, {}),
    ("segment_map", segment_map, {}),
    ("segment_map.top", lambda: segment_map(2), {"top": "2"}),
    ("memory_timeline.phase", lambda: memory_timeline("phase"), {"by": "phase"} | POINTS),
]
_LISTED = [
    Case("compute_util", lambda: compute_util({None: steady()})),
    Case("compute_util.iteration", lambda: compute_util(parts(steady())), {"by": "iteration"}),
    Case(
        "compute_util.all_iterations",
        lambda: compute_util({None: all_iterations()}),
        {"window": "iterations"},
    ),
    Case(
        "compute_util.whole_trace",
        lambda: compute_util({None: whole_trace()}),
        {"window": "trace"},
    ),
    Case("dp_speedup", dp_speedup, {"scheme": "ddp"}),
    Case("dominant_layer.type", lambda: dominant_layer("type"), {"by": "type"}),
    Case(
        "dominant_layer.kernel_class",
        lambda: dominant_layer(attribution="kernel class"),
        {"attribution": "kernel class"},
    ),
    Case("dominant_layer.host", lambda: dominant_layer(clock="host"), {"clock": "host"}),
    *(
        Case(f"{query}.cpu_only", rows, capture="cpu_only")
        for query, rows in (
            ("dominant_layer", cpu_dominant_layer),
            ("iteration_summary", cpu_iteration_summary),
            ("iteration_timing", cpu_iteration_timing),
            ("layer_time", cpu_layer_time),
            ("suite_compare", cpu_suite_compare),
            ("throughput", cpu_throughput),
        )
    ),
    Case(
        "dominant_layer.cpu_only_type",
        lambda: cpu_dominant_layer("type"),
        {"by": "type"},
        capture="cpu_only",
    ),
    Case("fp16_util", lambda: utilization("fp16")),
    Case("fp32_util", lambda: utilization("fp32")),
    *(
        Case(f"fp32_util.{by}", lambda by=by: utilization("fp32", by), {"by": by})  # type: ignore[misc]
        for by in ("iteration", "layer", "kernel")
    ),
    *(Case(name, rows, parameters, capture="memory") for name, rows, parameters in MEMORY),
    Case("gpu_activity.bins", lambda: gpu_activity(7), {"bins": "7"}),
    Case(
        "kernel_durations.bins_per_decade",
        lambda: kernel_durations(1),
        {"bins_per_decade": "1"},
    ),
    Case(
        "kernel_summary.configuration",
        lambda: kernel_summary("configuration"),
        {"by": "configuration"},
    ),
    *(
        Case(f"layer_time.{by}", lambda by=by: layer_time(by), {"by": by})  # type: ignore[misc]
        for by in ("module", "op", "class")
    ),
    Case(
        "low_util_kernels.tensor",
        lambda: low_util_kernels("tensor", 2),
        {"precision": "tensor", "count": "2"},
    ),
    Case("mfu", mfu, capture="torch"),
    Case("mfu.iteration", lambda: mfu("iteration"), {"by": "iteration"}, capture="torch"),
    Case("min_bandwidth", min_bandwidth, {"scheme": "ddp"}),
    Case(
        "memory_operations.memory_kind",
        lambda: memory_operations("memory_kind"),
        {"by": "memory_kind"},
    ),
    Case("module_summary", module_summary, capture="torch"),
    Case("nvtx_gpu_time.text", nvtx_gpu_time, {"by": "text"}),
    Case("nvtx_kernels.range", lambda: nvtx_kernels("range"), {"by": "range"}),
    Case("occupancy.trace", lambda: occupancy("trace"), {"by": "trace"}),
    Case("occupancy_histogram.bins", lambda: occupancy_histogram(3), {"bins": "3"}),
    Case("op_summary", op_summary, capture="torch"),
    Case("op_summary.name", lambda: op_summary("name"), {"by": "name"}, capture="torch"),
    Case("roofline.layer", lambda: roofline("layer"), {"by": "layer"}),
    Case("step_breakdown", lambda: step_breakdown({None: steady()})),
    Case(
        "step_breakdown.iteration",
        lambda: step_breakdown(parts(steady())),
        {"by": "iteration"},
    ),
    Case("step_work", step_work, capture="torch"),
    Case("tensor_util", lambda: utilization("tensor")),
    Case("tensor_util.layer", lambda: utilization("tensor", "layer"), {"by": "layer"}),
    Case("throughput.batch_size", lambda: throughput(64), {"batch_size": "64"}),
]


def _by_name() -> list[Case]:
    """Return a case of the sample for each function that is named after a query not listed."""
    names = {path.stem for path in resources.queries().glob("metrics/*/*.sql")}
    names -= {case.name for case in _LISTED}
    modules = [import_module(path.stem) for path in sorted(GOLDEN.glob("worked_*.py"))]
    named = {
        name: getattr(module, name) for module in modules for name in names & vars(module).keys()
    }
    return [Case(name, function) for name, function in sorted(named.items())]


CASES = [*_LISTED, *_by_name()]


def text(value: Any) -> str:
    """Return a value as a CSV field: NULL is empty, floats keep every digit."""
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case list():
            return json.dumps(value)
        case _:
            return str(value)


def write(case: Case) -> None:
    rows = case.rows()
    with case.path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(rows[0])
        writer.writerows([text(value) for value in row.values()] for row in rows)


if __name__ == "__main__":
    for golden in CASES:
        write(golden)
