"""Run calls one after another in this process, or in several processes."""

from __future__ import annotations

import contextlib
import os
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from queue import SimpleQueue
from typing import Any, Self

from tbd_trace.runtime.settings_env import THREADS
from tbd_trace.runtime.worker_process import Worker, WorkerFailed, cpus

Call = Callable[[], Any]
"""Something to run anywhere: it can be pickled, and so can its result."""

_ATTEMPTS = 2
_AHEAD = 2  # calls per process that are given out before the first result is taken


@dataclass(frozen=True, slots=True)
class Lost:
    """The result of a call whose process ended, each time it was tried."""

    reason: str


class Executor(ABC):
    """Runs calls; a context manager, which stops its processes at the end."""

    @abstractmethod
    def run(self, calls: Sequence[Call]) -> Generator[Any]:
        """Yield the result of each call in order, or :class:`Lost`.

        Few results wait in memory: later calls start when earlier results have been taken.

        Raises:
            Exception: the one that a call raised.
        """

    def close(self) -> None:  # noqa: B027 - this process needs nothing
        """Stop the processes."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ThisProcess(Executor):
    """Runs one call after another; DuckDB uses all threads for each."""

    def run(self, calls: Sequence[Call]) -> Generator[Any]:
        for call in calls:
            yield call()


class Processes(Executor):
    """Runs calls in processes of this machine, which share its cores.

    A call whose process ends is tried once more in a new one.
    """

    def __init__(self, number: int) -> None:
        self._number = number
        self._threads = max(cpus() // number, 1)
        self._workers: list[Worker] = []
        # Each process is started for its first call; until then None has its place.
        self._idle: SimpleQueue[Worker | None] = SimpleQueue()
        for _ in range(number):
            self._idle.put(None)

    def _start(self, number: int) -> None:
        # Before the first talk, which takes a thread: until then they can be copies.
        with contextlib.suppress(WorkerFailed):
            while len(self._workers) < number:
                self._workers.append(Worker())
                self._idle.get()
                self._idle.put(self._workers[-1])

    def run(self, calls: Sequence[Call]) -> Generator[Any]:
        rest = iter(calls)
        self._start(min(self._number, len(calls)))
        talks = ThreadPoolExecutor(self._number)
        coming: deque[Future[Any]] = deque()
        stopped = threading.Event()
        try:
            for call in islice(rest, self._number * _AHEAD):
                coming.append(talks.submit(self._result, call, stopped))
            while coming:
                result = coming.popleft().result()
                for call in islice(rest, 1):
                    coming.append(talks.submit(self._result, call, stopped))
                yield unwrapped(result)
        except BaseException:  # Ctrl-C, an error, or an answer that is wanted no further
            stopped.set()
            self._kill()
            raise
        finally:
            talks.shutdown(cancel_futures=True)
            if stopped.is_set():
                self.close()

    def _result(self, call: Call, stopped: threading.Event) -> Any:
        reason = ""
        for _ in range(_ATTEMPTS):
            if stopped.is_set():
                break
            worker = self._idle.get()
            try:
                if worker is None:
                    worker = Worker()
                    self._workers.append(worker)
                result = worker.call(_limited, self._threads, call)
            except WorkerFailed as error:
                worker, reason = None, str(error)
            else:
                return result
            finally:
                self._idle.put(worker)
        return Lost(reason)

    def _kill(self) -> None:
        while self._workers:
            self._workers.pop().close()

    def close(self) -> None:
        self._kill()
        for _ in range(self._number):
            self._idle.get()
            self._idle.put(None)


def wrapped(call: Call) -> Any:
    """Run a call elsewhere; return an exception as a result, because the process must go on."""
    try:
        return call()
    except Exception as error:
        return _Raised(error)


def unwrapped(result: Any) -> Any:
    """Return the result of :func:`wrapped`, or raise its exception."""
    if isinstance(result, _Raised):
        raise result.error
    return result


@dataclass(frozen=True, slots=True)
class _Raised:
    error: Exception


def _limited(threads: int, call: Call) -> Any:
    os.environ.setdefault(THREADS, str(threads))
    return wrapped(call)
