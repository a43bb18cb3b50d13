"""Follow the training of a command, and see when enough of it has been recorded."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tbd_collectors.capture_writer import read_json
from tbd_collectors.collection_request import Command
from tbd_collectors.launcher import RankStart
from tbd_collectors.profiler import COUNTERS, TIMELINE, Run
from tbd_models.instrument.progress import ProgressRequest, warmup_of_command

BARE = 5
"""Iterations that are timed without the profiler."""

_STOP_S = 600  # longest time in which nsys writes its report
_FLUSH_S = 1.0  # nsys loses the ranges of the last moments before it is stopped
_BARE_S = 20  # longest time for the iterations without the profiler
_SAY_EVERY_S = 5.0


class Recording:
    """The training of one run of a command, as its file ``progress.json`` reports it.

    Args:
        target: the command.
        run: the run.
        directory: the capture directory.
        iterations: iterations to record.
        launch: starts the command as one of several ranks. All are stopped at the same time, so
            none is timed without its profiler.
        say: gets a line about each step.
    """

    def __init__(
        self,
        target: Command,
        run: Run,
        directory: Path,
        *,
        iterations: int,
        launch: RankStart | None,
        say: Callable[[str], None],
    ) -> None:
        self._run = run
        self._say = say
        self._launch = launch
        self.keeps_running = target.keep_running
        counts = run.name == COUNTERS
        can_be_bare = not counts and launch is None and (run.in_program or bool(run.stop))
        self._request = ProgressRequest(
            directory / f"{run.name}.progress.json",
            iterations,
            warmup=0 if counts else warmup_of_command(target.warmup),
            bare=BARE if can_be_bare else 0,
            in_program=run.in_program,
            stopped=directory / f"{run.name}.stopped",
        )
        self._modified_ns = 0
        self._state = "none"  # as of progress.Progress, or none before training
        self._has_stopped = False  # the profiler outside of the program
        self._deadline: float | None = None
        self._said = time.monotonic()

    def variables(self) -> dict[str, str]:
        """Return the environment variables that ask the program to report."""
        return self._request.variables()

    def has_begun(self) -> bool:
        """Return True once the program trains."""
        self._read()
        return self._state != "none"

    def is_enough(self) -> bool:
        """Return True once all has been recorded, of all ranks; called while the program runs."""
        if not self._is_recorded():
            return False
        if self._launch is not None and not self._launch.all_are_recorded():
            return False
        self._say_end()
        return True

    def _is_recorded(self) -> bool:
        self._read()
        if self._state in ("recorded", "done"):
            self._stop_profiler()
        if self._state == "recorded" and self._deadline is None:
            self._deadline = time.monotonic() + _BARE_S
        if self._state == "training":
            self._say_size()
        is_late = self._deadline is not None and time.monotonic() > self._deadline
        return self._state == "done" or is_late

    def before_stop(self) -> None:
        """End the recording before the program is interrupted."""
        self._read()
        if self._state == "training":
            self._stop_profiler()

    def _say_end(self) -> None:
        if self._run.name != TIMELINE:
            return
        count = self.report().get("iterations", 0)
        noun = "iteration" if count == 1 else "iterations"
        rest = "" if self.keeps_running else "; the program is stopped"
        self._say(f"{self._run.name}: {count} {noun} recorded{rest}")

    def report(self) -> dict[str, Any]:
        """Return what the program reported, empty before its training; see progress.Progress."""
        return read_json(self._request.file)

    def _read(self) -> None:
        with suppress(OSError):
            modified = self._request.file.stat().st_mtime_ns
            if modified != self._modified_ns:
                self._modified_ns = modified
                self._state = self.report().get("state", self._state)

    def _stop_profiler(self) -> None:
        if self._has_stopped:
            return
        self._has_stopped = True
        if self._run.stop:
            self._say(f"{self._run.name}: the profiler writes its report")
            time.sleep(_FLUSH_S)
            _call(self._run.stop, self._run.environment)
        self._request.stopped.touch()

    def is_writing(self) -> bool:
        """Return True while the program writes its trace."""
        return _unfinished_bytes(self._run.output) > 0

    def _say_size(self) -> None:
        # A large trace takes minutes.
        size = _unfinished_bytes(self._run.output)
        if size and time.monotonic() - self._said > _SAY_EVERY_S:
            self._said = time.monotonic()
            self._say(f"{self._run.name}: {size / 1e6:,.0f} MB of the trace are written")


def _unfinished_bytes(output: Path) -> int:
    # TraceRecorder writes beside the trace, and then renames.
    size = 0
    for path in output.parent.glob(f".*.{output.name}"):
        with suppress(FileNotFoundError):
            size += path.stat().st_size
    return size


def _call(argv: Sequence[str], environment: Mapping[str, str]) -> None:
    # If it fails, the end of the program ends the recording.
    with suppress(OSError, subprocess.TimeoutExpired):
        subprocess.run(
            argv, env={**os.environ, **environment}, capture_output=True, timeout=_STOP_S,
            check=False, start_new_session=True,  # Ctrl-C again must not stop it
        )  # fmt: skip
