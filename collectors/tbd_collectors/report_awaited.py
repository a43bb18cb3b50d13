"""Watch a program until it has written its report."""

from __future__ import annotations

from pathlib import Path

from tbd_collectors.capture_writer import read_json
from tbd_collectors.collection_request import Command, Profiling, Workload
from tbd_collectors.profiler import MEMORY

NO_TRAINING = (
    "no module of PyTorch with trained parameters was called in training mode; call "
    "tbd_trace.instrument(model, memory=True) before the training loop"
)


class ReportAwaited:
    """Watcher of a program that is not needed any more once its report exists."""

    def __init__(self, report: Path, *, keeps_running: bool = False) -> None:
        self._report = report
        self.keeps_running = keeps_running

    def is_enough(self) -> bool:
        """Return True once the report exists."""
        return self._report.exists()

    has_begun = is_enough

    def before_stop(self) -> None:
        """Do nothing: the records are complete."""

    def description(self) -> str:
        """Return the model and the optimizer of a report of memory, empty without one."""
        report = read_json(self._report)
        if not report:
            return ""
        return f"iterations are steps of {report['optimizer']}, layers those of {report['model']}"


def memory_awaited(
    target: Workload | Command, profiling: Profiling, directory: Path
) -> ReportAwaited | None:
    """Return the watcher of a command whose memory hooks record, None for other runs."""
    if not (profiling.memory and isinstance(target, Command) and target.auto):
        return None
    return ReportAwaited(directory / f"{MEMORY}.json", keeps_running=target.keep_running)
