"""What a command costs: wall and CPU time, and the memory of all its processes together."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_INTERVAL_S = 0.05
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Cost:
    """What one run took.

    Attributes:
        seconds: wall time.
        cpu_seconds: user and system time of all its processes.
        peak_bytes: most resident memory, looked at every 50 ms: what each process has for itself,
            and what the one with the largest share of it has in files and shared memory.
        returncode: exit status, negative after a signal.
        timed_out: it was ended at the time limit, so the times are lower bounds.
        message: last line that it printed to standard error.
    """

    seconds: float
    cpu_seconds: float
    peak_bytes: int
    returncode: int
    timed_out: bool
    message: str

    @property
    def usable(self) -> bool:
        """Whether the command did its work."""
        return self.returncode == 0 and not self.timed_out


def measure(
    command: Sequence[str], environment: Mapping[str, str], log: Path, limit_s: float
) -> Cost:
    """Run a command in a session of its own and return what it cost.

    Args:
        command: the program and its arguments.
        environment: variables on top of those of this process.
        log: file for what it prints to standard error; standard output is thrown away.
        limit_s: wall time after which it is ended, s.
    """
    with log.open("wb") as errors:
        begin = time.perf_counter()
        process = subprocess.Popen(
            command,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,
        )
        watch = _Watch(process.pid, begin + limit_s)
        watch.start()
        try:
            _, status, usage = os.wait4(process.pid, 0)
        except BaseException:  # Ctrl-C does not reach a session of its own
            os.killpg(process.pid, signal.SIGKILL)
            raise
        seconds = time.perf_counter() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        watch.finish()
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return Cost(
        seconds=seconds,
        cpu_seconds=usage.ru_utime + usage.ru_stime,
        # A run shorter than the interval was never looked at.
        peak_bytes=watch.peak_bytes or usage.ru_maxrss * 1024,
        returncode=process.returncode,
        timed_out=watch.timed_out,
        message=lines[-1] if lines else "",
    )


class _Watch(threading.Thread):
    """Looks at the memory of a process and its descendants, and ends them at a deadline."""

    def __init__(self, pid: int, deadline: float) -> None:
        super().__init__(daemon=True)
        self.peak_bytes = 0
        self.timed_out = False
        self._pid = pid
        self._deadline = deadline
        self._finished = threading.Event()

    def run(self) -> None:
        """Look until told to finish."""
        while not self._finished.wait(_INTERVAL_S):
            self.peak_bytes = max(self.peak_bytes, _memory(self._pid))
            if time.perf_counter() > self._deadline and not self.timed_out:
                self.timed_out = True
                os.killpg(self._pid, signal.SIGKILL)

    def finish(self) -> None:
        """Stop looking."""
        self._finished.set()
        self.join()


def _tree(pid: int) -> Iterator[int]:
    """Yield a process and its descendants."""
    yield pid
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 (paths are slow to make)
            for child in _words(f"/proc/{pid}/task/{thread}/children"):
                yield from _tree(int(child))
    except OSError:  # it ended meanwhile
        return


def _memory(pid: int) -> int:
    """Return the resident memory of a process and its descendants in bytes."""
    own = shared = 0
    for process in _tree(pid):
        words = _words(f"/proc/{process}/statm") or ["0", "0", "0"]
        # Asking for exact shares (smaps) would slow down what is measured.
        own += int(words[1]) - int(words[2])
        shared = max(shared, int(words[2]))
    return (own + shared) * _PAGE


def _words(path: str) -> list[str]:
    """Return the words of a file, none when its process has ended."""
    try:
        with open(path, encoding="ascii") as file:  # noqa: PTH123
            return file.read().split()
    except OSError:
        return []
