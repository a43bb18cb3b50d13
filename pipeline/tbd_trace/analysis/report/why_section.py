"""Section of a report with the answer of ``tbd-trace why``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import polars as pl

from tbd_trace.analysis.report.memory_verdict import memory_verdict_section
from tbd_trace.analysis.report.page import Block, Note, Section, Table
from tbd_trace.analysis.report.plotter import Draw
from tbd_trace.analysis.report.report_query import Answer, QueryRunner
from tbd_trace.analysis.why import why
from tbd_trace.errors import CannotAnswerError
from tbd_trace.store.selection import Selection
from tbd_trace.why.diagnosis import Diagnosis
from tbd_trace.why.memory_result import MemoryVerdict
from tbd_trace.why.result import rows_of_process
from tbd_trace.why.screen import change, heading, sentences

_QUERY = "tbd-trace why"
_LEAST_PCT = 0.1
_GAPS = 5  # rows of the table of gaps
_GAP_COLUMNS = (
    "trace_id",
    "device_id",
    "title",
    "longest_ns",
    "idle_ns",
    "elapsed_pct",
    "gaps",
    "evidence",
)
_UNITS = {
    "share_pct": "%",
    "ns_per_step": "ns",
    "best_step_ns": "ns",
    "likely_step_ns": "ns",
    "worst_step_ns": "ns",
    "step_ns": "ns",
}
_DOCS = {
    "cause": "disjoint parts of the time of the steps used; they sum to 100 %",
    "share_pct": "share of the elapsed time",
    "ns_per_step": "time of the cause in a mean step",
    "best_step_ns": "step after the change of the cause, in the best of 8 in 10 cases",
    "likely_step_ns": "step after the change, likely",
    "worst_step_ns": "step after the change, in the worst of 8 in 10 cases",
    "evidence": "what in the trace shows the cause",
    "confidence": "high, medium or low",
    "advice": "change to try",
}


def why_section(
    traces: Selection,
    runner: QueryRunner,
    names: Mapping[str, str],
    draw: Draw,
    *,
    is_expected: bool = True,
) -> list[Callable[[], Section]]:
    """Return the causes of the process with the longest steps, and the largest of each other.

    Traces without times, but with memory, have a section about memory.

    The returned function waits for the plot of a typical step.

    Args:
        is_expected: without an answer, True gives a section with the reason, False none.
    """
    title = "Why a step takes so long"
    intro = (
        "Causes of the duration of a step, and the gain by a change, from a replay of the trace "
        "(`tbd-trace why`)."
    )
    try:
        answer = why(traces.database, traces.trace_ids)
    except CannotAnswerError as error:
        if not is_expected:
            return []
        reason = Note(str(error), "missing")
        drawn = _drawn(runner.run("gpu_activity"), names, draw)
        return [lambda: Section("why", title, intro, [reason, *(plot() for plot in drawn)])]
    if isinstance(answer, MemoryVerdict):
        return [lambda: memory_verdict_section(answer)]
    slowest, *others = answer.diagnoses
    plots = _typical_step(runner, slowest, names, draw)
    blocks: list[Block] = [_runs(answer.diagnoses, names)] if others else []
    about = f"{names.get(slowest.trace_id, slowest.trace)}: " if others else ""
    blocks.append(Note(about + heading(slowest), "lead"))
    blocks += [
        Note(f"{label}: {text}", "missing" if label == "Covers" else "note")
        for label, text in sentences(slowest)
    ]
    plots += _drawn(_rows_of_trace(runner.run("gpu_activity"), slowest), names, draw)
    later = [*_gaps(runner, slowest), _causes(slowest)]
    later += [Note(text, "missing") for text in slowest.not_known]
    return [
        lambda: Section(
            "why", title, intro, [*blocks, *(plot() for plot in plots), *later], beside=True
        )
    ]


def _typical_step(
    runner: QueryRunner, slowest: Diagnosis, names: Mapping[str, str], draw: Draw
) -> list[Callable[[], Block]]:
    answer = runner.run("step_timeline")
    if answer.reason or (rows := rows_of_process(answer.frame, slowest)).is_empty():
        return []
    return [draw(replace(answer, frame=rows), names, "")]


def _causes(diagnosis: Diagnosis) -> Table:
    rows = [
        {
            "cause": cause.title,
            "share_pct": cause.share_pct,
            "ns_per_step": cause.ns_per_step,
            "best_step_ns": cause.best_step_ns,
            "likely_step_ns": cause.likely_step_ns,
            "worst_step_ns": cause.worst_step_ns,
            "evidence": cause.evidence,
            "confidence": cause.confidence,
            "advice": cause.advice,
        }
        for cause in diagnosis.causes
        if cause.share_pct >= _LEAST_PCT
    ]
    frame = pl.DataFrame(rows, infer_schema_length=None)
    return Table(frame, _UNITS, _QUERY, docs=_DOCS, caption=f"Causes; {diagnosis.measured_over}")


def _drawn(answer: Answer, names: Mapping[str, str], draw: Draw) -> list[Callable[[], Block]]:
    return [] if answer.frame.is_empty() else [draw(answer, names, "")]


def _gaps(runner: QueryRunner, slowest: Diagnosis) -> list[Block]:
    answer = _rows_of_trace(runner.run("idle_causes"), slowest)
    if answer.frame.is_empty():
        return []
    caption = "Gaps without work on the GPU, by cause"
    return [
        Table(
            answer.frame,
            answer.units,
            answer.label,
            limit=_GAPS,
            caption=caption,
            docs=answer.docs,
            columns=_GAP_COLUMNS,
        )
    ]


def _rows_of_trace(answer: Answer, diagnosis: Diagnosis) -> Answer:
    # The frame itself if it has no other trace, so that the page carries its CSV once.
    if answer.frame.is_empty() or set(answer.frame["trace_id"]) == {diagnosis.trace_id}:
        return answer
    return replace(answer, frame=answer.frame.filter(pl.col("trace_id") == diagnosis.trace_id))


def _runs(diagnoses: Sequence[Diagnosis], names: Mapping[str, str]) -> Table:
    rows = [
        {
            "run": names.get(diagnosis.trace_id, diagnosis.trace),
            "pid": diagnosis.pid,
            "steps": diagnosis.steps,
            "step_ns": diagnosis.step_ns,
            "gpu_pct": 100 * diagnosis.gpu_step_ns / diagnosis.step_ns
            if diagnosis.step_ns and diagnosis.gpu_step_ns is not None
            else None,
            "largest cause": diagnosis.causes[0].title if diagnosis.causes else None,
            "share_pct": diagnosis.causes[0].share_pct if diagnosis.causes else None,
            "change": change(diagnosis)[0][1] if change(diagnosis) else None,
        }
        for diagnosis in diagnoses
    ]
    frame = pl.DataFrame(rows, infer_schema_length=None)
    units = {**_UNITS, "gpu_pct": "%"}
    return Table(frame, units, _QUERY, caption="Runs compared, longest steps first")
