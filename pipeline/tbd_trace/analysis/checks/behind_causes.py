"""Findings of rules that are evidence for the causes of slow training."""

from __future__ import annotations

from dataclasses import replace

from tbd_trace.analysis.checks.evaluation import Row, evaluate
from tbd_trace.store.selection import Selection
from tbd_trace.why.cause_names import rules
from tbd_trace.why.diagnosis import Diagnosis
from tbd_trace.why.memory_diagnosis import MemoryDiagnosis

MEMORY = "memory"
MEMORY_RULES = ["MEM01", "MEM02", "MEM03", "MEM04", "MEM05", "OBS11"]


def findings_behind(
    traces: Selection, diagnosis: Diagnosis | MemoryDiagnosis
) -> dict[str, list[Row]]:
    """Return the findings about the trace of a diagnosis, for each cause that has some.

    Findings about memory have the name ``memory`` in place of a cause.
    """
    if isinstance(diagnosis, MemoryDiagnosis):
        wanted = {MEMORY: MEMORY_RULES}
    else:
        wanted = {cause.cause: rules(cause.cause) for cause in diagnosis.causes}
    named = sorted({rule for own_rules in wanted.values() for rule in own_rules})
    if not named:
        return {}
    rows = [
        row
        for row in evaluate(_capture_traces(traces, diagnosis.trace_id), named).to_dicts()
        if row["verdict"] == "finding" and row["trace_id"] == diagnosis.trace_id
    ]
    findings = {
        cause: [row for row in rows if row["rule"] in own_rules]
        for cause, own_rules in wanted.items()
    }
    return {cause: own_rows for cause, own_rows in findings.items() if own_rows}


def _capture_traces(traces: Selection, trace_id: str) -> Selection:
    # The trace, and the others of its capture, which contain counters.
    frame = traces.database.trace_frame(traces.trace_ids)
    captures = dict(frame.select("trace_id", "capture_id").rows())
    own = captures[trace_id] or trace_id
    ids = [other for other, capture in captures.items() if own in (other, capture)]
    return replace(traces, trace_ids=ids)
