"""Rank the causes of the time of a program, with the change that likely gains most for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from tbd_trace.errors import CannotAnswerError
from tbd_trace.why.cause_names import causes_by_name, title
from tbd_trace.why.changes import ADVICE, Change, parse_change
from tbd_trace.why.communication import communication
from tbd_trace.why.copies import offloaded_copies
from tbd_trace.why.evidence import evidence, is_certain
from tbd_trace.why.overlap import is_communication
from tbd_trace.why.program import Program
from tbd_trace.why.whatif import Prediction, Simulator

_LEAST_SHARE_PCT = 0.5  # of a cause whose gain is computed
LEAST_GAIN = 0.03  # of a step, below which a change is not advised
LARGE_CAUSE_PCT = 20.0  # share from which a cause without a known gain is named, as ADV01
_PRODUCTS = ("gpu_matmul", "gpu_attention")
_LEAST_HOST_PCT = 3.0  # share of the host, below which fewer launches are no advice
_HOST_BOUND_PCT = 40.0  # share of host and input above which faster kernels are no advice
_SIMPLER = 0.4  # part of the saving of a graph, from which another change comes first
_MANY_ALLOCATIONS = 100  # of a program without steps, which its start does not explain
_OFFLOADED = (
    "weights or optimizer state are copied from the host again and again: offload less, or copy "
    "the next ones while kernels run"
)
_HIDDEN = 0.1  # part of the communication; programs that hide more overlap it already
_MANY, _SHORT_NS = 8, 200_000  # collectives of a step that larger buckets would save


@dataclass(frozen=True, slots=True)
class Cause:
    """A cause of the duration of a step; the time of a step without it is a range."""

    cause: str
    title: str
    share_pct: float
    ns_per_step: float | None
    evidence: str
    confidence: str
    best_step_ns: float | None = None
    likely_step_ns: float | None = None
    worst_step_ns: float | None = None
    advice: str | None = None
    remedy: str | None = None  # change of whatif that likely gains most


def ranked(
    program: Program,
    stalled: Mapping[int, int],
    ns_by_cause: dict[str, float],
    error: float | None,
    simulator: Simulator | None,
) -> list[Cause]:
    """Return the causes of the time of a program, the largest first.

    Args:
        stalled: the usual pause before each call that the host reached late, in ns.
        ns_by_cause: time of each cause.
        error: error of the replay in percent; None without a replay.
        simulator: None if no gain can be predicted.
    """
    elapsed = sum(ns_by_cause.values())
    causes = []
    for cause, ns in sorted(ns_by_cause.items(), key=lambda item: (-item[1], item[0])):
        share = 100 * ns / elapsed
        sim = simulator if share >= _LEAST_SHARE_PCT else None
        change, gain = _best_change(changes_for(program, cause), sim)
        is_too_small = simulator is not None and share < _LEAST_SHARE_PCT
        advice = None if is_too_small else _advice(program, ns_by_cause, cause, change, gain)
        causes.append(
            Cause(
                cause,
                title(cause),
                share,
                ns / len(program.base.periods) if program.base.periods else None,
                evidence(program, stalled, cause),
                "high" if is_certain(program, cause, error) else "low",
                *_range(gain),
                advice,
                change.text if change else None,
            )
        )
    return causes


def _advice(
    program: Program,
    ns_by_cause: dict[str, float],
    cause: str,
    change: Change | None,
    gain: Prediction | None,
) -> str | None:
    about = causes_by_name()[cause]
    if gain and (program.base.mean_ns or 0.0) < (1 + LEAST_GAIN) * gain.likely_ns:
        return None
    if (about["training"] and not program.trains) or _is_in_vain(
        program, ns_by_cause, cause, change
    ):
        return None
    if cause == "copies" and offloaded_copies(program):
        return _OFFLOADED
    return (ADVICE.get(change.name) if change else None) or about["advice"] or None


def _is_in_vain(
    program: Program, ns_by_cause: dict[str, float], cause: str, change: Change | None
) -> bool:
    elapsed = sum(ns_by_cause.values())
    if cause == "host":
        # A GPU graph replays steps that repeat.
        is_small = 100 * ns_by_cause[cause] < _LEAST_HOST_PCT * elapsed
        return change is None or is_small or not program.steps
    if cause == "memory_allocation":
        # A program allocates when it begins.
        allocations = sum(kind == "alloc" for kind in program.calls.kind)
        return not program.steps and allocations < _MANY_ALLOCATIONS
    if cause.startswith(_PRODUCTS):
        # Faster kernels do not help a step that waits for the host.
        host = ns_by_cause.get("host", 0.0) + ns_by_cause.get("input_pipeline", 0.0)
        return change is None or 100 * host >= _HOST_BOUND_PCT * elapsed
    return False


def _range(gain: Prediction | None) -> tuple[float | None, float | None, float | None]:
    return (None, None, None) if gain is None else (gain.best_ns, gain.likely_ns, gain.worst_ns)


def _best_change(
    changes: Sequence[Change], simulator: Simulator | None
) -> tuple[Change | None, Prediction | None]:
    # The change that likely gains most, and its gain; both can be unknown.
    if simulator is None:
        return next(iter(changes), None), None
    known = []
    for change in changes:
        with suppress(CannotAnswerError):  # then the gain is unknown
            known.append((change, simulator.predict([change])))
    if not known:
        return next(iter(changes), None), None
    return min(known, key=lambda pair: pair[1].likely_ns)


def changes_for(program: Program, cause: str) -> list[Change]:
    """Return the changes that may shorten a cause, empty if there is none."""
    name = causes_by_name()[cause]["change"]
    if not name or (cause.startswith(_PRODUCTS) and not program.gains_by_amp):
        return []
    per_step = communication(program) if is_communication(cause) else None
    if name == "graph" and program.launches_graphs:
        return []
    names = [name]
    if per_step is not None and per_step.hidden_ns < _HIDDEN * per_step.total_ns:
        names.append("overlap_comm")
    if per_step is not None and per_step.kernels >= _MANY and per_step.median_ns < _SHORT_NS:
        names.append("bucket")
    return [parse_change(name) for name in names]


def recommended(causes: Sequence[Cause], now_ns: float | None) -> Cause | None:
    """Return the cause with advice whose change likely gains most, else the largest with advice.

    GPU graphs need fixed shapes and code without synchronization: a change that likely saves almost
    half as much comes before them.

    Args:
        now_ns: the step; None without steps.
    """
    advised = [cause for cause in causes if cause.advice and cause.cause != "warm_up"]
    known = sorted(
        ((cause.likely_step_ns, cause) for cause in advised if cause.likely_step_ns is not None),
        key=lambda pair: pair[0],
    )
    if known and now_ns is not None:
        most, first = known[0]
        if first.remedy != "graph":
            return first
        least = _SIMPLER * (now_ns - most)
        simpler = (
            cause for likely, cause in known if cause.remedy != "graph" and now_ns - likely >= least
        )
        return next(simpler, first)
    return advised[0] if advised and advised[0].share_pct >= LARGE_CAUSE_PCT else None
