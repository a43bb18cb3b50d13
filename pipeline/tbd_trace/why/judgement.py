"""Judge one process: shares of causes, evidence, and the gain if a cause vanished."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

from tbd_trace.errors import CannotAnswerError
from tbd_trace.why.base import Base, BaseSummary, counted, percentile, summarized
from tbd_trace.why.cause_names import causes_by_name, title
from tbd_trace.why.changes import Change, parse_change
from tbd_trace.why.covers import missing_content, unrecorded_graphs, unused_steps
from tbd_trace.why.evidence import evidence, explains, is_certain, not_known
from tbd_trace.why.program import Program
from tbd_trace.why.shares import shares, shares_and_warm_up
from tbd_trace.why.stalls import stalls
from tbd_trace.why.thinning import MOST_STEPS, thinned
from tbd_trace.why.whatif import Prediction, Simulator

FEWEST_STEPS = 1  # with fewer, no gain is predicted
_LEAST_SHARE_PCT = 0.5  # of a cause whose gain is computed
_LEAST_GAIN = 1.03  # step now / likely step then, below which a change is not advised
_LEAST_SHARE_WITHOUT_GAIN_PCT = 20.0  # of a cause with advice whose gain is unknown, as ADV01
_PRODUCTS = ("gpu_matmul", "gpu_attention")
_HOST_BOUND_PCT = 40.0  # share of host and input above which faster kernels are no advice


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


@dataclass(frozen=True, slots=True)
class TryFirst:
    """The change that likely gains most, and the step after it; unknown times are None.

    In 8 of 10 cases the step lies between the best and the worst.
    """

    change: str  # as in whatif
    cause: str
    unit: str
    now: float | None
    best: float | None
    likely: float | None
    worst: float | None
    advice: str


@dataclass(frozen=True, slots=True)
class Judgement:
    """Why one process is slow."""

    trace_id: str
    trace: str
    process_id: int
    pid: int | None
    device_id: int
    steps: int
    step_ns: float | None
    median_step_ns: float | None
    p5_step_ns: float | None
    p95_step_ns: float | None
    gpu_step_ns: float | None
    elapsed_ns: int
    judged_steps: int
    judged_step_ns: float | None
    measured_over: str
    method: str | None
    trains: bool
    replay_error_pct: float | None
    causes: list[Cause] = field(default_factory=list)
    change: str | None = None  # the cause whose change likely gains most
    try_first: TryFirst | None = None
    then: list[Cause] = field(default_factory=list)  # causes once that one has vanished
    sampled: str | None = None  # what limits the kernels, by periodic GPU metrics
    not_known: list[str] = field(default_factory=list)
    covers: list[str] = field(default_factory=list)  # missing records, with their numbers
    base: BaseSummary | None = None
    about: list[str] = field(default_factory=list)  # profiler, GPU, batch and precision
    counted: str = ""  # the steps used, in words
    warm_up: str | None = None  # what the steps left out as warm-up took

    @property
    def busy_pct(self) -> float | None:
        """Share of the time in which the GPU works, as in compute_util; None without a GPU."""
        if self.device_id < 0 and self.gpu_step_ns is None:
            return None
        return sum(cause.share_pct for cause in self.causes if is_gpu(cause.cause))

    def to_dict(self) -> dict[str, Any]:
        """Return the judgement as plain values; unknown ones are None."""
        return asdict(self)


def judge(
    program: Program,
    trace: str,
    pid: int | None,
    notes: Sequence[str] = (),
    about: Sequence[str] = (),
) -> Judgement:
    """Judge a process.

    Args:
        trace: name of its trace.
        pid: its number in the operating system.
        notes: the notes of its trace.
        about: profiler, GPU, batch and precision, in words.
    """
    simulator = Simulator(thinned(program))
    base = program.base
    durations = base.step_ns
    stalled = stalls(program)
    spent, warm_up = shares_and_warm_up(program, stalled)
    elapsed = round(sum(spent.values()))
    steps = len(durations)
    # Steps of operations without a duration may have none, either.
    gains = len(program.steps) >= FEWEST_STEPS and any(program.op_step_ns)
    error = simulator.strict_error_pct if gains else None
    can_predict = error is not None and program.explains_idle and explains(error)
    causes = _ranked(program, stalled, spent, error, simulator if can_predict else None)
    change = recommended(causes)
    # Kernels that repeat may be those of inference.
    is_step = program.trains or base.method != "anchor kernel"
    busy = sum(ns for cause, ns in spent.items() if is_gpu(cause))
    return Judgement(
        trace_id=program.trace_id,
        trace=trace,
        process_id=program.process_id,
        pid=pid,
        device_id=program.device_id,
        steps=steps,
        step_ns=base.mean_ns,
        median_step_ns=median(durations) if steps else None,
        p5_step_ns=percentile(durations, 5),
        p95_step_ns=percentile(durations, 95),
        gpu_step_ns=busy / steps if steps else None,
        elapsed_ns=elapsed,
        judged_steps=steps,
        judged_step_ns=base.mean_ns,
        measured_over=_measured_over(program),
        method=base.method,
        trains=program.trains,
        replay_error_pct=error,
        causes=causes,
        change=change.cause if change else None,
        try_first=_try_first(program, change),
        then=_then(simulator, change),
        sampled=program.sampled,
        not_known=not_known(program, spent.get("input_pipeline", 0.0) / max(elapsed, 1), error),
        covers=missing_content(notes) + unrecorded_graphs(program) + unused_steps(base),
        about=list(about),
        counted=counted(base, "steps" if is_step else "repeats"),
        warm_up=_warm_up(base, warm_up, spent),
        base=summarized(base, busy / steps if steps else None),
    )


def is_gpu(cause: str) -> bool:
    """Return True for a cause during which the GPU works."""
    return cause.startswith("gpu_") or cause in ("communication", "straggler", "copies")


def _warm_up(base: Base, warm_up: dict[str, float], spent: dict[str, float]) -> str | None:
    # What the steps of the warm-up took more than usual, and the causes that grew most.
    if not base.warm_up or base.mean_ns is None:
        return None
    steps, total = len(base.warm_up), sum(end - start for start, end in base.warm_up)
    more = total - steps * base.mean_ns
    if more <= 0:
        return None
    usual = {cause: steps * ns / len(base.periods) for cause, ns in spent.items()}
    grown = {cause: ns - usual.get(cause, 0.0) for cause, ns in warm_up.items()}
    largest = sorted(grown.items(), key=lambda item: -item[1])[:2]
    parts = [f"{title(cause)} {ns / 1e6:.4g}" for cause, ns in largest if ns > 0.1 * more]
    named = f": {', '.join(parts)}" if parts else ""
    which = "the first step" if steps == 1 else f"{steps} steps"
    return f"{which} took {total / 1e6:.4g} ms, {more / 1e6:.4g} ms more than usual{named}"


def _measured_over(program: Program) -> str:
    steps = len(program.base.periods)
    if not steps:
        return "whole trace"
    used = counted(program.base)
    if len(program.steps) > MOST_STEPS:
        return f"{used}; gains: {MOST_STEPS} steps, drawn evenly"
    return used


def _ranked(
    program: Program,
    stalled: Collection[int],
    spent: dict[str, float],
    error: float | None,
    simulator: Simulator | None,
) -> list[Cause]:
    elapsed = sum(spent.values())
    host = spent.get("host", 0.0) + spent.get("input_pipeline", 0.0)
    causes = []
    for cause, ns in sorted(spent.items(), key=lambda item: (-item[1], item[0])):
        share = 100 * ns / elapsed
        change = change_for(program, cause)
        gain = None
        if simulator is not None and change is not None and share >= _LEAST_SHARE_PCT:
            with suppress(CannotAnswerError):  # then the gain is unknown
                gain = simulator.predict([change])
        advice = causes_by_name()[cause]["advice"] or None
        if gain and (program.base.mean_ns or 0.0) < _LEAST_GAIN * gain.likely_ns:
            advice = None
        is_training = bool(causes_by_name()[cause]["training"])
        if (is_training and not program.trains) or (simulator and share < _LEAST_SHARE_PCT):
            advice = None
        if change is not None and change.name == "graph" and not program.steps:
            advice = None  # a CUDA graph replays steps that repeat
        # Faster kernels do not help a step that waits for the host.
        if cause.startswith(_PRODUCTS) and (
            change is None or 100 * host / elapsed >= _HOST_BOUND_PCT
        ):
            advice = None
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
            )
        )
    return causes


def _range(gain: Prediction | None) -> tuple[float | None, float | None, float | None]:
    return (None, None, None) if gain is None else (gain.best_ns, gain.likely_ns, gain.worst_ns)


def change_for(program: Program, cause: str) -> Change | None:
    """Return the change whose replay shows the gain of a cause, None if there is none."""
    name = causes_by_name()[cause]["change"]
    if cause.startswith(_PRODUCTS) and not program.gains_by_amp:
        return None
    return parse_change(name) if name else None


def recommended(causes: Sequence[Cause]) -> Cause | None:
    """Return the cause with advice whose change likely gains most, else the largest with advice."""
    advised = [cause for cause in causes if cause.advice and cause.cause != "warm_up"]
    known = [cause for cause in advised if cause.likely_step_ns is not None]
    if known:
        return min(known, key=lambda cause: cause.likely_step_ns or 0.0)
    return advised[0] if advised and advised[0].share_pct >= _LEAST_SHARE_WITHOUT_GAIN_PCT else None


def _try_first(program: Program, cause: Cause | None) -> TryFirst | None:
    if cause is None or (change := change_for(program, cause.cause)) is None:
        return None
    return TryFirst(
        change=change.text,
        cause=cause.cause,
        unit="ns",
        now=program.base.mean_ns,
        best=cause.best_step_ns,
        likely=cause.likely_step_ns,
        worst=cause.worst_step_ns,
        advice=cause.advice or "",
    )


def _then(simulator: Simulator, cause: Cause | None) -> list[Cause]:
    # The bottleneck after the first change, from the replayed times.
    if cause is None or cause.best_step_ns is None:
        return []
    change = change_for(simulator.program, cause.cause)
    assert change is not None
    changed = simulator.after([change])
    left = shares(changed, simulator.stalls if change.name != "host_stalls" else {})
    elapsed = sum(left.values())
    ranked = sorted(left.items(), key=lambda item: (-item[1], item[0]))
    return [
        Cause(name, title(name), 100 * ns / elapsed, ns / len(changed.steps), "replay", "low")
        for name, ns in ranked
    ]
