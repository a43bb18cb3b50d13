"""Headline numbers of traces with their evidence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from tbd_trace.analysis.report.memory_section import memory_figures
from tbd_trace.analysis.report.page import Figure, Figures
from tbd_trace.analysis.report.report_query import Answer, QueryRunner
from tbd_trace.present.values import NULL, scale

Row = Mapping[str, Any]
_UTILIZATION = {"fp32_util": "FP32 utilization", "tensor_util": "Tensor core utilization"}
_BY_DEVICE = "by process and GPU"
_NOTABLE_PCT = 1  # smaller shares of unattributed time are not mentioned
_UNANSWERED = "Not known for this trace; its section states the reason."


def headline(
    runner: QueryRunner, trace_names: Mapping[str, str], kinds: Mapping[str, str]
) -> list[Figures]:
    """Return a row of numbers per trace with known numbers.

    Args:
        runner: runs the queries.
        kinds: kind of each trace.
    """
    made = {
        # A file with nothing but memory knows no times.
        trace: ([] if kinds.get(trace) == "memory" else _figures(runner, trace))
        + memory_figures(runner, trace)
        for trace in trace_names
    }
    # A metric run whose counters are joined to a timeline has no numbers.
    known = {
        trace: figures
        for trace, figures in made.items()
        if any(figure.value != NULL for figure in figures)
    }
    several = len(known) > 1
    return [Figures(f, trace_names[trace] if several else "") for trace, f in known.items()]


def _figures(runner: QueryRunner, trace: str) -> list[Figure]:
    def rows(answer: Answer) -> Sequence[Row]:
        if answer.frame.is_empty():
            return []
        return answer.frame.filter(pl.col("trace_id") == trace).to_dicts()

    throughput = runner.run("throughput")
    timing = runner.run("iteration_summary")
    busy = runner.run("compute_util")
    occupancy = runner.run("occupancy", by="trace")
    dominant = runner.run("dominant_layer")
    figures = [
        _throughput(rows(throughput)),
        _iteration_time(rows(timing)),
        _dominant(rows(dominant)),
        _busy(rows(busy)),
    ]
    for name, label in (
        ("fp32_util", "FP32 utilization"),
        ("tensor_util", "Tensor core utilization"),
    ):
        figures += _utilization(rows(runner.run(name)), name, label)
    return [*figures, _occupancy(rows(occupancy))]


def _throughput(rows: Sequence[Row]) -> Figure:
    label, query, link = "Throughput", "throughput", "iterations"
    named_unit = str(rows[0]["throughput_unit"]) if rows else ""
    # Numbers without a profiler come first: profilers slow training down.
    for column, unit in (
        ("unprofiled_units_per_s", named_unit),
        ("unprofiled_samples_per_s", "samples/s"),
        ("samples_per_s", "samples/s"),
        ("iterations_per_s", "iterations/s"),
    ):
        values = _known(rows, column)
        if not values:
            continue
        unprofiled = column.startswith("unprofiled")
        slowdown = _spread(_known(rows, "profiler_slowdown_pct"))
        slower = f"; the profiler slows it down by {slowdown} %" if slowdown != NULL else ""
        detail = f"measured without a profiler{slower}" if unprofiled else "under the profiler"
        evidence = "" if unprofiled else _evidence(rows, "method", "measured_over")
        detail += _range_note(rows, "by process")
        if not unprofiled:
            detail += f"; {_evidence(rows, 'stability')}"
        return Figure(label, _spread(values), unit, evidence, query, detail, link)
    return Figure(label, NULL, query=query, detail=_UNANSWERED, link=link)


def _iteration_time(rows: Sequence[Row]) -> Figure:
    label, query, link = "Iteration time (mean)", "iteration_summary", "iterations"
    periods = [row for row in rows if row["measure"] == "period_ns"]
    means = _known(periods, "mean_ns")
    if not means:
        return Figure(label, NULL, query=query, detail=_UNANSWERED, link=link)
    divisor, unit = scale(max(means), "ns")
    numbers = _known(periods, "n")
    iterations = "iteration" if set(numbers) == {1} else "iterations"
    detail = f"{_spread(numbers)} {iterations}; {_evidence(periods, 'stability')}"
    lows, highs = _known(periods, "p5_ns"), _known(periods, "p95_ns")
    if lows and highs:
        detail += (
            f"; 5th to 95th percentile {min(lows) / divisor:.4g} to {max(highs) / divisor:.4g} "
            f"{unit}, coefficient of variation {_spread(_known(periods, 'cv_pct'))} %"
        )
    if any(row["clock"] == "gpu" for row in periods):
        detail += "; from start to start on the GPU"
    value = _spread([mean / divisor for mean in means])
    return Figure(
        label, value, unit, _evidence(periods, "method", "measured_over"), query, detail, link
    )


def _busy(rows: Sequence[Row]) -> Figure:
    label, query, link = "GPU busy", "compute_util", "step"
    values = _known(rows, "gpu_busy_pct")
    if not values:
        return Figure(label, NULL, query=query, detail=_UNANSWERED, link=link)
    detail = f"with kernels {_spread(_known(rows, 'kernel_busy_pct'))} % of the time"
    detail += _range_note(rows, _BY_DEVICE)
    evidence = _evidence(rows, "measured_over")
    return Figure(label, _spread(values), "%", evidence, query, detail, link)


def _utilization(rows: Sequence[Row], query: str, label: str) -> list[Figure]:
    # One number per kind of evidence: counted and modelled work are never combined.
    link = "utilization"
    kinds = list(dict.fromkeys(row["evidence"] for row in rows))
    if not kinds:
        return [Figure(label, NULL, query=query, detail=_UNANSWERED, link=link)]
    return [
        _utilization_by([row for row in rows if row["evidence"] == kind], query, label, kind)
        for kind in kinds
    ]


def _utilization_by(rows: Sequence[Row], query: str, name: str, kind: str) -> Figure:
    label = f"{name}, {'counted' if kind == 'counter' else kind}"
    link, evidence = "utilization", _evidence(rows, "evidence", "measured_over")
    for column, unit, of in (
        ("busy_pct", "% of peak", "while kernels run"),
        ("pipe_pct", "% of pipe cycles", "while SMs are active"),
        ("pipe_level", "of level 10", "nvprof's level, not a share of the peak"),
    ):
        values = _known(rows, column)
        if values:
            elapsed = _known(rows, "elapsed_pct") if column == "busy_pct" else []
            detail = of + (f"; {_spread(elapsed)} % of the elapsed time's" if elapsed else "")
            covered = _spread(_known(rows, "covered_pct"))
            detail += f"; known for {covered} % of the kernels' time"
            detail += _range_note(rows, _BY_DEVICE)
            return Figure(label, _spread(values), unit, evidence, query, detail, link)
    reason = next((str(row["reason"]) for row in rows if row["reason"]), _UNANSWERED)
    return Figure(label, NULL, "", evidence, query, reason, link)


def _occupancy(rows: Sequence[Row]) -> Figure:
    label, query, link = "Occupancy", "occupancy by=trace", "occupancy"
    theoretical = _spread(_known(rows, "theoretical_pct"))
    for column, kind, evidence in (
        ("achieved_pct", "achieved", "counter"),
        ("estimated_achieved_pct", "estimated from the launches", "modelled"),
    ):
        values = _known(rows, column)
        if values:
            detail = f"{kind}; the launches would allow {theoretical} %"
            limiters = {row["limiter"] for row in rows} - {None}
            detail += f"; limited most by {', '.join(sorted(limiters))}" if limiters else ""
            return Figure(label, _spread(values), "% of warps", evidence, query, detail, link)
    return Figure(label, NULL, query=query, detail=_UNANSWERED, link=link)


def _dominant(rows: Sequence[Row]) -> Figure:
    label, query, link = "Dominant layer", "dominant_layer", "layers"
    first = next((row for row in rows if row["rank"] == 1), None)
    if first is None:
        return Figure(label, NULL, query=query, detail=_UNANSWERED, link=link)
    names = [first["layer"], first["layer_type"]]
    name = " \N{MIDDLE DOT} ".join(str(name) for name in names if name is not None)
    unowned = first["unattributed_pct"]
    if unowned is not None and unowned >= _NOTABLE_PCT:
        name += f"; {_number(unowned)} % of the time belongs to no layer"
    clock = "GPU" if first["clock"] == "gpu" else "host"
    evidence = _evidence([first], "evidence", "measured_over")
    share = _spread([first["share_pct"]] if first["share_pct"] is not None else [])
    return Figure(label, share, f"% of {clock} time", evidence, query, name, link)


def _known(rows: Iterable[Row], column: str) -> list[float]:
    return [float(row[column]) for row in rows if row[column] is not None]


def _spread(values: Sequence[float]) -> str:
    # A range, because a mean over different processes or GPUs would hide the difference.
    if not values:
        return NULL
    return " to ".join(dict.fromkeys([_number(min(values)), _number(max(values))]))


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _range_note(rows: Sequence[Row], what: str) -> str:
    return f"; least and largest of {len(rows)}, {what}" if len(rows) > 1 else ""


def _evidence(rows: Sequence[Row], *columns: str) -> str:
    texts = [dict.fromkeys(str(row[c]) for row in rows if row[c] is not None) for c in columns]
    return "; ".join(" and ".join(values) for values in texts if values)
