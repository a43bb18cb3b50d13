"""Run a program with a log, a time limit and reliable termination of its child processes."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from tbd_trace.errors import TbdTraceError
from tbd_trace.machine.inspection import Finding

MARKER = "TBD_TRACE_RUN"

_PROC = Path("/proc")
_POLL_S = 0.2  # delay of the output that the user sees
_TERMINATE_S = 5.0
_STOPPED_GRACE_S = 1.0  # its report is not wanted
_TAIL_LINES = 40
_LAST_LINES = 3
_PROGRESS = re.compile(r"\[[=>\s]*\d+\s?%")  # progress bars of nsys
_LINE_END = re.compile(rb"\r\n|\r|\n")  # progress bars end their lines with a lone \r
# Signal and seconds to wait: orphaned processes may exit alone, then SIGTERM, then SIGKILL.
_LEFT_OVER_STEPS = ((None, 1.0), (signal.SIGTERM, 2.0), (signal.SIGKILL, 2.0))


class CollectionError(TbdTraceError):
    """A profiler failed or could not be started. Exit code 1."""


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
class Completed:
    """Result of a run."""

    returncode: int  # negative if a signal ended the program
    seconds: float
    tail: tuple[str, ...]  # last 40 lines of output without blank ones and progress bars
    timed_out: bool = False  # profilers often still write their report
    stopped: bool = False  # by the caller

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
    grace_s: float = 20.0,
    stop: threading.Event | None = None,
) -> Completed:
    """Run a program in a new session until it ends.

    At the time limit or on Ctrl-C, the program and its children get SIGINT, on which profilers
    write their report, then SIGTERM, then SIGKILL. Processes that left the session are found by an
    environment variable unique to this run.

    Args:
        argv: program and arguments.
        environment: variables added to those of this process.
        directory: working directory.
        timeout_s: time limit in seconds.
        log: file for both output streams.
        on_line: called with each non-blank line of output within 0.2 s.
        grace_s: seconds between SIGINT and SIGTERM.
        stop: ends the program when another thread sets it.

    Raises:
        CollectionError: the program, the directory or the log file cannot be used.
        KeyboardInterrupt: after Ctrl-C; no process of the run remains.
    """
    marker = str(uuid.uuid4())
    started = time.monotonic()
    with _open_log(log) as written, log.open("rb") as read:
        process = _start(argv, {**environment, MARKER: marker}, directory, written)
        output = _Output(read, on_line)
        try:
            timed_out = not _ends_within(process, timeout_s, output, stop)
            stopped = timed_out and stop is not None and stop.is_set()
            if timed_out:
                _stop(process, _STOPPED_GRACE_S if stopped else grace_s, output)
        except BaseException:
            _stop(process, grace_s, output)
            raise
        finally:
            # Also after a normal end: a program may leave workers in the background.
            _kill(process)
            _end_left_overs(marker)
        seconds = time.monotonic() - started
        output.forward(to_the_end=True)
    return Completed(process.returncode, seconds, tuple(output.tail), timed_out, stopped)


def left_overs(marker: str) -> list[int]:
    """Return the ids of processes with a run's marker in their environment."""
    wanted = f"{MARKER}={marker}".encode()
    process_ids = []
    for entry in _PROC.glob("[0-9]*"):
        # The process has ended, or belongs to another user and so not to the run.
        with contextlib.suppress(OSError):
            if wanted in (entry / "environ").read_bytes().split(b"\0"):
                process_ids.append(int(entry.name))
    return process_ids


class _Output:
    # Follows the log file while the program writes it.

    def __init__(self, file: BinaryIO, on_line: Callable[[str], None] | None) -> None:
        self._file = file
        self._on_line = on_line
        self._rest = b""
        self.tail: deque[str] = deque(maxlen=_TAIL_LINES)

    def forward(self, *, to_the_end: bool = False) -> None:
        # The last line may still be incomplete; keep it until the next call or the end.
        *lines, self._rest = _LINE_END.split(self._rest + self._file.read())
        if to_the_end:
            lines.append(self._rest)
            self._rest = b""
        for line in lines:
            if text := line.decode("utf-8", "replace").rstrip():
                if not _PROGRESS.search(text):
                    self.tail.append(text)
                if self._on_line is not None:
                    self._on_line(text)


def _open_log(log: Path) -> BinaryIO:
    try:
        return log.open("wb")
    except OSError as error:
        raise CollectionError(f"{log}: cannot be written ({error.strerror})") from error


def _start(
    argv: Sequence[str], environment: Mapping[str, str], directory: Path, output: BinaryIO
) -> subprocess.Popen[bytes]:
    if not directory.is_dir():
        raise CollectionError(f"{directory}: no such directory to run {argv[0]} in")
    try:
        return subprocess.Popen(
            list(argv),
            cwd=directory,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # its process group gets signals, and Ctrl-C only reaches us
        )
    except OSError as error:
        raise CollectionError(
            f"{argv[0]}: cannot be run ({error.strerror}); install it or put it on PATH"
        ) from error


def _ends_within(
    process: subprocess.Popen[bytes],
    seconds: float,
    output: _Output,
    stop: threading.Event | None = None,
) -> bool:
    # wait() in short steps, to forward output while the program runs.
    deadline = time.monotonic() + seconds
    while process.poll() is None:
        remaining = deadline - time.monotonic()
        if remaining <= 0 or (stop is not None and stop.is_set()):
            return False
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(min(_POLL_S, remaining))
        output.forward()
    return True


def _stop(process: subprocess.Popen[bytes], grace_s: float, output: _Output) -> None:
    # nsys writes its report on SIGINT; SIGTERM and SIGKILL would lose it.
    for number, patience in ((signal.SIGINT, grace_s), (signal.SIGTERM, _TERMINATE_S)):
        _signal_group(process, number)
        if _ends_within(process, patience, output):
            return
    _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    _signal_group(process, signal.SIGKILL)
    process.wait()


def _signal_group(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    # After wait() the kernel may reuse the process id.
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)


def _end_left_overs(marker: str) -> None:
    for number, patience in _LEFT_OVER_STEPS:
        deadline = time.monotonic() + patience
        while process_ids := left_overs(marker):
            if number is not None:
                _signal_all(process_ids, number)
            if time.monotonic() > deadline:
                break
            time.sleep(0.1)
        else:
            return


def _signal_all(process_ids: Sequence[int], number: signal.Signals) -> None:
    for process_id in process_ids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process_id, number)
