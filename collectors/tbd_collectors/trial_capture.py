"""Record a command without and with a change, for ``tbd-trace try``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tbd_collectors.capture_writer import read_json
from tbd_collectors.collect import collect
from tbd_collectors.collection_request import Command, Profiling
from tbd_collectors.process import CollectionError
from tbd_collectors.trial import requested, working_copy
from tbd_models.instrument.trial_request import TrialRequest
from tbd_trace.runtime.private_files import temporary_directory

_STDERR = (2, 2)  # for both streams of the program; standard output is for the answer


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """What a program reports of a recorded run."""

    written: list[str]  # files outside of its working directory
    modules: list[str]  # that its runs can share, in the order of import
    has_acted: bool  # False if the change found nothing to change


@dataclass(frozen=True, slots=True)
class TrialCaptures:
    """Captures of a command, which torch.profiler records."""

    target: Command
    directory: Path
    timeout_s: float
    say: Callable[[str], None]

    def record(self, name: str, change: str | None) -> RecordedRun:
        """Record the capture ``name``; raise CollectionError if the run failed."""
        profiling = Profiling(
            timeline="torch", counters=False, throughput=False, timeout_s=self.timeout_s
        )
        what = change or "the program as it is"
        with temporary_directory() as outside, working_copy(Path.cwd()) as copy:
            request = TrialRequest(change, 0, Path(outside) / "trial.json", copy, is_timed=False)
            with requested(request):
                result = collect(
                    self.target,
                    profiling,
                    self.directory / name,
                    say=lambda text: self.say(f"{name} ({what}): {text}"),
                    shown=_STDERR if change is None else None,
                )
            report = read_json(request.report)
        if result.status != "ok":
            raise CollectionError(f"{change or name}: {result.reason}")
        own = self.directory.resolve()
        return RecordedRun(
            [path for path in report.get("written", []) if not Path(path).is_relative_to(own)],
            report.get("modules", []),
            report.get("acted", True),
        )
