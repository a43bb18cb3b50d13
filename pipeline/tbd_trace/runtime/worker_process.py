"""Other processes that work for this one, each on one thing at a time."""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, ParamSpec, TypeVar

from tbd_trace.runtime.settings_env import WITHOUT_BLAS_THREADS

P = ParamSpec("P")
T = TypeVar("T")

# Not multiprocessing: it runs the caller's script again in each process, and with spawned workers
# of a ProcessPoolExecutor ingest of 440 MB takes 3 to 13 % longer (docs/performance.md).
_PROGRAM = (
    f"import sys; sys.path[:] = {{path!r}}; from {__name__} import serve; "
    "serve(sys.stdin.buffer, sys.stdout.buffer)"
)
_STANDARD = range(3)  # input, output and errors
_OF_THIS_PROCESS = Path("/proc/self")  # Linux has it


class HelperFailed(Exception):
    """The process cannot be started, has ended, or could not do what it was asked."""


class Helper:
    """A process of its own that calls functions for this one.

    It is a copy of this one, with all that was imported, where that is safe and is known to be:
    on Linux, as long as there is one thread. Otherwise it is a new Python, which takes 0.2 s.

    Nothing is said about why it fails: the caller then does by itself what it asked for, and meets
    the reason.

    Raises:
        HelperFailed: it cannot be started.
    """

    def __init__(self) -> None:
        try:
            self._process = _Copy() if _is_one_thread() else _new_python()
        except OSError as error:
            raise HelperFailed(str(error)) from error

    def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return what a function returns there.

        Args:
            function: a function of a module, or something else that can be pickled.
            args: what it is given; it and the result can be pickled.
            kwargs: likewise.

        Raises:
            HelperFailed: it raised an exception, or the process has ended.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            pickle.dump((function, args, kwargs), self._process.stdin)
            self._process.stdin.flush()
            result: T = pickle.load(self._process.stdout)
        except (OSError, EOFError, ValueError, pickle.PickleError) as error:
            raise HelperFailed(str(error)) from error
        return result

    def close(self) -> None:
        """End the process, whatever it is at."""
        self._process.kill()
        self._process.communicate()


def _new_python() -> subprocess.Popen[bytes]:
    """Start a Python that serves; errors as of :class:`Helper`."""
    # Where Python is part of another program, that would be started again.
    if not sys.executable or getattr(sys, "frozen", False):
        raise HelperFailed("there is no Python to start")
    return subprocess.Popen(
        [sys.executable, "-c", _PROGRAM.format(path=sys.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | WITHOUT_BLAS_THREADS,
        start_new_session=True,  # Ctrl-C is for the caller
    )


def _is_one_thread() -> bool:
    """Tell whether this process surely has one thread: no copy has what others were at."""
    try:
        return len(list((_OF_THIS_PROCESS / "task").iterdir())) == 1
    except OSError:
        return False


class _Copy:
    """A copy of this process, with what of ``subprocess.Popen`` is wanted of it."""

    def __init__(self) -> None:
        questions, ask = os.pipe()
        answer, answers = os.pipe()
        self.stdin: BinaryIO = os.fdopen(ask, "wb")
        self.stdout: BinaryIO = os.fdopen(answer, "rb")
        self.returncode: int | None = None
        try:
            self.pid = os.fork()
            if self.pid == 0:
                _serve_and_end(questions, answers)
        except OSError:
            self._close()
            raise
        finally:
            os.close(questions)
            os.close(answers)

    def kill(self) -> None:
        if self.returncode is None:
            os.kill(self.pid, signal.SIGKILL)

    def communicate(self) -> None:
        self._close()
        self.wait()

    def wait(self) -> int:
        if self.returncode is None:
            self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.returncode

    def _close(self) -> None:
        self.stdout.close()
        with contextlib.suppress(OSError):  # what it has not read any more
            self.stdin.close()


def _serve_and_end(questions: int, answers: int) -> NoReturn:
    """Be a helper, in a process that has just been copied; the caller's is none of its business."""
    status = 1
    try:
        gc.freeze()
        os.setsid()  # Ctrl-C is for the caller
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in _STANDARD:
            os.dup2(nothing, stream)
        for opened in [int(entry.name) for entry in (_OF_THIS_PROCESS / "fd").iterdir()]:
            if opened not in (*_STANDARD, questions, answers):
                with contextlib.suppress(OSError):  # that of the directory is closed already
                    os.close(opened)
        serve(os.fdopen(questions, "rb"), os.fdopen(answers, "wb"))
        status = 0
    finally:
        os._exit(status)  # nothing of the caller's is to be done at exit


def cpus() -> int:
    """Return how many CPUs this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def serve(questions: BinaryIO, answers: BinaryIO) -> None:
    """Call what is asked for until questions end: what a :class:`Helper` runs."""
    while True:
        try:
            function, args, kwargs = pickle.load(questions)
        except EOFError:
            return
        result: Any = function(*args, **kwargs)
        pickle.dump(result, answers)
        answers.flush()
