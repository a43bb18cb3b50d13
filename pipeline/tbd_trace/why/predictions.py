"""Predict the step of a process after changes, with the evidence and the limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tbd_trace.errors import CannotAnswerError
from tbd_trace.sources.recording_actions import action
from tbd_trace.why.cause_names import title
from tbd_trace.why.changes import Change, validated_by
from tbd_trace.why.effects import HOST_CHANGES, matching
from tbd_trace.why.evidence import error_sentence, explains
from tbd_trace.why.overlap import is_communication
from tbd_trace.why.shares import shares
from tbd_trace.why.whatif import Simulator

_COMMUNICATION_CHANGES = {"comm", "overlap_comm", "bucket", "compress"}
_NO_PREDICTION = (
    "memory limits, accuracy, other algorithms of a library and work that a new loader adds are "
    "not modelled"
)


@dataclass(frozen=True, slots=True)
class WhatIf:
    """Duration of a step after some changes, in ns."""

    change: str
    trace_id: str
    pid: int | None
    now_step_ns: float
    step_ns: float
    gain_pct: float
    best_step_ns: float
    likely_step_ns: float | None
    worst_step_ns: float
    validated_by: str | None
    evidence: str
    top_cause: str
    top_share_pct: float
    notes: list[str]

    def to_dict(self) -> dict[str, Any]:
        """Return the prediction as plain values; unknown ones are None."""
        return asdict(self)


def predicted(sim: Simulator, changes: Sequence[Change], pid: int | None) -> WhatIf:
    """Predict the step after all of some changes together.

    Raises:
        CannotAnswerError: a change needs launching calls that the trace lacks, or the replay does
            not explain the trace.
    """
    program = sim.program
    host = [change.text for change in changes if change.name in HOST_CHANGES]
    if host and not program.knows_launches:
        raise CannotAnswerError(
            f"whatif {host[0]} needs the launching calls; {action(program.tool, 'launches')}"
        )
    if not explains(sim.strict_error_pct):
        raise CannotAnswerError(f"whatif has no answer; {error_sentence(sim.strict_error_pct)}")
    prediction = sim.predict(changes)
    after = sim.after(changes)
    left = shares(after, sim.stalls)
    # With more workers the loader may still limit the step, which the replay does not contain.
    waits = prediction.likely_ns * len(after.steps) - sum(left.values())
    if waits > 0 and any(change.name == "workers" for change in changes):
        left["input_pipeline"] = left.get("input_pipeline", 0.0) + waits
    top = max(left, key=lambda cause: left[cause])
    return WhatIf(
        change=" + ".join(change.text for change in changes),
        trace_id=program.trace_id,
        pid=pid,
        now_step_ns=sim.measured_ns,
        step_ns=prediction.likely_ns,
        gain_pct=100 * (sim.measured_ns / prediction.likely_ns - 1),
        best_step_ns=prediction.best_ns,
        likely_step_ns=prediction.likely_ns,
        worst_step_ns=prediction.worst_ns,
        validated_by=validated_by(changes),
        evidence="estimated, unvalidated" if _is_unvalidated(changes) else "replay",
        top_cause=title(top),
        top_share_pct=100 * left[top] / sum(left.values()),
        notes=_notes(sim, changes),
    )


def _is_unvalidated(changes: Sequence[Change]) -> bool:
    return any(change.name == "gpu" for change in changes)


def _notes(sim: Simulator, changes: Sequence[Change]) -> list[str]:
    program, notes = sim.program, []
    names = {change.name for change in changes}
    if "amp" in names and not program.gains_by_amp:
        notes.append("matrix work is in FP16 or BF16 already, or there is none")
    if "straggler" in names and not program.rank_waits:
        notes.append("no wait for another rank was found; read the traces of all ranks together")
    if names & {"input", "workers"} and not program.input_waits:
        notes.append("no wait for input was found")
    if names & _COMMUNICATION_CHANGES:
        precisions = {
            precision
            for cause, precision in zip(program.ops.cause, program.ops.precision, strict=True)
            if is_communication(cause)
        }
        if not precisions:
            notes.append("no communication between GPUs was found")
        elif "compress" in names and precisions == {"half"}:
            notes.append("the gradients are in FP16 or BF16 already")
    notes += [
        f"no kernel matches {change.pattern}"
        for change in changes
        if change.name in ("drop", "scale") and not matching(sim, change.pattern)
    ]
    return [*notes, _NO_PREDICTION]
