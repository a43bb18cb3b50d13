"""Run a program with a log, a time limit and reliable termination of its child processes."""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import shutil
import signal
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from tbd_collectors.host_memory import oom_kills
from tbd_collectors.left_overs import MARKER, end_left_overs, left_overs
from tbd_collectors.program_output import LoggedOutput, PassedThrough, ProgramOutput
from tbd_collectors.program_stop import Stopping, kill
from tbd_collectors.program_stop import stop as stop_process
from tbd_collectors.watcher import End, Watcher
from tbd_trace.errors import TbdTraceError
from tbd_trace.machine.inspection import Finding

_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1
_POLL_S = 0.2  # delay of the output that the user sees
_STOPPED_GRACE_S = 1.0  # its report is not needed
_BEGIN_S = 30.0  # for a process that the program leaves behind
_LAST_LINES = 3
NO_PERMISSION, NOT_FOUND = 126, 127  # exit codes of a shell
_USUAL = Stopping()


class CollectionError(TbdTraceError):
    """A profiler failed or could not be started. Exit code 1."""


class NotRunnableError(CollectionError):
    """A program cannot be run. Exit code 126 or 127, as of a shell."""

    def __init__(self, program: str, reason: str, exit_code: int) -> None:
        super().__init__(f"{program}: cannot be run ({reason}); install it or put it on PATH")
        self.exit_code = exit_code


class NothingRecordedError(CollectionError):
    """A profiler ran but recorded no usable data. Exit code 1."""


class NoRangesError(NothingRecordedError):
    """A profile has no ranges of the program. Exit code 1."""

    def __init__(self, finding: str, advice: str = "", kernels: int = 0) -> None:
        super().__init__(finding + advice)
        self.finding = finding  # the message without advice
        self.kernels = kernels  # kernels that it has


def not_installed(tool: Finding) -> CollectionError:
    """Build the error for a missing profiler, with installation advice."""
    return CollectionError(f"{tool.check} is {tool.found}: {tool.advice}")


def on_path(name: str, look: Callable[[], Finding]) -> str:
    """Return the path of the program ``name``; raise CollectionError with advice from ``look``."""
    path = shutil.which(name)
    if path is None:
        raise not_installed(look())
    return path


@dataclass(frozen=True, slots=True)
class KeptRunning:
    """A program that runs on although it is not needed any more."""

    process: subprocess.Popen[bytes]
    output: ProgramOutput
    resources: contextlib.ExitStack
    stopping: Stopping

    def wait(self) -> int:
        """Wait for the end of the program and return its exit code; Ctrl-C stops it."""
        with self.resources:
            try:
                _wait(self.process, math.inf, self.output)
            except BaseException:
                _stop(self.process, self.stopping, self.output)
                raise
        return self.process.returncode


@dataclass(frozen=True, slots=True)
class Completed:
    """Result of a run."""

    returncode: int  # negative if a signal ended the program
    seconds: float
    tail: tuple[str, ...]  # last 40 lines of output without blank ones and progress bars
    timed_out: bool = False  # profilers often still write their report
    stopped: bool = False  # by the caller
    enough: bool = False  # stopped or kept running, because it was not needed any more
    kept: KeptRunning | None = None  # if it runs on; the exit code is then 0
    memory_ran_out: bool = False  # that of the host, while the program ran

    def require_success(self, what: str) -> None:
        """Raise CollectionError unless the program exited with 0; ``what`` names the run."""
        if self.timed_out:
            raise CollectionError(
                f"{what} was stopped after {self.seconds:.0f} s; allow more time, or do less"
            )
        if self.returncode < 0:
            name = signal.Signals(-self.returncode).name
            raise CollectionError(f"{what} was ended by {name} ({self.last_words()})")
        if self.returncode > 0:
            raise CollectionError(
                f"{what} failed with exit code {self.returncode}: {self.last_words()}"
            )

    def last_words(self) -> str:
        """Return the end of the output on one line."""
        return "; ".join(self.tail[-_LAST_LINES:]).strip() or "no output"


def run(
    argv: Sequence[str],
    *,
    environment: Mapping[str, str],
    directory: Path,
    timeout_s: float,
    log: Path,
    on_line: Callable[[str], None] | None = None,
    shown: tuple[int, int] | None = None,
    stopping: Stopping = _USUAL,
    stop: threading.Event | None = None,
    watcher: Watcher | None = None,
) -> Completed:
    """Run a program in a new session until it ends.

    At the time limit or on Ctrl-C, or once it is not needed any more, the program and its children
    get SIGINT, then SIGTERM, then SIGKILL. Processes that left the session are found by an
    environment variable unique to this run.

    Args:
        argv: program and arguments.
        environment: variables added to those of this process.
        directory: working directory.
        timeout_s: time limit in seconds.
        log: file for both output streams.
        on_line: called with each non-blank line of output within 0.2 s.
        shown: descriptors to which the two output streams go as they are; standard input is then
            that of this process, and ``on_line`` is not called.
        stopping: how the program is stopped.
        stop: ends the program when another thread sets it, which then has a second for it.
        watcher: decides how long the program is needed. Processes that it leaves behind are waited
            for, too, if they begin within 30 s.

    Raises:
        CollectionError: the program, the directory or the log file cannot be used.
        KeyboardInterrupt: after Ctrl-C; no process of the run remains.
    """
    marker = str(uuid.uuid4())
    started, killed = time.monotonic(), oom_kills()
    with contextlib.ExitStack() as resources:
        output = _open_output(resources, log, on_line, shown)
        process = _start(argv, {**environment, MARKER: marker}, directory, output)
        # Also after a normal end: a program may leave workers in the background.
        resources.callback(end_left_overs, marker)
        resources.callback(kill, process)
        end = None
        try:
            end = _wait(process, timeout_s, output, stop, watcher)
            if end is End.EXIT and process.returncode == 0 and watcher is not None:
                end = _wait_for_left_overs(marker, started + timeout_s, output, watcher)
            if end is End.ENOUGH and watcher is not None and watcher.keeps_running:
                kept = KeptRunning(process, output, resources.pop_all(), stopping)
                return Completed(0, time.monotonic() - started, (), enough=True, kept=kept)
            if end in (End.TIMEOUT, End.ENOUGH):
                output.note_interrupt()  # _stop sends SIGINT, so its traceback is not an error
            if end is not End.EXIT:
                _stop(process, _how(end, stopping, watcher), output)
        except BaseException:
            _stop(process, _how(end, stopping, watcher), output)
            raise
    return Completed(
        process.returncode,
        time.monotonic() - started,
        tuple(output.tail),
        timed_out=end in (End.TIMEOUT, End.STOPPED),
        stopped=end is End.STOPPED,
        enough=end is End.ENOUGH,
        memory_ran_out=oom_kills() > killed,
    )


def _how(end: End | None, usual: Stopping, watcher: Watcher | None) -> Stopping:
    if end is End.STOPPED:
        return replace(usual, grace_s=_STOPPED_GRACE_S)
    if watcher is not None:
        watcher.before_stop()
    return usual


def _open_output(
    resources: contextlib.ExitStack,
    log: Path,
    on_line: Callable[[str], None] | None,
    shown: tuple[int, int] | None,
) -> ProgramOutput:
    written = resources.enter_context(_open_log(log))
    output: ProgramOutput
    if shown is None:
        output = LoggedOutput(written, resources.enter_context(log.open("rb")), on_line)
    else:
        output = PassedThrough(written, *shown)
    resources.callback(output.forward, to_the_end=True)
    return output


def _open_log(log: Path) -> BinaryIO:
    try:
        return log.open("wb")
    except OSError as error:
        raise CollectionError(f"{log}: cannot be written ({error.strerror})") from error


def _start(
    argv: Sequence[str], environment: Mapping[str, str], directory: Path, output: ProgramOutput
) -> subprocess.Popen[bytes]:
    if not directory.is_dir():
        raise CollectionError(f"{directory}: no such directory to run {argv[0]} in")
    try:
        process = subprocess.Popen(
            list(argv),
            cwd=directory,
            env={**os.environ, **environment},
            **output.streams(),
            start_new_session=True,  # its process group gets signals, and Ctrl-C only reaches us
            preexec_fn=_end_with_parent,  # noqa: PLW1509 - it calls a function of libc alone
        )
    except OSError as error:
        code = NOT_FOUND if isinstance(error, FileNotFoundError) else NO_PERMISSION
        raise NotRunnableError(argv[0], str(error.strerror), code) from error
    output.started()
    return process


def _end_with_parent() -> None:
    # In the new process: if this one is killed, the program gets SIGTERM.
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _wait(
    process: subprocess.Popen[bytes],
    seconds: float,
    output: ProgramOutput,
    stop: threading.Event | None = None,
    watcher: Watcher | None = None,
) -> End:
    # wait() in short steps, to forward output while the program runs.
    deadline = time.monotonic() + seconds
    while process.poll() is None:
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            return End.TIMEOUT
        if stop is not None and stop.is_set():
            return End.STOPPED
        if watcher is not None and watcher.is_enough():
            return End.ENOUGH
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(min(_POLL_S, remaining))
        output.forward()
    return End.EXIT


def _stop(process: subprocess.Popen[bytes], how: Stopping, output: ProgramOutput) -> None:
    stop_process(process, how, lambda seconds: _wait(process, seconds, output) is End.EXIT)


def _wait_for_left_overs(
    marker: str, deadline: float, output: ProgramOutput, watcher: Watcher
) -> End:
    # A program may start the one that is wanted in the background, and end.
    first = min(deadline, time.monotonic() + _BEGIN_S)
    while left_overs(marker):
        if watcher.is_enough():
            return End.ENOUGH
        has_begun = watcher.has_begun()
        if time.monotonic() > (deadline if has_begun else first):
            # One that never begins is a service, which need not be waited for.
            return End.TIMEOUT if has_begun else End.EXIT
        time.sleep(_POLL_S)
        output.forward()
    return End.EXIT
