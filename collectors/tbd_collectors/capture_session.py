"""Execute the runs of a capture one after another, and keep their records."""

from __future__ import annotations

import platform
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tbd_collectors.automatic_marks import AutomaticMarks
from tbd_collectors.capture_metadata import described, of_command
from tbd_collectors.capture_writer import FORMAT_VERSION, keeps_earlier, read_json, write_json
from tbd_collectors.collection_request import Command, Profiling, Workload
from tbd_collectors.flight_recorder import armed
from tbd_collectors.launcher import RankStart
from tbd_collectors.plan import MEMORY_LOG, NO_COUNTERS
from tbd_collectors.process import (
    CollectionError,
    KeptRunning,
    NoRangesError,
    NothingRecordedError,
    run,
)
from tbd_collectors.profiler import COUNTERS, MEMORY, THROUGHPUT, TIMELINE, Run
from tbd_collectors.profilers import profiler
from tbd_collectors.program_stop import Stopping
from tbd_collectors.recording import Recording
from tbd_collectors.report_awaited import NO_TRAINING, memory_awaited
from tbd_collectors.run_outcome import CaptureEndedError, check
from tbd_collectors.workload import importable
from tbd_models.instrument.marks import LAYERS_VARIABLE
from tbd_trace.errors import InputError
from tbd_trace.runtime.stop_signals import cause, exit_code
from tbd_trace.version import __version__ as VERSION

# Reports of training, with notes of which process is recorded, and files of killed processes.
_TEMPORARY = (".*", "*.process", "*.progress.json*", "*.stopped")
_STOPPED = "stopped because another rank had failed, or by Ctrl-C"


@dataclass(frozen=True, slots=True)
class Result:
    """Outcome of a capture."""

    capture: Path
    status: str  # ok, out_of_memory, failed or interrupted
    reason: str  # empty if the status is ok
    exit_code: int  # of the program that failed, otherwise 0
    notes: list[str]  # warnings for the user, such as missing counters
    document: dict[str, Any]  # content of capture.json
    kept: KeptRunning | None = None  # the command, if it runs on
    # True if nothing was recorded, and the directory still holds an earlier capture.
    is_earlier_kept: bool = False


class Session:
    """The runs of one capture, and its directory."""

    def __init__(
        self,
        target: Workload | Command,
        profiling: Profiling,
        directory: Path,
        say: Callable[[str], None],
        on_line: Callable[[str], None],
        *,
        shown: tuple[int, int] | None,
        launch: RankStart | None,
    ) -> None:
        self._launch = launch
        self._shown = shown if isinstance(target, Command) else None
        self._target = target
        self._profiling = profiling
        self._directory = directory
        self._marks = AutomaticMarks(target, profiling, directory)
        self._memory = memory_awaited(target, profiling, directory)
        self._say = say
        self._on_line = on_line
        self._status, self._reason, self._exit_code = "ok", "", 0
        self.notes: list[str] = []
        self._files: list[dict[str, Any]] = []
        self._training: dict[str, Any] = {}  # what the timeline's run reported of a command
        self._kept: KeptRunning | None = None

    def execute(self, planned: list[Run]) -> KeyboardInterrupt | None:
        """Execute the runs; return what interrupted them, if anything did."""
        try:
            with importable(auto=self._marks.are_on or self._memory is not None) as environment:
                environment[LAYERS_VARIABLE] = str(self._directory / "layers.json")
                environment.update(self._marks.environment())
                for number, planned_run in enumerate(planned, 1):
                    tool = planned_run.tool or "no profiler"
                    self._say(f"{number}/{len(planned)} {planned_run.name} ({tool})")
                    self._execute(planned_run, environment | self._rank_environment(number - 1))
        except CaptureEndedError as error:
            self._status, self._reason = error.status, error.reason
            self._exit_code = error.exit_code
        except KeyboardInterrupt as interrupt:
            self._status, self._exit_code = "interrupted", exit_code(interrupt)
            self._reason = f"interrupted by {cause(interrupt)}"
            return interrupt
        return None

    def _rank_environment(self, run: int) -> dict[str, str]:
        if self._launch is None:
            return {}
        if self._launch.stop.is_set():
            raise CaptureEndedError("interrupted", _STOPPED)
        recorder = armed(self._directory, self._launch.rank, self._profiling.timeout_s)
        return self._launch.environment(run) | recorder

    def _execute(self, planned_run: Run, environment: dict[str, str]) -> None:
        recording = self._recording(planned_run)
        log = self._directory / f"{planned_run.name}.log"
        try:
            completed = run(
                [*(self._launch.prefix if self._launch else ()), *planned_run.argv],
                environment=environment
                | planned_run.environment
                | (recording.variables() if recording else {}),
                directory=Path.cwd(),
                timeout_s=self._profiling.timeout_s,
                log=log,
                on_line=self._on_line,
                shown=self._shown,
                stopping=Stopping(
                    has_own_group=planned_run.has_own_group,
                    say=lambda text: self._say(f"{planned_run.name}: {text}"),
                    is_writing=lambda: recording is not None and recording.is_writing(),
                ),
                stop=self._launch.stop if self._launch else None,
                watcher=recording or self._memory,
            )
        except KeyboardInterrupt:
            self._note_training(planned_run, recording)
            self._keep_what_there_is(planned_run)
            raise
        self._note_training(planned_run, recording)
        self._kept = completed.kept
        if completed.stopped:
            raise CaptureEndedError("interrupted", _STOPPED)
        report = read_json(self._directory / f"{planned_run.name}.json")
        # Counters first: a failed counter run must not end the capture, unlike the checks below.
        if planned_run.name == COUNTERS:
            self._keep_counters(planned_run)
            return
        try:
            check(planned_run, completed, report, log)
        except CaptureEndedError:
            self._keep_what_there_is(planned_run, completed.tail)
            raise
        if planned_run.name == TIMELINE:
            try:
                self._keep_timeline(planned_run, completed.tail)
            except (CollectionError, InputError) as error:
                if recording is not None and isinstance(error, NothingRecordedError):
                    raise  # the program has ended well, but there is nothing to keep
                # A capture without a timeline has failed, but logs and throughput stay useful.
                raise CaptureEndedError("failed", self._relative_message(error)) from error
        if planned_run.name == MEMORY:
            self._keep_memory(planned_run)

    def _recording(self, planned_run: Run) -> Recording | None:
        target = self._target
        if (
            not isinstance(target, Command)
            or target.capture_range is not None  # the command itself chooses the range
            or planned_run.name not in (TIMELINE, COUNTERS)
        ):
            return None
        counts = planned_run.name == COUNTERS
        return Recording(
            target,
            planned_run,
            self._directory,
            iterations=self._profiling.counter_iterations if counts else target.iterations,
            launch=self._launch,
            say=self._say,
        )

    def _note_training(self, planned_run: Run, recording: Recording | None) -> None:
        if recording is not None and planned_run.name == TIMELINE:
            self._training = recording.report()

    def _keep_what_there_is(self, planned_run: Run, printed: Sequence[str] = ()) -> None:
        # Of a run that did not end as it should.
        if planned_run.name != TIMELINE:
            return
        with suppress(CollectionError, InputError):
            self._keep_timeline(planned_run, printed)

    def _keep_memory(self, planned_run: Run) -> None:
        if not planned_run.output.is_file():
            raise CaptureEndedError("failed", f"the program wrote no {MEMORY_LOG}: {NO_TRAINING}")
        if self._memory is not None and (found := self._memory.description()):
            self._say(f"memory: {found}")
        name = planned_run.output.name
        file = {"file": name, "role": MEMORY, "tool": "tbd-trace", "tool_version": VERSION}
        self._files.append(file)

    def _keep_timeline(self, planned_run: Run, printed: Sequence[str]) -> None:
        profile = self._timeline(planned_run, printed)
        report = read_json(self._directory / f"{planned_run.name}.json")
        self._add(profile, TIMELINE, planned_run.tool or "", report.get("profiler_version"))
        if marks := self._marks.description():
            self._say(f"timeline: {marks}")
        if limitation := self._marks.limitation():
            self.notes.append(limitation)

    def _timeline(self, planned_run: Run, printed: Sequence[str]) -> Path:
        on_gpu = self._target.device == "cuda"
        timelines = profiler(str(planned_run.tool)).timelines
        assert timelines is not None
        try:
            profile = timelines.profile(
                planned_run, printed, lambda text: self._say(f"timeline: {text}")
            )
            contents = timelines.check(profile, on_gpu, printed)
            if self._training.get("has_ended") and not self._training["iterations"]:
                raise NoRangesError("no iteration was recorded", kernels=contents.kernels)
        except NoRangesError as error:
            if isinstance(self._target, Workload):
                raise
            why = self._marks.why_nothing(self._training)
            reason = self._relative_message(f"{error.finding}: {why}")
            if not error.kernels:
                raise NothingRecordedError(f"{reason}; no capture was written") from error
            self.notes.append(reason)  # kernels alone show iterations, too
        return profile

    def _keep_counters(self, planned_run: Run) -> None:
        counters = profiler(str(planned_run.tool)).counters
        assert counters is not None
        # The whole log: a program may print a lot after the profiler has reported why it failed.
        log = self._directory / f"{planned_run.name}.log"
        output = log.read_text(encoding="utf-8", errors="replace").splitlines()
        try:
            counters.check(planned_run.output, output)
        except CollectionError as error:
            planned_run.output.unlink(missing_ok=True)
            # The timeline is useful without counters, so the capture goes on.
            self.notes.append(f"{NO_COUNTERS}: {self._relative_message(error)}")
            return
        self._add(planned_run.output, "metrics", planned_run.tool or "")

    def _relative_message(self, error: object) -> str:
        # The directory has a temporary name until the capture is complete.
        return str(error).replace(f"{self._directory}/", "")

    def _add(self, path: Path, role: str, tool: str, version: str | None = None) -> None:
        # The program knows the version of a profiler that runs inside it.
        version = version or profiler(tool).find().found.partition(" ")[0]
        self._files.append({"file": path.name, "role": role, "tool": tool, "tool_version": version})

    def finish(self, capture: Path) -> Result:
        """Write capture.json, remove the intermediate reports and return the outcome."""
        recorded = self._training.get("iterations")
        if self._status != "ok" and self._files and recorded:
            are = "iteration is" if recorded == 1 else "iterations are"
            self._reason += f"; {recorded} {are} recorded"
        document = self._document()
        write_json(self._directory / "capture.json", document)
        for name in (THROUGHPUT, TIMELINE, COUNTERS, MEMORY):
            (self._directory / f"{name}.json").unlink(missing_ok=True)
        self._marks.remove()
        for pattern in _TEMPORARY:
            for path in self._directory.glob(pattern):
                path.unlink()
        is_earlier_kept = keeps_earlier(capture, self._directory)
        return Result(
            *(capture, self._status, self._reason, self._exit_code, self.notes, document),
            *(self._kept, is_earlier_kept),
        )

    def _document(self) -> dict[str, Any]:
        bare = read_json(self._directory / f"{THROUGHPUT}.json")
        profiled = read_json(self._directory / f"{TIMELINE}.json")
        memory = read_json(self._directory / f"{MEMORY}.json")
        document: dict[str, Any] = {
            "format_version": FORMAT_VERSION,
            "capture_id": str(uuid.uuid4()),
            "status": self._status,
            "reason": self._reason or None,
            "notice": "; ".join(self.notes) or None,
            "host": f"{platform.system()} {platform.machine()}",
            "profiler": None if self._profiling.memory else self._profiling.timeline,
            "profiler_version": self._files[0]["tool_version"] if self._files else None,
            "files": self._files,
        }
        ranks = self._launch.world_size if self._launch else 1
        if isinstance(self._target, Command):
            document["world_size"] = ranks if self._launch else None
            known = self._training | self._marks.report() | profiled | memory
            return document | of_command(self._target, known)
        return document | described(self._target, bare, profiled, memory, ranks)
