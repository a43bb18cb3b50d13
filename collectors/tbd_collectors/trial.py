"""Run a command with and without a change in turn, and time its iterations."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from tbd_collectors.automatic_marks import AutomaticMarks
from tbd_collectors.capture_writer import read_json
from tbd_collectors.collection_request import Command, Profiling
from tbd_collectors.process import CollectionError, run
from tbd_collectors.profiler import TIMELINE, Run
from tbd_collectors.program_stop import Stopping
from tbd_collectors.recording import Recording
from tbd_collectors.run_outcome import CaptureEndedError, check
from tbd_collectors.speedup import FEWEST, Speedup, speedup
from tbd_collectors.workload import importable
from tbd_models.instrument.trial_request import TrialRequest
from tbd_trace.runtime.private_files import temporary_directory

_SPREADS = 3.0  # of the losses of programs with other seeds
_LEAST_LOSS = 0.02  # relative difference of losses that means nothing
_LEAST_NS = 1e9  # of the timed iterations of a run; shorter times depend on other processes
_MOST_ITERATIONS = 200
_AT_ONCE = Stopping(grace_s=0.0)  # nothing that the program may save is kept


@dataclass(frozen=True, slots=True)
class TimedRun:
    """A run without a profiler."""

    step_ns: float  # mean of its iterations: workers of a loader deliver in bursts
    losses: list[float]  # of the backward passes, in order


@dataclass(slots=True)
class Trial:
    """Runs of a command with and without a change, in turn."""

    # Each run times the iterations of the command, or as many as take a second, at most 200.

    command: Command
    argv: Sequence[str]  # starts the command
    change: str
    timeout_s: float
    say: Callable[[str], None]
    before: list[TimedRun] = field(default_factory=list)
    after: list[TimedRun] = field(default_factory=list)

    def run_pairs(self, most: int) -> Speedup:
        """Run pairs until the interval of the factor is narrow, at most ``most`` of them.

        Raises:
            CollectionError: a run failed or did not train.
        """
        found = None
        pilot = self._timed(None, seed=0)
        longer = min(_MOST_ITERATIONS, math.ceil(_LEAST_NS / pilot.step_ns))
        self.command = replace(self.command, iterations=max(self.command.iterations, longer))
        for number in range(most):
            # The second of two runs finds warmer caches.
            order = (None, self.change) if number % 2 == 0 else (self.change, None)
            for change in order:
                timed = self._timed(change, seed=number)
                (self.before if change is None else self.after).append(timed)
            if number + 1 < FEWEST:
                continue
            found = speedup(self.pairs())
            self.say(f"{found.pairs} pairs: {found}")
            if found.is_narrow:
                break
        assert found is not None
        return found

    def pairs(self) -> list[tuple[float, float]]:
        """Return the mean steps of the runs of each complete pair, without and with the change."""
        runs = zip(self.before, self.after, strict=False)
        return [(before.step_ns, after.step_ns) for before, after in runs]

    def learns_alike(self) -> bool | None:
        """Return True if the losses differ no more than those of other seeds; None if unknown."""
        return _learn_alike([r.losses for r in self.before], [r.losses for r in self.after])

    def _timed(self, change: str | None, seed: int) -> TimedRun:
        with temporary_directory() as outside, working_copy(Path.cwd()) as directory:
            report = Path(outside) / "trial.json"
            request = TrialRequest(change, seed, report, directory, is_timed=True)
            timing = self._run(request, Path(outside))
            losses = read_json(report).get("losses", [])
        return TimedRun(fmean(timing["profiled"]["iteration_ns"]), losses)

    def _run(self, request: TrialRequest, outside: Path) -> dict[str, Any]:
        # Nothing is recorded: the iterations of the window are timed.
        planned = Run(TIMELINE, None, list(self.argv), outside / "none")
        recording = Recording(
            self.command, planned, outside, iterations=self.command.iterations, launch=None,
            say=_ignore,
        )  # fmt: skip
        marks = AutomaticMarks(self.command, Profiling(timeline="torch"), outside)
        log = outside / "program.log"
        with importable(auto=True) as environment:
            completed = run(
                planned.argv,
                environment=environment
                | marks.environment()
                | recording.variables()
                | request.variables(),
                directory=request.directory,
                timeout_s=self.timeout_s,
                log=log,
                watcher=recording,
                stopping=_AT_ONCE,
            )
        name = request.change or "the program as it is"
        try:
            check(planned, completed, {}, log)
        except CaptureEndedError as error:
            raise CollectionError(f"{name}: {error.reason}") from error
        timing = recording.report()
        if not timing.get("profiled"):
            raise CollectionError(f"{name}: {marks.why_nothing(timing)}")
        return timing


def _learn_alike(before: Sequence[list[float]], after: Sequence[list[float]]) -> bool | None:
    # Runs of a pair have the same seed; pairs have other seeds.
    length = min((len(losses) for losses in (*before, *after)), default=0)
    if not length or len(before) < 2:
        return None
    means = [[fmean(losses[:length]) for losses in side] for side in (before, after)]
    differences = [b - a for a, b in zip(*means, strict=True)]
    usual = _SPREADS * stdev(means[0]) + _LEAST_LOSS * abs(fmean(means[0]))
    return abs(fmean(differences)) <= usual


def _ignore(_text: str) -> None:
    pass


@contextmanager
def working_copy(directory: Path) -> Iterator[Path]:
    """Yield a directory with links to the contents of another: new files do not land in that."""
    with temporary_directory() as copy:
        for entry in directory.iterdir():
            (Path(copy) / entry.name).symlink_to(entry.absolute())
        yield Path(copy)


@contextmanager
def requested(request: TrialRequest) -> Iterator[None]:
    """Hand a request to the programs that are started, in the working directory of the request."""
    before = Path.cwd()
    os.environ.update(request.variables())
    os.chdir(request.directory)
    try:
        yield
    finally:
        os.chdir(before)
        for name in request.variables():
            os.environ.pop(name, None)
