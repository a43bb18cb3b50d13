"""Section of a report with the answer of ``tbd-trace why``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl

from tbd_trace.analysis.report.page import Block, Note, Section, Table
from tbd_trace.analysis.report.plotter import Draw
from tbd_trace.analysis.report.report_query import QueryRunner
from tbd_trace.errors import CannotAnswerError
from tbd_trace.why.judgement import Judgement
from tbd_trace.why.result import of_process
from tbd_trace.why.screen import change, heading

if TYPE_CHECKING:
    from tbd_trace.api import Traces

_QUERY = "tbd-trace why"
_LEAST_PCT = 0.1
_UNITS = {"share_pct": "%", "ns_per_step": "ns", "best_step_ns": "ns", "step_ns": "ns"}
_DOCS = {
    "cause": "disjoint parts of the elapsed time of all captured steps; they sum to 100 %",
    "share_pct": "share of the elapsed time",
    "ns_per_step": "time of the cause in a mean step",
    "best_step_ns": "duration of a step without the cause, by replay of the trace",
    "evidence": "what in the trace shows the cause",
    "confidence": "high, medium or low",
    "advice": "change to try",
}


def why_section(
    traces: Traces, runner: QueryRunner, names: Mapping[str, str], draw: Draw
) -> Callable[[], Section]:
    """Return the causes of the process with the longest steps, and the largest of each other.

    The returned function waits for the plot of a typical step.
    """
    title = "Why a step takes so long"
    intro = (
        "Causes of the duration of a step, and the gain by a change, from a replay of the trace "
        "(`tbd-trace why`)."
    )
    try:
        found = traces.why()
    except CannotAnswerError as error:
        missing = Section("why", title, intro, [Note(str(error), "missing")])
        return lambda: missing
    slowest, *others = found.judgements
    plots = _typical_step(runner, slowest, names, draw)
    blocks: list[Block] = [Note(heading(slowest))]
    blocks += [Note(f"Sampled: {slowest.sampled}")] if slowest.sampled else []
    blocks += [Note(f"{label}: {text}") for label, text in change(slowest)]
    blocks.append(_causes(slowest))
    later: list[Block] = [Note(text, "missing") for text in slowest.not_known]
    if others:
        later.append(_others(others))
    return lambda: Section("why", title, intro, [*blocks, *(plot() for plot in plots), *later])


def _typical_step(
    runner: QueryRunner, slowest: Judgement, names: Mapping[str, str], draw: Draw
) -> list[Callable[[], Block]]:
    answer = runner.run("step_timeline")
    if answer.reason or (rows := of_process(answer.frame, slowest)).is_empty():
        return []
    return [draw(replace(answer, frame=rows), names, "")]


def _causes(one: Judgement) -> Table:
    rows = [
        {
            "cause": cause.title,
            "share_pct": cause.share_pct,
            "ns_per_step": cause.ns_per_step,
            "best_step_ns": cause.best_step_ns,
            "evidence": cause.evidence,
            "confidence": cause.confidence,
            "advice": cause.advice,
        }
        for cause in one.causes
        if cause.share_pct >= _LEAST_PCT
    ]
    frame = pl.DataFrame(rows, infer_schema_length=None)
    return Table(frame, _UNITS, _QUERY, docs=_DOCS, caption=f"Causes; {one.measured_over}")


def _others(others: Sequence[Judgement]) -> Table:
    rows = [
        {
            "trace": one.trace,
            "pid": one.pid,
            "steps": one.steps,
            "step_ns": one.step_ns,
            "cause": one.causes[0].title,
            "share_pct": one.causes[0].share_pct,
        }
        for one in others
    ]
    frame = pl.DataFrame(rows, infer_schema_length=None)
    return Table(frame, _UNITS, _QUERY, caption="Largest cause of the other processes")
