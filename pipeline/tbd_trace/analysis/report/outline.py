"""The chapters of a report: which queries answer in which order, and how they are shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

_MOST_ROWS = 200
_UTILIZATION = {
    "fp32_util": "FP32 utilization",
    "fp16_util": "FP16 utilization",
    "tensor_util": "Tensor core utilization",
}


@dataclass(frozen=True, slots=True)
class Part:
    """One question of a chapter.

    Attributes:
        query: name of the query.
        parameters: parameters that are set.
        plot: whether the plot of its header is drawn.
        table: whether its rows are shown as a table.
        filterable: whether the table has a box to filter it.
        limit: rows of the table.
        caption: title of both; that of the query if empty.
        columns: columns of the table; none means all.
        about: column that must hold a value, else the part is left out: layers where there are any.
    """

    query: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    plot: bool = False
    table: bool = True
    filterable: bool = False
    limit: int = _MOST_ROWS
    caption: str = ""
    columns: Sequence[str] = ()
    about: str = ""


@dataclass(frozen=True, slots=True)
class Chapter:
    """A section of a report that queries answer.

    Attributes:
        id: address of the section.
        title: heading.
        intro: what it answers.
        parts: its questions, in order.
        compares: whether it sets runs side by side, hence needs several.
    """

    id: str
    title: str
    intro: str
    parts: Sequence[Part]
    compares: bool = False


_OCCUPANCY = (
    *("trace_id", "kernel_name", "theoretical_pct", "estimated_achieved_pct", "achieved_pct"),
    *("limiter", "waves", "instances", "total_ns", "block_threads", "registers_per_thread"),
    *("shared_bytes", "evidence"),
)
_ROOFLINE = (
    *("trace_id", "device_id", "kernel_name", "precision", "kernels", "total_ns"),
    *("arithmetic_intensity", "achieved_flops", "attainable_flops", "attained_pct"),
    *("bandwidth_pct", "bound", "evidence", "reason"),
)


def _by_layer(query: str, caption: str) -> Part:
    return Part(query, {"by": "layer"}, plot=True, filterable=True, caption=caption, about="layer")


CHAPTERS = (
    Chapter(
        "comparison",
        "Runs compared",
        "How do the runs compare, and were they measured alike? Those that differ in more than "
        "model, framework and batch size are not compared.",
        (
            Part("batch_sweep", plot=True, table=False, about="batch_size"),
            Part("suite_compare"),
        ),
        compares=True,
    ),
    Chapter(
        "iterations",
        "Iteration timing",
        "How long does an iteration take, and how much does that vary? The period, from start to "
        "start, is what gives throughput.",
        (
            Part("iteration_timing", plot=True, table=False),
            Part("iteration_summary"),
            Part("throughput"),
            Part("iteration_timing", caption="Single iterations", filterable=True),
        ),
    ),
    Chapter(
        "step",
        "Step breakdown",
        "Of each iteration's time, how much is compute, how much communication and copies that "
        "nothing hides, and how much is idle?",
        (
            Part("step_breakdown", {"by": "iteration"}, plot=True, table=False),
            Part("step_breakdown", plot=True, caption="All iterations together"),
            Part("compute_util"),
            Part("gpu_activity", plot=True, table=False),
            Part("idle_causes", plot=True),
        ),
    ),
    Chapter(
        "utilization",
        "Utilization by layer",
        "How much of the GPU's peak did training use? What hardware counters counted and what the "
        "layers' arithmetic gives are told apart, never mixed.",
        (
            *(Part(name, caption=f"{title}, all kernels") for name, title in _UTILIZATION.items()),
            *(_by_layer(name, f"{title} by layer") for name, title in _UTILIZATION.items()),
        ),
    ),
    Chapter(
        "layers",
        "Dominant layers",
        "Which layers take the time? Forward and backward of a layer count together.",
        (
            Part("dominant_layer", plot=True, filterable=True),
            Part("layer_time", caption="Forward and backward apart", filterable=True),
        ),
    ),
    Chapter(
        "kernels",
        "Kernels",
        "Which kernels take the GPU's time?",
        (
            Part("kernel_summary", plot=True, table=False),
            Part("kernel_durations", plot=True, table=False),
            Part("kernel_summary", caption="All kernels", filterable=True),
        ),
    ),
    Chapter(
        "low-utilization",
        "Long kernels of low utilization",
        "The five longest kernels that use the GPU less than the trace does on average, which are "
        "those worth a look first, and five that use it more.",
        (
            Part("low_util_kernels", caption="FP32"),
            Part("low_util_kernels", {"precision": "tensor"}, caption="Tensor cores"),
        ),
    ),
    Chapter(
        "roofline",
        "Roofline",
        "Is each kernel held back by device memory or by arithmetic, and how far below the limit "
        "does it run?",
        (Part("roofline", plot=True, filterable=True, columns=_ROOFLINE),),
    ),
    Chapter(
        "occupancy",
        "Occupancy",
        "How full do kernels keep the SMs, how full could they, and what stops them?",
        (
            Part("occupancy", {"by": "trace"}, caption="All kernels together"),
            Part("occupancy_histogram", plot=True, table=False),
            Part("layer_occupancy", plot=True, caption="Occupancy by layer", about="layer"),
            Part(
                "occupancy",
                plot=True,
                filterable=True,
                caption="Occupancy by kernel",
                columns=_OCCUPANCY,
            ),
        ),
    ),
    Chapter(
        "memory",
        "Memory operations",
        "How much time and bandwidth do copies and fills take?",
        (Part("memory_operations"),),
    ),
)
"""What a report shows after the headline and what ran."""
