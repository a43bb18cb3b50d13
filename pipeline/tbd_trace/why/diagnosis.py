"""Diagnose one process: shares of causes, evidence, and the gain if a cause vanished."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

from tbd_trace.why.base import Base, BaseSummary, counted, percentile, summarized
from tbd_trace.why.cause_names import title
from tbd_trace.why.changes import parse_change
from tbd_trace.why.copies import CHECKPOINT
from tbd_trace.why.covers import missing_content, unrecorded_graphs, unused_steps
from tbd_trace.why.evidence import explains, not_known
from tbd_trace.why.program import Program
from tbd_trace.why.ranking import Cause, ranked, recommended
from tbd_trace.why.shares import shares, shares_and_warm_up
from tbd_trace.why.stalls import stalls
from tbd_trace.why.thinning import MOST_STEPS, thinned
from tbd_trace.why.whatif import Simulator

FEWEST_STEPS = 1  # with fewer, no gain is predicted
_PROFILERS = {"torch": "torch.profiler", "nsys": "Nsight Systems"}


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
class Diagnosis:
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
    overlap: str | None = None  # what communication adds to the kernels beside it
    not_known: list[str] = field(default_factory=list)
    covers: list[str] = field(default_factory=list)  # missing records, with their numbers
    base: BaseSummary | None = None
    about: list[str] = field(default_factory=list)  # profiler, GPU, batch and precision
    counted: str = ""  # the steps used, in words
    warm_up: str | None = None  # what the steps left out as warm-up took
    profiler_cost: str | None = None  # what recording adds to a step
    memory: str | None = None  # the peak of the memory, if a framework's allocations are recorded

    @property
    def busy_pct(self) -> float | None:
        """Share of the time in which the GPU works, as in compute_util; None without a GPU."""
        if self.device_id < 0 and self.gpu_step_ns is None:
            return None
        return sum(cause.share_pct for cause in self.causes if is_gpu(cause.cause))

    def to_dict(self) -> dict[str, Any]:
        """Return the diagnosis as plain values; unknown ones are None."""
        return asdict(self)


def diagnose(
    program: Program,
    trace: str,
    pid: int | None,
    notes: Sequence[str] = (),
    about: Sequence[str] = (),
) -> Diagnosis:
    """Diagnose a process.

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
    ns_by_cause, warm_up = shares_and_warm_up(program, stalled)
    elapsed = round(sum(ns_by_cause.values()))
    steps = len(durations)
    # Steps of operations without a duration may have none, either.
    gains = len(program.steps) >= FEWEST_STEPS and any(program.op_step_ns)
    error = simulator.strict_error_pct if gains else None
    can_predict = error is not None and program.explains_idle and explains(error)
    causes = ranked(program, stalled, ns_by_cause, error, simulator if can_predict else None)
    change = recommended(causes, base.mean_ns)
    # Kernels that repeat may be those of inference.
    is_step = program.trains or base.method != "anchor kernel"
    busy = sum(ns for cause, ns in ns_by_cause.items() if is_gpu(cause))
    return Diagnosis(
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
        try_first=try_first(change, base.mean_ns),
        then=_then(simulator, change),
        sampled=program.sampled,
        overlap=program.overlap_cost.sentence if program.overlap_cost else None,
        not_known=not_known(
            program, ns_by_cause.get("input_pipeline", 0.0) / max(elapsed, 1), error
        ),
        covers=missing_content(notes) + unrecorded_graphs(program) + unused_steps(base),
        about=list(about),
        counted=counted(base, "steps" if is_step else "repeats"),
        warm_up=_warm_up(base, warm_up, ns_by_cause),
        base=summarized(base, busy / steps if steps else None),
    )


def slowest_first(diagnoses: Iterable[Diagnosis]) -> list[Diagnosis]:
    """Sort by the time of a step, the longest first; without steps, by that of the trace."""
    return sorted(diagnoses, key=lambda diagnosis: -(diagnosis.step_ns or diagnosis.elapsed_ns))


def profiler_name(tool: str) -> str:
    """Return the name of a profiler as its users know it."""
    return _PROFILERS.get(tool, tool)


def is_gpu(cause: str) -> bool:
    """Return True for a cause during which the GPU works."""
    return cause.startswith("gpu_") or cause in ("communication", "straggler", "copies", CHECKPOINT)


def _warm_up(base: Base, warm_up: dict[str, float], ns_by_cause: dict[str, float]) -> str | None:
    # What the steps of the warm-up took more than usual, and the causes that grew most.
    if not base.warm_up or base.mean_ns is None:
        return None
    steps, total = len(base.warm_up), sum(end - start for start, end in base.warm_up)
    more = total - steps * base.mean_ns
    if more <= 0:
        return None
    usual = {cause: steps * ns / len(base.periods) for cause, ns in ns_by_cause.items()}
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


def try_first(cause: Cause | None, now_ns: float | None) -> TryFirst | None:
    """Return the change of a cause with advice, None without a change of ``whatif``."""
    if cause is None or cause.remedy is None:
        return None
    return TryFirst(
        change=cause.remedy,
        cause=cause.cause,
        unit="ns",
        now=now_ns,
        best=cause.best_step_ns,
        likely=cause.likely_step_ns,
        worst=cause.worst_step_ns,
        advice=cause.advice or "",
    )


def _then(simulator: Simulator, cause: Cause | None) -> list[Cause]:
    # The bottleneck after the first change, from the replayed times.
    if cause is None or cause.remedy is None or cause.best_step_ns is None:
        return []
    change = parse_change(cause.remedy)
    changed = simulator.after([change])
    left = shares(changed, simulator.stalls if change.name != "host_stalls" else {})
    elapsed = sum(left.values())
    ranked = sorted(left.items(), key=lambda item: (-item[1], item[0]))
    return [
        Cause(name, title(name), 100 * ns / elapsed, ns / len(changed.steps), "replay", "low")
        for name, ns in ranked
    ]
