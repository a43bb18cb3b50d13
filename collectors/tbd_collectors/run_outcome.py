"""Judge how a run of a capture ended."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

from tbd_collectors.failure_line import failure_line
from tbd_collectors.process import Completed
from tbd_collectors.profiler import Run
from tbd_models.definition import OUT_OF_MEMORY
from tbd_trace.errors import UsageError

_SIGNALS = 128
_KILLED = _SIGNALS + signal.SIGKILL


class CaptureEndedError(Exception):
    """The remaining runs are skipped; capture.json is written with this status."""

    def __init__(self, status: str, reason: str, exit_code: int = 1) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.exit_code = exit_code


def check(planned_run: Run, completed: Completed, report: dict[str, Any], log: Path) -> None:
    """Check how a run ended, by its exit code and the report that it wrote.

    ``log`` has the output of the run.

    Raises:
        CaptureEndedError: it failed, exhausted memory or took too long.
        UsageError: the workload is not supported.
    """
    status = report.get("status")
    if status == "unsupported":
        raise UsageError(str(report.get("reason")))
    if status == "out_of_memory":
        raise CaptureEndedError("out_of_memory", str(report.get("reason")), OUT_OF_MEMORY)
    if completed.enough:
        return
    if completed.timed_out:
        raise CaptureEndedError(
            "failed", f"the {planned_run.name} run took longer than --timeout allows"
        )
    # Shells and nsys turn a signal into an exit code, too.
    code = _SIGNALS - completed.returncode if completed.returncode < 0 else completed.returncode
    if code == _KILLED and completed.memory_ran_out:
        reason = "the program was killed by Linux, because the host's memory ran out"
        raise CaptureEndedError("out_of_memory", reason, code)
    if code == _KILLED:
        reason = "the program was ended by SIGKILL, which Linux also sends when memory runs out"
        raise CaptureEndedError("failed", reason, code)
    if code != 0:
        name = _signal(code)
        how = f"was ended by {name}" if name else f"failed with exit code {code}"
        raise CaptureEndedError("failed", f"the program {how}: {failure_line(log)}", code)


def _signal(exit_code: int) -> str | None:
    # The name of the signal of an exit code such as 134.
    try:
        return signal.Signals(exit_code - _SIGNALS).name
    except ValueError:
        return None
