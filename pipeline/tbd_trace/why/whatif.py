"""Predict the time of a step after changes, by replay."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean

from tbd_trace.errors import CannotAnswerError
from tbd_trace.why.changes import Change, factors, has_model
from tbd_trace.why.effects import EFFECTS, EXACT
from tbd_trace.why.program import Program
from tbd_trace.why.replay import Durations, Replay, Schedule
from tbd_trace.why.stalls import stalls


@dataclass(frozen=True, slots=True)
class Gpu:
    """Rates of a GPU: SMs * clock in Hz, and memory bandwidth in byte/s."""

    compute: float
    bandwidth: float


@dataclass(frozen=True, slots=True)
class Prediction:
    """Time of a step after changes, in ns; the best is a ceiling, the worst may be slower."""

    step_ns: float
    best_ns: float
    likely_ns: float | None
    worst_ns: float


class Simulator:
    """Predictions for one program."""

    def __init__(
        self, program: Program, gpus: Callable[[str], tuple[Gpu, Gpu]] | None = None
    ) -> None:
        self.program = program
        self.replay = Replay(program)
        self.stalls = stalls(program)
        self._gpus = gpus

    @cached_property
    def measured_ns(self) -> float:
        """Mean of the steps used, as measured."""
        mean = self.program.base.mean_ns
        assert mean is not None
        return mean

    @cached_property
    def replayed_ns(self) -> float:
        """Mean step, as replayed without a change."""
        return self._mean(self.schedule([]))

    @cached_property
    def strict_error_pct(self) -> float:
        """Error of the replay without unexplained lags and long tails, in percent."""
        strict = self.replay.run(self.replay.measured, is_strict=True)
        return 100 * (self._mean(strict) / fmean(self.program.op_step_ns) - 1)

    def predict(self, changes: Sequence[Change]) -> Prediction:
        """Predict the step after all of some changes together.

        Raises:
            CannotAnswerError: after the changes, a step does not begin later than the previous one.
        """
        best = self._case(changes, "best")
        is_known = all(has_model(c.name, "likely") or c.name in EXACT for c in changes)
        likely = self._case(changes, "likely") if is_known else None
        worst = self._case(changes, "worst")
        point = best if likely is None else likely
        return Prediction(point, min(best, point), likely, max(worst, point))

    def durations(self, changes: Sequence[Change], case: str = "best") -> Durations:
        """Return the durations of the program after some changes."""
        durations = self.replay.measured
        for change in changes:
            if (effect := EFFECTS.get(change.name)) is not None:
                durations = effect(self, change, case, durations)
        return durations

    def schedule(self, changes: Sequence[Change]) -> Schedule:
        """Return the times of all events in the best case of some changes."""
        return self.replay.run(self.durations(changes))

    def after(self, changes: Sequence[Change]) -> Program:
        """Return the program as it would run after the best case of some changes."""
        durations = self.durations(changes)
        times = self.replay.run(durations)
        calls, ops, steps = self.program.calls, self.program.ops, self.program.steps
        at = times.op_start
        return replace(
            self.program,
            calls=replace(calls, start=times.call_start, end=times.call_end, think=durations.think),
            ops=replace(ops, start=times.op_start, end=times.op_end),
            base=replace(self.program.base, periods=[(at[a], max(at[a], at[b])) for a, b in steps]),
        )

    def _case(self, changes: Sequence[Change], case: str) -> float:
        durations = self.durations(changes, case)
        mean = self.measured_ns
        if durations is not self.replay.measured:
            steps = self._step_ns(self.replay.run(durations))
            if min(steps) <= 0:
                # Streams that nothing in the trace synchronizes can overtake each other.
                raise CannotAnswerError(
                    "the steps cannot be predicted: after the change, the first operation of a "
                    "step would run no later than that of the previous step, because nothing in "
                    "the trace synchronizes their streams"
                )
            # The error of the replay without a change is removed.
            mean *= fmean(steps) / self.replayed_ns
        for change in changes:
            if change.name == "workers":
                mean = max(mean, self._loader_ns(change, case))
        return mean

    def _loader_ns(self, change: Change, case: str) -> float:
        # A loader that limits the step delivers one batch per step.
        if not self.program.input_waits:
            return 0.0
        contention = factors("workers", case, "contention")
        rate = [w / (1 + contention["input"] * (w - 1)) for w in change.workers]
        return self.measured_ns * rate[0] / rate[1]

    def _mean(self, schedule: Schedule) -> float:
        return fmean(self._step_ns(schedule))

    def _step_ns(self, schedule: Schedule) -> list[int]:
        at = schedule.op_start
        return [at[end] - at[begin] for begin, end in self.program.steps]

    def gpus(self, name: str) -> tuple[Gpu, Gpu]:
        assert self._gpus is not None
        return self._gpus(name)
