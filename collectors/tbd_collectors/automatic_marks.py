"""Automatic marks of a user's command: where they report, and what the report means."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tbd_collectors.capture_writer import read_json
from tbd_collectors.collection_request import Command, Profiling, Workload
from tbd_models.instrument.marks import REPORT_VARIABLE
from tbd_models.instrument.trial_request import requested as requested_trial
from tbd_trace.machine.inspection import NVTX_VERSION

_FILE = "auto.json"
_UNMARKED = 2  # first steps, in which the model is found
_CALL = "call tbd_trace.instrument(model, optimizer) before the training loop"


class AutomaticMarks:
    """The automatic marks of one capture; workloads mark themselves."""

    def __init__(self, target: Workload | Command, profiling: Profiling, directory: Path) -> None:
        self.are_on = isinstance(target, Command) and target.auto and not profiling.memory
        self._path = directory / _FILE
        self._timeline = profiling.timeline

    def environment(self) -> dict[str, str]:
        """Return the variables for the program."""
        return {REPORT_VARIABLE: str(self._path)} if self.are_on else {}

    def report(self) -> dict[str, Any]:
        """Return what the program reported, empty if no training was found."""
        return read_json(self._path)

    def remove(self) -> None:
        """Remove the report."""
        self._path.unlink(missing_ok=True)

    def description(self) -> str:
        """Return what marks iterations and layers, empty if nothing does."""
        report = self.report()
        parts = [f"iterations are {report['boundary']}"] if report.get("boundary") else []
        if report.get("model"):
            parts.append(f"layers those of {report['model']}")
        return ", ".join(parts)

    def limitation(self) -> str:
        """Return the reason for missing marks, and the action; empty if none are missing."""
        problem = self.report().get("problem")
        return f"{problem}; tbd_trace.instrument marks what you choose" if problem else ""

    def why_nothing(self, training: dict[str, Any]) -> str:
        """Return why a profile has no ranges, and what to do.

        ``training`` is what the program reported of its iterations; see Recording.
        """
        report = self.report()
        if requested_trial() is not None:
            return _why_no_trial(report, training)
        return self._why_nothing(report, training)

    def _why_nothing(self, report: dict[str, Any], training: dict[str, Any]) -> str:
        if not self.are_on:
            return f"nothing was marked; leave out --no-auto, or {_CALL}"
        if not report:
            return f"no training by PyTorch, Keras fit or gluon.Trainer was found; {_CALL}"
        if report.get("framework") != "pytorch" and self._timeline == "torch":
            return f"torch.profiler does not record {report['framework']}; use --profiler nsys"
        if report.get("problem"):
            return f"training is not marked ({report['problem']}); {_CALL}"
        if self._timeline == "torch" or report.get("steps") or training:
            return _why_short(report | training)
        return (
            f"{self._timeline} does not see nvtx from 0.2.12 on; pip install nvtx=={NVTX_VERSION}"
        )


def _why_no_trial(report: dict[str, Any], training: dict[str, Any]) -> str:
    # Changes act on programs that mark nothing themselves.
    if not report:
        return "no training by PyTorch was found; `try` changes a program that trains by itself"
    if report.get("framework") != "pytorch":
        return f"it trains with {report['framework']}; `try` changes PyTorch programs"
    if report.get("problem"):
        return f"its training is not found ({report['problem']})"
    return _why_short(report | training, instead="")


def _why_short(training: dict[str, Any], instead: str = f", or {_CALL} and --warmup 1") -> str:
    steps, warmup = training.get("steps"), training.get("warmup", 0)
    if not steps:
        return "the training ended before it was recorded; train longer, or lower --warmup"
    found = f"the program trained {steps} step{'s' if steps > 1 else ''}"
    if steps <= _UNMARKED:
        return f"{found}, and marks begin with the third; train longer{instead}"
    fewest = max(1, training.get("first_marked", _UNMARKED))
    advice = f"--warmup {fewest} records {steps - fewest} of them"
    return f"{found}, of which {warmup} are warm-up; {advice}"
