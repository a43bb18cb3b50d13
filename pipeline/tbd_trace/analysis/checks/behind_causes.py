"""Findings of rules that are evidence for the causes of slow training."""

from __future__ import annotations

from dataclasses import replace

from tbd_trace.analysis.checks.evaluation import Row, evaluate
from tbd_trace.store.selection import Selection
from tbd_trace.why.cause_names import rules
from tbd_trace.why.diagnosis import Diagnosis


def findings_behind(traces: Selection, one: Diagnosis) -> dict[str, list[Row]]:
    """Return the findings about a diagnosed trace for each of its causes that has some."""
    wanted = {cause.cause: rules(cause.cause) for cause in one.causes}
    named = sorted({rule for some in wanted.values() for rule in some})
    if not named:
        return {}
    rows = [
        row
        for row in evaluate(_of_capture(traces, one.trace_id), named).to_dicts()
        if row["verdict"] == "finding" and row["trace_id"] == one.trace_id
    ]
    found = {cause: [row for row in rows if row["rule"] in some] for cause, some in wanted.items()}
    return {cause: some for cause, some in found.items() if some}


def _of_capture(traces: Selection, trace_id: str) -> Selection:
    # The trace, and the others of its capture, which contain counters.
    frame = traces.database.trace_frame(traces.trace_ids)
    captures = dict(frame.select("trace_id", "capture_id").rows())
    own = captures[trace_id] or trace_id
    ids = [other for other, capture in captures.items() if own in (other, capture)]
    return replace(traces, trace_ids=ids)
