"""Running a program under supervision: its output kept, its time limited, nothing left behind."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import time
import uuid
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from tbd_trace.errors import TbdTraceError
from tbd_trace.machine import Finding

MARKER = "TBD_TRACE_RUN"

_PROC = Path("/proc")
_POLL_S = 0.2
_TERMINATE_S = 5.0
_TAIL_LINES = 40
_LAST_WORDS = 3
_PROGRESS = re.compile(r"\[[=>\s]*\d+\s?%")
_LINE_END = re.compile(rb"\r\n|\r|\n")  # progress bars end their lines with a lone \r
# What a run leaves behind may end by itself first, then on request, then at once.
_LEFT_OVER_STEPS = ((None, 1.0), (signal.SIGTERM, 2.0), (signal.SIGKILL, 2.0))


class CollectionError(TbdTraceError):
    """A profiler could not be run, or failed. Exit code 1."""


class NothingRecordedError(CollectionError):
    """A profiler ran, but recorded nothing that can be used. Exit code 1."""


def not_installed(tool: Finding) -> CollectionError:
    """Return the error that says that a profiler is missing and how to get it."""
    return CollectionError(f"{tool.check} is {tool.found}: {tool.advice}")


def on_path(name: str, look: Callable[[], Finding]) -> str:
    """Return the path of a profiler on PATH.

    Args:
        name: the program.
        look: looks for it, and tells how to get it.

    Raises:
        CollectionError: it is not there.
    """
    path = shutil.which(name)
    if path is None:
        raise not_installed(look())
    return path


@dataclass(frozen=True, slots=True)
class Completed:
    """How a run ended.

    Attributes:
        returncode: the program's exit code; negative when a signal ended it.
        seconds: time from start to end, in seconds.
        tail: the last lines of its output, at most 40, without blank ones and progress bars.
        timed_out: whether it was stopped because its time was up. Profilers often write their
            report all the same.
    """

    returncode: int
    seconds: float
    tail: tuple[str, ...]
    timed_out: bool = False

    def require_success(self, what: str) -> None:
        """Make sure that the program ended by itself and well.

        Args:
            what: the run, as the beginning of a sentence.

        Raises:
            CollectionError: it did not; the message passes on what the program said.
        """
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
        """Return the end of the output in one line."""
        return "; ".join(self.tail[-_LAST_WORDS:]).strip() or "it said nothing"


def run(
    argv: Sequence[str],
    *,
    environment: Mapping[str, str],
    directory: Path,
    timeout_s: float,
    log: Path,
    on_line: Callable[[str], None] | None = None,
    grace_s: float = 20.0,
) -> Completed:
    """Run a program to its end, in a session of its own.

    When the time is up, or on Ctrl-C, the program and its children get SIGINT, upon which
    profilers write their report; then SIGTERM; then SIGKILL. Processes that have moved out of the
    program's session are ended as well. They are known by an environment variable that only this
    run has, so nothing else is touched.

    Args:
        argv: program and arguments.
        environment: variables added to those of this process.
        directory: working directory.
        timeout_s: seconds after which the program is stopped.
        log: file that gets the program's output, both streams as they come.
        on_line: called with each line of output that is not blank, soon after it was written.
        grace_s: seconds that the program has to end after SIGINT.

    Raises:
        CollectionError: the program, the directory or the log file cannot be used.
        KeyboardInterrupt: the user pressed Ctrl-C; nothing of the run is left.
    """
    marker = str(uuid.uuid4())
    started = time.monotonic()
    with _opened(log) as written, log.open("rb") as read:
        process = _start(argv, {**environment, MARKER: marker}, directory, written)
        output = _Output(read, on_line)
        try:
            timed_out = not _ends_within(process, timeout_s, output)
            if timed_out:
                _stop(process, grace_s, output)
        except BaseException:
            _stop(process, grace_s, output)
            raise
        finally:
            _kill(process)
            _end_left_overs(marker)
        seconds = time.monotonic() - started
        output.forward(to_the_end=True)
    return Completed(process.returncode, seconds, tuple(output.tail), timed_out)


def left_overs(marker: str) -> list[int]:
    """Return the process ids whose environment holds the marker of a run."""
    wanted = f"{MARKER}={marker}".encode()
    found = []
    for entry in _PROC.glob("[0-9]*"):
        # Gone meanwhile, or of another user and so none of ours.
        with contextlib.suppress(OSError):
            if wanted in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found


class _Output:
    """Follows a log file while it grows."""

    def __init__(self, file: BinaryIO, on_line: Callable[[str], None] | None) -> None:
        self._file = file
        self._on_line = on_line
        self._rest = b""
        self.tail: deque[str] = deque(maxlen=_TAIL_LINES)

    def forward(self, *, to_the_end: bool = False) -> None:
        """Pass on the lines written since the last call; with ``to_the_end`` an unended one too."""
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


def _opened(log: Path) -> BinaryIO:
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
            start_new_session=True,
        )
    except OSError as error:
        raise CollectionError(
            f"{argv[0]}: cannot be run ({error.strerror}); install it or put it on PATH"
        ) from error


def _ends_within(process: subprocess.Popen[bytes], seconds: float, output: _Output) -> bool:
    """Wait for the end of a process while passing on its output; tell whether it came in time."""
    deadline = time.monotonic() + seconds
    while process.poll() is None:
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            return False
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(min(_POLL_S, remaining))
        output.forward()
    return True


def _stop(process: subprocess.Popen[bytes], grace_s: float, output: _Output) -> None:
    """Ask the process and its children to end, ever more firmly."""
    for number, patience in ((signal.SIGINT, grace_s), (signal.SIGTERM, _TERMINATE_S)):
        _signal_group(process, number)
        if _ends_within(process, patience, output):
            return
    _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    _signal_group(process, signal.SIGKILL)
    process.wait()


def _signal_group(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    # Once the process was waited for, its id may be another's.
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)


def _end_left_overs(marker: str) -> None:
    for number, patience in _LEFT_OVER_STEPS:
        deadline = time.monotonic() + patience
        while found := left_overs(marker):
            if number is not None:
                _signal_all(found, number)
            if time.monotonic() > deadline:
                break
            time.sleep(0.1)
        else:
            return


def _signal_all(process_ids: Sequence[int], number: signal.Signals) -> None:
    for process_id in process_ids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process_id, number)
