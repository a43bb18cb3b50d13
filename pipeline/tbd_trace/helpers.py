"""Other processes that work for this one, each on one thing at a time."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from tbd_trace.limits import WITHOUT_BLAS_THREADS

P = ParamSpec("P")
T = TypeVar("T")

# Not multiprocessing: it would run the caller's script again.
_PROGRAM = f"import sys; sys.path[:] = {{path!r}}; from {__name__} import serve; serve()"


class HelperFailed(Exception):
    """The process cannot be started, has ended, or could not do what it was asked."""


class Helper:
    """A process of its own that calls functions for this one.

    Nothing is said about why it fails: the caller then does by itself what it asked for, and meets
    the reason.

    Raises:
        HelperFailed: it cannot be started.
    """

    def __init__(self) -> None:
        # Where Python is part of another program, that would be started again.
        if not sys.executable or getattr(sys, "frozen", False):
            raise HelperFailed("there is no Python to start")
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM.format(path=sys.path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=os.environ | WITHOUT_BLAS_THREADS,
                start_new_session=True,  # Ctrl-C is for the caller
            )
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


def cpus() -> int:
    """Return how many CPUs this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def serve() -> None:
    """Call what standard input asks for until it ends: what a :class:`Helper` runs."""
    questions, answers = sys.stdin.buffer, sys.stdout.buffer
    while True:
        try:
            function, args, kwargs = pickle.load(questions)
        except EOFError:
            return
        result: Any = function(*args, **kwargs)
        pickle.dump(result, answers)
        answers.flush()
