"""Trials of ``tbd-trace try``: record a change, compare its work and losses, and measure it."""

# The collectors are imported when the command runs, so that `--help` starts fast.
# ruff: noqa: PLC0415
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tbd_trace.cli.output import note
from tbd_trace.errors import CannotAnswerError, TbdTraceError

if TYPE_CHECKING:
    from tbd_collectors.speedup import Speedup
    from tbd_collectors.trial import Trial
    from tbd_collectors.trial_capture import TrialCaptures


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one change."""

    text: str
    after: str = ""  # capture with the change, empty if it was not measured
    factor: float = 0.0  # by which steps are faster, 0 if it was not measured


@dataclass(frozen=True, slots=True)
class Trials:
    """Trials of a command whose capture ``before`` is recorded.

    Args:
        captures: where the command is recorded.
        argv: starts the command, or a fork of it.
        pairs: pairs of runs at most.
    """

    captures: TrialCaptures
    argv: Sequence[str]
    pairs: int

    def try_one(self, change: str, after: str = "after") -> Answer:
        """Record the capture ``after`` with a change, and measure it.

        Raises:
            CannotAnswerError: the change acts on nothing in the program.
            TbdTraceError: a run failed, or its work or losses are others.
        """
        from tbd_collectors.trial import Trial

        if not self.captures.record(after, change).has_acted:
            raise CannotAnswerError(f"{change} changes nothing in this program")
        same = _same_work(self.captures.directory, after, change)
        runs = Trial(
            self.captures.target,
            self.argv,
            change,
            self.captures.timeout_s,
            say=lambda text: note(f"{change}: {text}"),
        )
        found = _measured(runs, self.pairs)
        if runs.learns_alike() is False:
            raise TbdTraceError(
                f"{change}: refused: its losses differ more from those of the program than those "
                "of other seeds do"
            )
        return Answer(f"{change}: {_words(change, found, same)}", after, found.factor)

    def try_each(self, changes: Sequence[str]) -> list[Answer]:
        """Try changes one after the other; return their answers, the fastest first.

        After Ctrl-C, return the complete ones.
        """
        answers = []
        for change in changes:
            try:
                answers.append(self.try_one(change, f"after-{change.replace('=', '-')}"))
            except TbdTraceError as error:
                answers.append(Answer(str(error)))
            except KeyboardInterrupt:
                break
        return sorted(answers, key=lambda answer: -answer.factor)


def _measured(runs: Trial, pairs: int) -> Speedup:
    # After Ctrl-C, state the estimate so far.
    from tbd_collectors.speedup import FEWEST, speedup

    try:
        return runs.run_pairs(pairs)
    except KeyboardInterrupt:
        if len(done := runs.pairs()) >= FEWEST:
            found = speedup(done)
            note(f"interrupted after {found.pairs} pairs: {found}")
        raise


def _same_work(captures: Path, after: str, change: str) -> str:
    from tbd_trace.analysis.diff import SameWork, compare
    from tbd_trace.analysis.diff.work import differences
    from tbd_trace.api import open_traces

    work = compare(open_traces(captures / "before"), open_traces(captures / after)).work
    if work.verdict is SameWork.SAME:
        return "at the same work"
    if work.verdict is SameWork.UNKNOWN:
        return f"(work unknown: {work.reason})"
    raise TbdTraceError(f"{change}: refused: not the same work: {differences(work.differs)}")


def _words(change: str, found: Speedup, same: str) -> str:
    from tbd_collectors.speedup import Outcome
    from tbd_models.trial.changes import keep

    if found.outcome is Outcome.FASTER:
        return f"{found} {same}; keep it with: {keep(change)}"
    if found.outcome is Outcome.SLOWER:
        return f"{found} {same}: slower, leave it out"
    return f"{found.outcome}: {found} {same}"
