"""Judge processes without GPU operations, by their ranges: waits for input, and the rest."""

from __future__ import annotations

from itertools import groupby
from statistics import fmean, median
from typing import NamedTuple

import duckdb

from tbd_trace.why.base import Base, counted, load_base, percentile, summarized
from tbd_trace.why.cause_names import title
from tbd_trace.why.changes import parts
from tbd_trace.why.covers import missing_content, unused_steps
from tbd_trace.why.judgement import FEWEST_STEPS, Judgement
from tbd_trace.why.ranking import Cause, recommended

INPUTS = ("host_step", "iteration", "host_window", "process", "trace")
"""Relations behind the answers."""

_STEPS = """
SELECT h.trace_id, t.name, t.notes, h.process_id, p.pid, h.step_ns, h.input_ns, h.ranges,
    h.evidence, h.method, h.trains
FROM host_step h
JOIN trace t USING (trace_id)
LEFT JOIN process p ON p.trace_id = h.trace_id AND p.process_id = h.process_id
-- Without ranges that load input, nothing is known about a step.
WHERE h.evidence IS NOT NULL
ORDER BY h.trace_id, h.process_id, h.iteration"""

_ADVICE = "load batches sooner: more loader workers, prefetching, smaller or decoded files"
_GPU = "causes on a GPU: the trace has no GPU operations"
_LEAST_ADVISED = 0.01  # share of a step below which no advice is given


class _Step(NamedTuple):
    trace_id: str
    trace: str
    notes: list[str] | None
    process_id: int
    pid: int | None
    step_ns: int
    input_ns: int
    ranges: int
    evidence: str
    method: str
    trains: bool


def host_judgements(connection: duckdb.DuckDBPyConnection) -> list[Judgement]:
    """Judge every process without GPU operations; the relations of ``INPUTS`` exist."""
    steps = [_Step(*row) for row in connection.execute(_STEPS).fetchall()]
    processes = groupby(steps, key=lambda step: (step.trace_id, step.process_id))
    return [_judged(list(found), load_base(connection, *key)) for key, found in processes]


def _judged(steps: list[_Step], base: Base) -> Judgement:
    first, durations = steps[0], [step.step_ns for step in steps]
    elapsed, mean = sum(durations), fmean(durations)
    causes = sorted(_causes(steps, elapsed), key=lambda cause: -cause.share_pct)
    change = recommended(causes)
    return Judgement(
        trace_id=first.trace_id,
        trace=first.trace,
        process_id=first.process_id,
        pid=first.pid,
        device_id=-1,
        steps=len(steps),
        step_ns=mean,
        median_step_ns=median(durations),
        p5_step_ns=percentile(durations, 5),
        p95_step_ns=percentile(durations, 95),
        gpu_step_ns=None,
        elapsed_ns=elapsed,
        judged_steps=len(steps),
        judged_step_ns=mean,
        measured_over=counted(base),
        method=first.method,
        trains=first.trains,
        replay_error_pct=None,
        causes=causes,
        change=change.cause if change else None,
        not_known=[_GPU],
        covers=missing_content(first.notes or ()) + unused_steps(base),
        base=summarized(base, None),
        counted=counted(base),
    )


def _causes(steps: list[_Step], elapsed: int) -> list[Cause]:
    waited = sum(step.input_ns for step in steps)
    waiting = sum(step.ranges > 0 for step in steps)
    number = len(steps)
    now, part = elapsed / number, parts()["input"]
    # Workers that load sooner compete for the cores: no gain beyond the wait, and less at worst.
    best = (elapsed - waited) / number if number >= FEWEST_STEPS else None
    likely = None if best is None else now - min(part.likely, 1) * (now - best)
    worst = None if best is None else now - part.least * (now - best)
    is_advised = waited >= _LEAST_ADVISED * elapsed
    loading = Cause(
        "input_pipeline",
        title("input_pipeline"),
        100 * waited / elapsed,
        waited / number,
        f"the thread of the steps is in a {steps[0].evidence}, {waiting} of {number} steps",
        "high",
        best_step_ns=best,
        likely_step_ns=likely,
        worst_step_ns=worst,
        advice=_ADVICE if is_advised else None,
    )
    rest = Cause(
        "cpu_work",
        title("cpu_work"),
        100 * (elapsed - waited) / elapsed,
        (elapsed - waited) / number,
        "the rest of the steps",
        "high",
    )
    return [loading, rest]
