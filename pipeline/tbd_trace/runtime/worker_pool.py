"""Processes that share the work on a large file: this one and helpers."""

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
from tbd_trace.runtime.worker_process import Helper, HelperFailed, cpus

K = TypeVar("K")
Work = Callable[[], Any]
"""Something for whichever process: it can be pickled, and so can its result."""

_MOST_PROCESSES = 4  # each takes some 200 MB


def processes() -> int:
    """Return how many processes may work at an ingest.

    It is one where the user bounds the memory, which DuckDB takes for the bound of one process.
    """
    threads = os.environ.get(THREADS, "")
    allowed = int(threads) if threads.isdecimal() else _MOST_PROCESSES
    return 1 if MEMORY_LIMIT in os.environ else min(allowed, cpus(), _MOST_PROCESSES)


class Crew:
    """This process, and helpers once they are called. It is a context manager."""

    def __init__(self) -> None:
        self._helpers: list[tuple[Helper, ThreadPoolExecutor]] = []

    def call_helpers(self, first: Work | None = None) -> None:
        """Start helpers, if they have not been started, as many as there may be.

        Args:
            first: what each does first, while the caller goes on.
        """
        there = len(self._helpers)
        # All of them before the first talk, which takes a thread: until then they can be copies.
        with contextlib.suppress(HelperFailed):
            while len(self._helpers) < processes() - 1:
                self._helpers.append((Helper(), ThreadPoolExecutor(1)))
        if first is not None:
            for helper, talk in self._helpers[there:]:
                talk.submit(helper.call, first)

    def run(self, works: Mapping[K, Work]) -> dict[K, Any]:
        """Return the results of works, without those that failed."""
        waiting = deque(works)
        results: dict[K, Any] = {}

        def take(call: Callable[[Work], Any]) -> None:
            with contextlib.suppress(HelperFailed, IndexError):
                while True:
                    name = waiting.popleft()
                    with contextlib.suppress(duckdb.Error, InputError, OSError):
                        results[name] = call(works[name])

        try:
            talks = [talk.submit(take, helper.call) for helper, talk in self._helpers]
            take(_here)
            wait(talks)
        except BaseException:  # Ctrl-C, for one
            waiting.clear()
            raise
        return results

    def close(self) -> None:
        """End the helpers, whatever they are at."""
        while self._helpers:
            helper, talk = self._helpers.pop()
            helper.close()
            talk.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _here(work: Work) -> Any:
    return work()
