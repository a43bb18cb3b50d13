"""Judge how a run of a capture ended."""

from __future__ import annotations

from typing import Any

from tbd_collectors.process import Completed
from tbd_collectors.profiler import Run
from tbd_models.definition import OUT_OF_MEMORY
from tbd_trace.errors import UsageError

_KILLED = -9  # SIGKILL; the kernel's OOM killer sends it


class CaptureEndedError(Exception):
    """The remaining runs are skipped; capture.json is written with this status."""

    def __init__(self, status: str, reason: str, exit_code: int = 1) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.exit_code = exit_code


def check(planned_run: Run, completed: Completed, report: dict[str, Any]) -> None:
    """Check how a run ended, by its exit code and the report that it wrote.

    Raises:
        CaptureEndedError: it failed, exhausted memory or took too long.
        UsageError: the workload is not supported.
    """
    status = report.get("status")
    if status == "unsupported":
        raise UsageError(str(report.get("reason")))
    if status == "out_of_memory":
        raise CaptureEndedError("out_of_memory", str(report.get("reason")), OUT_OF_MEMORY)
    if completed.timed_out:
        raise CaptureEndedError(
            "failed", f"the {planned_run.name} run took longer than --timeout allows"
        )
    if completed.returncode == _KILLED:
        reason = "the program was killed, as Linux does when the host's memory runs out"
        raise CaptureEndedError("out_of_memory", reason, OUT_OF_MEMORY)
    if completed.returncode != 0:
        last = completed.tail[-1] if completed.tail else "no output"
        reason = f"the {planned_run.name} run failed with exit code {completed.returncode}: {last}"
        raise CaptureEndedError("failed", reason, completed.returncode)
