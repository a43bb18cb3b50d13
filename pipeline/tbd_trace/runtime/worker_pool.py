"""Share the work on a large file between this process and workers."""

from __future__ import annotations

import contextlib
import os
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, Self, TypeVar

import duckdb

from tbd_trace.errors import InputError
from tbd_trace.runtime.settings_env import MEMORY_LIMIT, THREADS
from tbd_trace.runtime.worker_process import Worker, WorkerFailed, cpus

K = TypeVar("K")
Work = Callable[[], Any]
"""Something for whichever process: it can be pickled, and so can its result."""

_MOST_PROCESSES = 4  # each takes some 200 MB


def processes() -> int:
    """Return the maximum number of processes of an ingest.

    It is 1 if the user limits the memory, because DuckDB applies the limit to each process.
    """
    threads = os.environ.get(THREADS, "")
    allowed = int(threads) if threads.isdecimal() else _MOST_PROCESSES
    return 1 if MEMORY_LIMIT in os.environ else min(allowed, cpus(), _MOST_PROCESSES)


class WorkerPool:
    """This process and its workers; a context manager."""

    def __init__(self) -> None:
        self._workers: list[tuple[Worker, ThreadPoolExecutor]] = []

    def start_workers(self, first: Work | None = None) -> None:
        """Start the maximum number of workers, once.

        Args:
            first: first call of each worker, made in the background.
        """
        there = len(self._workers)
        # All of them before the first talk, which takes a thread: until then they can be copies.
        with contextlib.suppress(WorkerFailed):
            while len(self._workers) < processes() - 1:
                self._workers.append((Worker(), ThreadPoolExecutor(1)))
        if first is not None:
            for worker, talk in self._workers[there:]:
                talk.submit(worker.call, first)

    def run(self, works: Mapping[K, Work]) -> dict[K, Any]:
        """Return the results of calls by name, without the failed ones."""
        waiting = deque(works)
        results: dict[K, Any] = {}

        def take(call: Callable[[Work], Any]) -> None:
            with contextlib.suppress(WorkerFailed, IndexError):
                while True:
                    name = waiting.popleft()
                    with contextlib.suppress(duckdb.Error, InputError, OSError):
                        results[name] = call(works[name])

        try:
            talks = [talk.submit(take, worker.call) for worker, talk in self._workers]
            take(_here)
            wait(talks)
        except BaseException:  # Ctrl-C, for one
            waiting.clear()
            raise
        return results

    def close(self) -> None:
        while self._workers:
            worker, talk = self._workers.pop()
            worker.close()
            talk.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _here(work: Work) -> Any:
    return work()
