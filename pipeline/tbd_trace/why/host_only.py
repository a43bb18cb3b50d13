"""Diagnose processes without GPU operations: input, other ranks, phases and their operators."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from statistics import fmean, median
from typing import NamedTuple

import duckdb

from tbd_trace.sources.recording_actions import action
from tbd_trace.why.base import Base, counted, load_base, percentile, summarized
from tbd_trace.why.cause_names import title
from tbd_trace.why.changes import parts
from tbd_trace.why.covers import missing_content, unused_steps
from tbd_trace.why.diagnosis import FEWEST_STEPS, Diagnosis, profiler_name, try_first
from tbd_trace.why.host_evidence import RELATIONS, HostEvidence, load_host_evidence
from tbd_trace.why.ranking import LARGE_CAUSE_PCT, LEAST_GAIN, Cause, recommended
from tbd_trace.why.recorded_run import with_run

INPUTS = ("host_step", "host_cause_interval", *RELATIONS, "iteration", "host_window", "process",
          "trace")  # fmt: skip
"""Relations behind the answers."""

_STEPS = """
SELECT h.trace_id, t.name, t.tool, t.notes, h.process_id, p.pid, h.iteration, h.step_ns,
    h.input_ns, h.ranges, h.evidence, h.method, h.trains, h.operator_threads, t.capture
FROM host_step h
JOIN trace t USING (trace_id)
LEFT JOIN process p ON p.trace_id = h.trace_id AND p.process_id = h.process_id
ORDER BY h.trace_id, h.process_id, h.iteration"""
_CAUSE_NS = """
SELECT cause, sum(end_ns - start_ns)::BIGINT
FROM host_cause_interval
WHERE trace_id = $trace AND process_id = $process
GROUP BY cause"""

_ADVICE = "load batches sooner: more loader workers, prefetching, smaller or decoded files"
_ADVICE_GLOO = "all-reduce less often over gloo: accumulate gradients over several batches"
_ADVICE_BUCKETS = "fewer, larger buckets of DDP (bucket_cap_mb), or accumulate gradients"
_ADVICE_STRAGGLER = (
    "give all ranks the same work: equal batches and lengths, no extra work on one rank"
)
_GPU = "causes on a GPU: the trace has no GPU operations"
_THREADS = "work of threads inside operators (OpenMP): torch.profiler does not record it"
_RANKS = (
    "whether gloo waits for a slower rank: read the traces of all ranks with "
    "`tbd-trace ingest --job NAME DIRECTORY`"
)
_FEW_BUCKETS = 4  # collectives a step that are not too many
_PHASES = ("cpu_forward", "cpu_backward", "cpu_optimizer")
_RANGES = "the thread of the steps is in such ranges"


class _Step(NamedTuple):
    trace_id: str
    trace: str
    tool: str
    notes: list[str] | None
    process_id: int
    pid: int | None
    iteration: int | None
    step_ns: int
    input_ns: int
    ranges: int
    evidence: str | None
    method: str | None
    trains: bool
    operator_threads: int | None
    capture: str | None


def host_diagnoses(connection: duckdb.DuckDBPyConnection) -> list[Diagnosis]:
    """Diagnose every process without GPU operations; the relations of ``INPUTS`` exist."""
    all_steps = [_Step(*row) for row in connection.execute(_STEPS).fetchall()]
    diagnoses = []
    for (trace_id, process_id), own in groupby(all_steps, key=lambda s: (s.trace_id, s.process_id)):
        steps = list(own)
        parameters = {"trace": trace_id, "process": process_id}
        ns_by_cause = dict(connection.execute(_CAUSE_NS, parameters).fetchall())
        elapsed = sum(step.step_ns for step in steps)
        number = sum(step.iteration is not None for step in steps)
        evidence = load_host_evidence(connection, trace_id, process_id, elapsed, number)
        base = load_base(connection, trace_id, process_id)
        diagnoses.append(_diagnosis(steps, ns_by_cause, evidence, base))
    return diagnoses


def _diagnosis(
    steps: list[_Step], ns_by_cause: Mapping[str, int], host_evidence: HostEvidence, base: Base
) -> Diagnosis:
    first, durations = steps[0], [step.step_ns for step in steps if step.iteration is not None]
    mean = fmean(durations) if durations else None
    causes = sorted(_causes(steps, ns_by_cause, host_evidence), key=lambda cause: -cause.share_pct)
    change = recommended(causes, mean)
    diagnosis = Diagnosis(
        trace_id=first.trace_id,
        trace=first.trace,
        process_id=first.process_id,
        pid=first.pid,
        device_id=-1,
        steps=len(durations),
        step_ns=mean,
        median_step_ns=median(durations) if durations else None,
        p5_step_ns=percentile(durations, 5),
        p95_step_ns=percentile(durations, 95),
        gpu_step_ns=None,
        elapsed_ns=host_evidence.elapsed_ns,
        judged_steps=len(durations),
        judged_step_ns=mean,
        measured_over=counted(base) if durations else "whole trace",
        method=first.method,
        trains=first.trains,
        replay_error_pct=None,
        causes=causes,
        change=change.cause if change else None,
        try_first=try_first(change, mean),
        not_known=_not_known(first, causes, host_evidence),
        covers=missing_content(first.notes or ()) + unused_steps(base),
        base=summarized(base, None),
        about=[profiler_name(first.tool)],
        counted=counted(base),
    )
    return with_run(diagnosis, first.capture)


def _causes(
    steps: list[_Step], ns_by_cause: Mapping[str, int], host_evidence: HostEvidence
) -> list[Cause]:
    causes = []
    largest = max((ns for cause, ns in ns_by_cause.items() if cause.startswith("cpu_")), default=0)
    for cause, ns in ns_by_cause.items():
        if cause == "input_pipeline":
            continue
        evidence = _evidence(cause, host_evidence)
        if cause.startswith("cpu_") and ns == largest and (threads := steps[0].operator_threads):
            evidence += f"; operators ran on {threads} thread{'s' if threads > 1 else ''}"
            largest = -1  # stated once
        causes.append(
            Cause(
                cause,
                # Without phases, there is no other work.
                title(cause)
                if cause != "cpu_work" or _has_phases(ns_by_cause)
                else "work on the CPU",
                100 * ns / host_evidence.elapsed_ns,
                ns / host_evidence.steps if host_evidence.steps else None,
                evidence,
                "high",
                advice=_advice(
                    cause,
                    100 * ns / host_evidence.elapsed_ns,
                    host_evidence,
                    trains=steps[0].trains,
                ),
            )
        )
    if steps[0].evidence is not None:
        others = max((cause.share_pct for cause in causes if cause.advice), default=0.0)
        causes.append(_loading(steps, ns_by_cause.get("input_pipeline", 0), host_evidence, others))
    return causes


def _has_phases(ns_by_cause: Mapping[str, int]) -> bool:
    return any(phase in ns_by_cause for phase in _PHASES)


def _evidence(cause: str, host_evidence: HostEvidence) -> str:
    if cause == "straggler":
        return host_evidence.straggler()
    if cause == "communication":
        return host_evidence.communication()
    work = host_evidence.work(cause)
    return work or ("the rest of the steps" if cause == "cpu_work" else _RANGES)


def _advice(
    cause: str, share_pct: float, host_evidence: HostEvidence, *, trains: bool
) -> str | None:
    if not trains or share_pct < LARGE_CAUSE_PCT:
        return None
    if cause == "straggler":
        return _ADVICE_STRAGGLER
    if cause != "communication" or not (host_evidence.steps and host_evidence.collectives):
        return None
    many = len(host_evidence.collectives) > _FEW_BUCKETS * host_evidence.steps
    return _ADVICE_BUCKETS if many else _ADVICE_GLOO


def _loading(
    steps: list[_Step], waited: int, host_evidence: HostEvidence, others_pct: float
) -> Cause:
    number, elapsed = host_evidence.steps, host_evidence.elapsed_ns
    waiting = sum(step.ranges > 0 for step in steps)
    where = f", {waiting} of {number} steps" if number else ""
    best = likely = worst = None
    if number >= FEWEST_STEPS:
        now, part = elapsed / number, parts()["input"]
        # Workers that load sooner compete for the cores: no gain beyond the wait, less at worst.
        best = (elapsed - waited) / number
        likely = now - min(part.likely, 1) * (now - best)
        worst = now - part.least * (now - best)
    share_pct = 100 * waited / elapsed
    # A change whose gain is known comes first, so that a small one must not hide a large cause.
    is_advised = waited >= LEAST_GAIN * elapsed and share_pct >= others_pct
    return Cause(
        "input_pipeline",
        title("input_pipeline"),
        share_pct,
        waited / number if number else None,
        f"the thread of the steps is in a {steps[0].evidence}{where}",
        "high",
        best_step_ns=best,
        likely_step_ns=likely,
        worst_step_ns=worst,
        advice=_ADVICE if is_advised else None,
        remedy="input",
    )


def _not_known(first: _Step, causes: list[Cause], host_evidence: HostEvidence) -> list[str]:
    sentences = [_GPU]
    if first.evidence is None:
        sentences.append(f"waits for input: no range marks them; {action(first.tool, 'input')}")
    if first.iteration is None:
        sentences.append(f"times per step: no step is marked; {action(first.tool, 'steps')}")
    if not any(cause.cause in _PHASES for cause in causes):
        sentences.append(f"phases: no range marks them; {action(first.tool, 'phases')}")
    if first.operator_threads is not None:
        sentences.append(_THREADS)
    is_alone = host_evidence.collectives and not any(
        collective.is_matched for collective in host_evidence.collectives
    )
    if is_alone and any(cause.cause == "communication" for cause in causes):
        sentences.append(_RANKS)
    return sentences
