"""Chapters of a report: their queries, in order, and how the results are shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from tbd_trace.analysis.report.memory_section import ID as MEMORY
from tbd_trace.analysis.report.memory_section import segments_left_out
from tbd_trace.analysis.report.ranks_section import ID as RANKS
from tbd_trace.analysis.report.ranks_section import has_ranks, verdicts_of
from tbd_trace.analysis.report.report_query import QueryRunner
from tbd_trace.model.canonical_tables import ALLOCATIONS

_MOST_ROWS = 200  # rows of a table on the page; the CSV has more
_UTILIZATION = {
    "fp32_util": "FP32 utilization",
    "fp16_util": "FP16 utilization",
    "tensor_util": "Tensor core utilization",
}


@dataclass(frozen=True, slots=True)
class Part:
    """One query of a chapter."""

    query: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    plot: bool = False  # draw the plot of its header
    table: bool = True  # show its rows as a table
    filterable: bool = False  # add a filter box to the table
    limit: int = _MOST_ROWS  # number of rows of the table
    caption: str = ""  # title of plot and table, by default that of the query
    columns: Sequence[str] = ()  # columns of the table, by default all
    about: str = ""  # column that must have values; otherwise the part is omitted
    remark: Callable[[pl.DataFrame], str] | None = None  # text below, from the rows; may be empty


@dataclass(frozen=True, slots=True)
class Chapter:
    """A section of a report made of queries."""

    id: str  # HTML id of the section
    title: str
    intro: str  # question that the section answers
    parts: Sequence[Part]  # its queries, in order
    compares: bool = False  # True if it compares runs and needs several
    holds: str = ""  # table of a trace that the chapter needs; otherwise it is omitted
    applies: Callable[[QueryRunner], bool] = lambda _: True  # False omits the chapter


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
_BY_CLASS = (
    *("trace_id", "process_id", "device_id", "allocator", "memory_kind", "class"),
    *("requested_bytes", "allocated_bytes", "share_pct", "allocations", "evidence"),
)
_AT_PEAK = (
    *("trace_id", "process_id", "device_id", "allocator", "class", "requested_bytes", "share_pct"),
    *("code", "allocations", "largest_bytes", "layer", "operator", "evidence"),
)
_LATENESS = (
    *("job", "rank", "collectives", "decided", "times_last", "share_last_pct", "caused_wait_ns"),
    *("suffered_wait_ns", "mean_lateness_ns", "median_lateness_when_last_ns", "lateness_pct"),
    *("clock", "uncertainty_ns"),
)
_BANDWIDTH = (
    *("job", "trace_id", "kind", "bytes", "group_size", "basis", "collectives", "median_ns"),
    *("p5_ns", "p95_ns", "algbw_bytes_per_s", "busbw_bytes_per_s", "link_pct"),
    *("link_bytes_per_s", "link_evidence"),
)


def _by_layer(query: str, caption: str) -> Part:
    return Part(query, {"by": "layer"}, plot=True, filterable=True, caption=caption, about="layer")


CHAPTERS = (
    Chapter(
        "comparison",
        "Runs compared",
        "How do the runs compare, and were they measured in the same way? Runs that differ in more "
        "than model, framework and batch size are not compared.",
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
        "start, determines throughput.",
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
        "How much of each iteration is compute, how much is communication and copies not hidden by "
        "compute, and how much is idle?",
        (
            Part("step_breakdown", {"by": "iteration"}, plot=True, table=False),
            Part("step_breakdown", plot=True, caption="All iterations together"),
            Part("compute_util"),
            Part("idle_causes", plot=True),
        ),
    ),
    Chapter(
        RANKS,
        "Ranks",
        "Which rank keeps the others waiting, how much communication is exposed, and how fast are "
        "the links? Ranks are compared on one clock, and only beyond its uncertainty.",
        (
            Part("job_summary"),
            Part("straggler", plot=True, columns=_LATENESS, remark=verdicts_of),
            Part(
                "rank_skew",
                {"by": "iteration"},
                plot=True,
                table=False,
                caption="Largest lateness of each rank in each iteration",
                about="lateness_ns",
            ),
            Part("comm_overlap", plot=True),
            Part("collective_bandwidth", plot=True, columns=_BANDWIDTH),
            Part("link_summary"),
        ),
        applies=has_ranks,
    ),
    Chapter(
        "utilization",
        "Utilization by layer",
        "How much of the GPU's peak did training use? Numbers from hardware counters and numbers "
        "modelled from the layers' arithmetic are shown separately and never combined.",
        (
            *(Part(name, caption=f"{title}, all kernels") for name, title in _UTILIZATION.items()),
            *(_by_layer(name, f"{title} by layer") for name, title in _UTILIZATION.items()),
        ),
    ),
    Chapter(
        "layers",
        "Dominant layers",
        "Which layers take the time? Forward and backward pass of a layer count together.",
        (
            Part("dominant_layer", plot=True, filterable=True),
            Part("layer_time", caption="Forward and backward separately", filterable=True),
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
        "The five longest kernels with less than the average utilization of the trace, the first "
        "candidates for tuning, and the five longest with more.",
        (
            Part("low_util_kernels", caption="FP32"),
            Part("low_util_kernels", {"precision": "tensor"}, caption="Tensor cores"),
        ),
    ),
    Chapter(
        "roofline",
        "Roofline",
        "Is each kernel limited by device memory or by arithmetic, and how far below the limit "
        "does it run?",
        (Part("roofline", plot=True, filterable=True, columns=_ROOFLINE),),
    ),
    Chapter(
        "occupancy",
        "Occupancy",
        "How many of the SMs' warps do kernels occupy, how many could they, and what limits them?",
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
        MEMORY,
        "Memory",
        "What fills the memory, at its peak and over time? Classes are stated by the framework or "
        "inferred from call stacks and lifetimes.",
        (
            Part("memory_peak"),
            Part("memory_timeline", {"points": "200"}, plot=True, table=False),
            Part(
                "memory_breakdown",
                plot=True,
                caption="Contents of the peak by class",
                columns=_BY_CLASS,
            ),
            Part(
                "memory_at_peak",
                {"top": "10"},
                caption="Largest allocations at the peak, with their code",
                columns=_AT_PEAK,
            ),
            Part("fragmentation"),
            Part("segment_map", plot=True, table=False, remark=segments_left_out),
        ),
        holds=ALLOCATIONS,
    ),
    Chapter(
        "memory",
        "Memory operations",
        "How much time and bandwidth do copies and fills take?",
        (Part("memory_operations"),),
    ),
)
"""Chapters after the headline, the findings and the summary of the run."""
