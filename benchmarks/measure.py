"""Measure wall time, CPU time and peak memory of a command with all its processes."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_INTERVAL_S = 0.05  # sampling interval of memory
_PAGE = os.sysconf("SC_PAGE_SIZE")
# Installed programs have compiled modules. A checkout has them after its first run.
_COMPILES = {"PYTHONDONTWRITEBYTECODE": ""}


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of one run."""

    seconds: float  # wall time
    cpu_seconds: float  # user and system time of all processes
    # Peak resident memory: the private memory of all processes plus the largest shared memory
    # (files included) of one of them.
    peak_bytes: int
    returncode: int  # negative after a signal
    timed_out: bool  # killed at the time limit, so the times are lower bounds
    message: str  # last line of standard error

    @property
    def usable(self) -> bool:
        """True if the command succeeded within the time limit."""
        return self.returncode == 0 and not self.timed_out


def measure(
    command: Sequence[str], environment: Mapping[str, str], log: Path, limit_s: float
) -> Cost:
    """Run a command in a new session and return its cost.

    ``environment`` is added to that of this process; ``log`` receives standard error, standard
    output is discarded; after ``limit_s`` seconds the command is killed.
    """
    with log.open("wb") as errors:
        begin = time.perf_counter()
        process = subprocess.Popen(
            command,
            env={**os.environ, **_COMPILES, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,
        )
        watch = _Watch(process.pid, begin + limit_s)
        watch.start()
        try:
            _, status, usage = os.wait4(process.pid, 0)
        except BaseException:  # Ctrl-C does not reach the new session
            os.killpg(process.pid, signal.SIGKILL)
            raise
        seconds = time.perf_counter() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        watch.finish()
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return Cost(
        seconds=seconds,
        cpu_seconds=usage.ru_utime + usage.ru_stime,
        # A run shorter than the sampling interval has no sample.
        peak_bytes=watch.peak_bytes or usage.ru_maxrss * 1024,
        returncode=process.returncode,
        timed_out=watch.timed_out,
        message=lines[-1] if lines else "",
    )


class _Watch(threading.Thread):
    # Samples the memory of a process tree and kills it at the deadline.

    def __init__(self, pid: int, deadline: float) -> None:
        super().__init__(daemon=True)
        self.peak_bytes = 0
        self.timed_out = False
        self._pid = pid
        self._deadline = deadline
        self._finished = threading.Event()

    def run(self) -> None:
        """Sample until finish() is called."""
        while not self._finished.wait(_INTERVAL_S):
            self.peak_bytes = max(self.peak_bytes, _memory(self._pid))
            if time.perf_counter() > self._deadline and not self.timed_out:
                self.timed_out = True
                os.killpg(self._pid, signal.SIGKILL)

    def finish(self) -> None:
        """Stop sampling."""
        self._finished.set()
        self.join()


def _tree(pid: int) -> Iterator[int]:
    yield pid
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 (paths are slow to make)
            for child in _words(f"/proc/{pid}/task/{thread}/children"):
                yield from _tree(int(child))
    except OSError:  # the process has ended
        return


def _memory(pid: int) -> int:
    # In bytes, over the process and its descendants.
    own = shared = 0
    for process in _tree(pid):
        words = _words(f"/proc/{process}/statm") or ["0", "0", "0"]
        # The exact share of each page (smaps) is so slow to read that it would distort the times.
        own += int(words[1]) - int(words[2])
        shared = max(shared, int(words[2]))
    return (own + shared) * _PAGE


def _words(path: str) -> list[str]:
    # Empty if the process has ended.
    try:
        with open(path, encoding="ascii") as file:  # noqa: PTH123
            return file.read().split()
    except OSError:
        return []
