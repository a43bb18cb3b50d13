"""Run functions in another process, one at a time."""

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
# of a ProcessPoolExecutor ingest of 440 MB takes 3 to 13 % longer; see the figures in
# docs/explanation/performance.md.
_PROGRAM = (
    f"import sys; sys.path[:] = {{path!r}}; from {__name__} import serve; "
    "serve(sys.stdin.buffer, sys.stdout.buffer)"
)
_STANDARD = range(3)  # input, output and errors
_PROC_SELF = Path("/proc/self")  # Linux has it


class WorkerFailed(Exception):
    """The process could not be started, has ended, or raised an exception."""


class Worker:
    """A process that runs functions for this one.

    On Linux, with a single thread, it is a fork, which has everything imported. Otherwise it is
    a new Python, which takes 0.2 s to start. A failure raises WorkerFailed without its cause;
    the caller does the work itself, which surfaces the original error.
    """

    def __init__(self) -> None:
        try:
            self._process = _Copy() if _is_single_threaded() else _new_python()
        except OSError as error:
            raise WorkerFailed(str(error)) from error

    def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a function in the process and return its result.

        Args:
            args: its arguments; they and the result must be picklable.

        Raises:
            WorkerFailed: the function raised an exception, or the process has ended.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            pickle.dump((function, args, kwargs), self._process.stdin)
            self._process.stdin.flush()
            result: T = pickle.load(self._process.stdout)
        except (OSError, EOFError, ValueError, pickle.PickleError) as error:
            raise WorkerFailed(str(error)) from error
        return result

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


def _new_python() -> subprocess.Popen[bytes]:
    # Where Python is part of another program, that would be started again.
    if not sys.executable or getattr(sys, "frozen", False):
        raise WorkerFailed("there is no Python to start")
    return subprocess.Popen(
        [sys.executable, "-c", _PROGRAM.format(path=sys.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | WITHOUT_BLAS_THREADS,
        start_new_session=True,  # Ctrl-C is for the caller
    )


def _is_single_threaded() -> bool:
    # False if unknown, too: forking is unsafe with several threads.
    try:
        return len(list((_PROC_SELF / "task").iterdir())) == 1
    except OSError:
        return False


class _Copy:
    # The part of ``subprocess.Popen`` that is needed of a fork.

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
        with contextlib.suppress(OSError):  # the unread rest
            self.stdin.close()


def _serve_and_end(questions: int, answers: int) -> NoReturn:
    # Runs in the forked child: serves requests and releases inherited parent state.
    status = 1
    try:
        gc.freeze()
        os.setsid()  # Ctrl-C is for the caller
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in _STANDARD:
            os.dup2(nothing, stream)
        for opened in [int(entry.name) for entry in (_PROC_SELF / "fd").iterdir()]:
            if opened not in (*_STANDARD, questions, answers):
                with contextlib.suppress(OSError):  # that of the directory is closed already
                    os.close(opened)
        serve(os.fdopen(questions, "rb"), os.fdopen(answers, "wb"))
        status = 0
    finally:
        os._exit(status)  # nothing of the caller's is to be done at exit


def cpus() -> int:
    """Return the number of CPUs that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def serve(questions: BinaryIO, answers: BinaryIO) -> None:
    """Run requested functions until the input ends; the main loop of a :class:`Worker`."""
    while True:
        try:
            function, args, kwargs = pickle.load(questions)
        except EOFError:
            return
        result: Any = function(*args, **kwargs)
        pickle.dump(result, answers)
        answers.flush()
