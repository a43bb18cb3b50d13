"""Predict the time of a step after changes, by replay."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean, stdev

import numpy as np

from tbd_trace.errors import CannotAnswerError
from tbd_trace.why.changes import CHANGES, Change, factors, parts
from tbd_trace.why.copies import CHECKPOINT
from tbd_trace.why.effects import EFFECTS, EXACT, HOST_CHANGES
from tbd_trace.why.events import integers
from tbd_trace.why.program import MOSTLY_BUSY, Program
from tbd_trace.why.program_facts import Gpu, ProgramFacts
from tbd_trace.why.replay import Durations, Replay, Schedule
from tbd_trace.why.shares import shares

_LEAST_UNCERTAINTY, _MOST_UNCERTAINTY = 0.02, 0.1


@dataclass(frozen=True, slots=True)
class Prediction:
    """Time of a step after changes, in ns.

    In 8 of 10 cases the step is between the best and the worst. The ceiling is the replay with the
    largest effect of each change.
    """

    best_ns: float
    likely_ns: float
    worst_ns: float
    ceiling_ns: float


class Simulator(ProgramFacts):
    """Predictions for one program."""

    def __init__(
        self, program: Program, gpus: Callable[[str], tuple[Gpu, Gpu]] | None = None
    ) -> None:
        super().__init__(program, gpus)
        self.replay = Replay(program)
        self._busy_after: dict[tuple[Change, ...], float] = {}  # by changes
        self._cases: dict[tuple[tuple[Change, ...], str], float] = {}  # by changes and case

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
        now, ceiling = self.measured_ns, self._case(changes, "best")
        if all(change.name in EXACT for change in changes):
            best = likely = worst = ceiling
            if ceiling == now:
                return Prediction(now, now, now, now)
        else:
            best, likely, worst = (
                self._saved(changes, case) for case in ("best", "likely", "worst")
            )
        least = likely * self._uncertainty
        best = max(min(best, likely - least), self._least_ns(changes, "best"))
        return Prediction(best, likely, max(worst, likely + least), ceiling)

    def _saved(self, changes: Sequence[Change], case: str) -> float:
        # The step of a case. Of what each change saves beside those before it, only the part
        # counts that programs have had.
        if not any(change.name in parts() for change in changes):
            return self._case(changes, case)
        ordered = sorted(changes, key=lambda change: list(CHANGES).index(change.name))
        step = before = self.measured_ns
        for number, change in enumerate(ordered, 1):
            then = self._case(ordered[:number], case)
            part = parts()[change.name].of(case) if change.name in parts() else 1.0
            step -= part * (before - then)
            before = then
        return max(step, self._least_ns(changes, case))

    def _least_ns(self, changes: Sequence[Change], case: str) -> float:
        # After changes of the host, the GPU works as long as before, but for checkpoints, and the
        # time that nothing explains stays. Together with others, it works as long as in the replay,
        # or, in the best case, a little less.
        names = {change.name for change in changes}
        if not names <= HOST_CHANGES:
            if len(names) == 1 or names <= EXACT:
                return 0.0
            key = tuple(changes)
            if key not in self._busy_after:
                self._busy_after[key] = self.after(changes).busy_ns
            return self._busy_after[key] * (1 - _MOST_UNCERTAINTY if case == "best" else 1)
        saved = self._checkpoint_ns if "host_stalls" in names else 0.0
        return self.busy_ns + self._unexplained_ns - saved

    @cached_property
    def _checkpoint_ns(self) -> float:
        ops, steps = self.program.ops, self.program.steps
        copies = (op for op, cause in enumerate(ops.cause) if cause == CHECKPOINT)
        return sum(ops.end[op] - ops.start[op] for op in copies) / max(len(steps), 1)

    @cached_property
    def _unexplained_ns(self) -> float:
        # Per step; long programs are thinned, so that only these steps have all operations.
        program, at = self.program, self.program.ops.start
        periods = [(at[begin], at[end]) for begin, end in program.steps]
        own = replace(program, base=replace(program.base, periods=periods))
        return shares(own, self.stalls).get("unknown", 0.0) / len(periods)

    @cached_property
    def _uncertainty(self) -> float:
        # Half of the narrowest interval, as a part of the step: the error of the replay, and of the
        # mean of steps.
        steps = self.program.base.step_ns
        mean_error = stdev(steps) / len(steps) ** 0.5 / fmean(steps) if len(steps) > 1 else 0.0
        replay_error = abs(self.replayed_ns / fmean(self.program.op_step_ns) - 1)
        return min(max(_LEAST_UNCERTAINTY, mean_error, replay_error), _MOST_UNCERTAINTY)

    @cached_property
    def busy_ns(self) -> float:
        """Mean time of a step in which the device works."""
        return self.program.busy_ns

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
        # The step after all of the changes, by replay.
        key = (tuple(changes), case)
        if key not in self._cases:
            self._cases[key] = self._replayed_case(changes, case)
        return self._cases[key]

    def _replayed_case(self, changes: Sequence[Change], case: str) -> float:
        durations = self.durations(changes, case)
        kept = self._not_before_loader(self._mean_after(durations), changes, case)
        names = {change.name for change in changes}
        if case != "worst" and not names & EXACT:
            # Less work makes no step longer; in the replay it can, if one begins earlier.
            kept = min(kept, self.measured_ns)
        is_kept = names <= EXACT or names <= HOST_CHANGES or durations.op == self.replay.measured.op
        if case == "worst" or is_kept or self._host_limits:
            return kept
        # While the GPU works without a break, the host may be as fast as the GPU because it waits
        # in a way that the trace does not show.
        think = np.minimum(durations.think, int(np.median(durations.think)))
        known = [*self.program.input_waits, *self.stalls]
        think[known] = np.asarray(durations.think)[known]
        free = min(kept, self._mean_after(replace(durations, think=integers(think))))
        return free if case == "best" else (kept + free) / 2

    @cached_property
    def _host_limits(self) -> bool:
        return self.busy_ns < MOSTLY_BUSY * self.measured_ns

    def _mean_after(self, durations: Durations) -> float:
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
        return mean

    def _not_before_loader(self, mean: float, changes: Sequence[Change], case: str) -> float:
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
