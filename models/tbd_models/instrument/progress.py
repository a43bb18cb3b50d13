"""Report the state of training to ``tbd-trace collect``; time iterations without the profiler.

The file of a request holds a JSON object, whose ``state`` is one of:

``training``
    Iterations run. Those of the window are recorded.
``recorded``
    The window is over. If a profiler runs outside the program, collect stops it and then makes the
    file ``stopped``.
``done``
    Iterations without a profiler have been timed. Nothing more is needed.
"""

from __future__ import annotations

import atexit
import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tbd_models.instrument.first_process import is_recorded
from tbd_models.instrument.marks import PROGRESS_VARIABLE
from tbd_models.json_file import write_json

WARMUP = 5
_WRITE_EVERY_S = 0.5  # the number of iterations, for a program that is killed
_LONGEST_BARE_S = 10.0

before_done: list[Callable[[], None]] = []
"""Functions to call before collect may stop the program."""


def warmup_of_command(asked: int | None) -> int:
    """Return the iterations before the window; the first one is never recorded."""
    return WARMUP if asked is None else max(1, asked)


@dataclass(frozen=True, slots=True)
class ProgressRequest:
    """What ``tbd-trace collect`` waits for."""

    file: Path
    iterations: int  # of the window
    warmup: int  # iterations before it
    bare: int  # iterations to time without the profiler, 0 for none
    in_program: bool  # True if the profiler runs inside the program and records the window alone
    stopped: Path  # exists as soon as a profiler outside the program has stopped

    def variables(self) -> dict[str, str]:
        """Return the environment variable that hands the request to the program."""
        return {PROGRESS_VARIABLE: json.dumps(asdict(self), default=str)}


def requested() -> ProgressRequest | None:
    """Return the request of the environment, None without one or in another process."""
    text = os.environ.get(PROGRESS_VARIABLE)
    if not text:
        return None
    fields = json.loads(text)
    paths = {name: Path(fields[name]) for name in ("file", "stopped")}
    request = ProgressRequest(**(fields | paths))
    return request if is_recorded(request.file) else None


class Progress:
    """Count and time the iterations of a training loop; without a request, do nothing.

    Args:
        request: what collect waits for.
        first: number of the first marked iteration.
        synchronize: waits for the device, so that times include its work; None without one.
    """

    def __init__(
        self,
        request: ProgressRequest | None,
        first: int = 0,
        synchronize: Callable[[], None] | None = None,
    ) -> None:
        self._request = request
        self._synchronize = synchronize or (lambda: None)
        self._first_marked = first
        self._number = first
        self._ended = first
        self._state = "training"
        self._started_ns = 0
        self._profiled_ns: list[int] = []
        self._bare_ns: list[int] | None = None  # None before its first iteration
        self._written = 0.0
        self._is_interrupted = False
        if request is not None:
            self._first = max(first, request.warmup)
            self._end = self._first + request.iterations
            self._write()
            atexit.register(self._write, has_ended=True)

    @property
    def window(self) -> int:
        """Number of the first iteration of the window; 0 without a request."""
        return 0 if self._request is None else self._first

    @property
    def is_done(self) -> bool:
        """True once nothing more is needed of the program; False without a request."""
        return self._state == "done"

    def iteration_begins(self, number: int) -> None:
        """Note the start of an iteration; the time since the end of the last one does not count."""
        if self._request is None or self._state == "done":
            return
        self._number = number
        if self._state == "recorded" and self._bare_ns is None and self._profiler_has_stopped():
            self._synchronize()
            self._bare_ns = []
        self._started_ns = time.perf_counter_ns()

    def iteration_ends(self) -> None:
        """Note the end of the iteration; call it first of all at that end."""
        if self._request is None or self._state == "done" or not self._started_ns:
            return
        is_last = self._is_last()
        if is_last:
            self._synchronize()
        elapsed = time.perf_counter_ns() - self._started_ns
        self._ended += 1
        if self._bare_ns is not None:
            self._bare_ns.append(elapsed)
        elif self._is_in_window():
            self._profiled_ns.append(elapsed)
        if is_last and self._state == "recorded":
            self._change_to("done")
        elif time.monotonic() - self._written > _WRITE_EVERY_S:
            self._write()

    def ends_window(self, number: int) -> bool:
        """Return True once, before the first iteration after the window.

        Everything of the window is recorded and written by then.
        """
        if self._request is None or number != self._end:
            return False
        times_more = self._request.bare and not self._is_interrupted
        self._change_to("recorded" if times_more else "done")
        return True

    def postpone(self, first: int) -> None:
        """Let the window begin with a later iteration."""
        if self._request is not None:
            self._first, self._end = first, first + self._request.iterations

    def interrupt(self) -> None:
        """Let the window end before the current iteration, and time none without the profiler."""
        if self._request is not None:
            self._end = self._number + 1
            self._is_interrupted = True

    def _is_in_window(self) -> bool:
        has_begun = self._state == "training" and self._number >= self._first
        return has_begun and not self._is_interrupted

    def _is_last(self) -> bool:
        # The last one of the window, or without the profiler.
        assert self._request is not None
        if self._bare_ns is None:
            return self._number == self._end - 1
        spent_s = (sum(self._bare_ns) + time.perf_counter_ns() - self._started_ns) / 1e9
        return len(self._bare_ns) + 1 >= self._request.bare or spent_s > _LONGEST_BARE_S

    def _profiler_has_stopped(self) -> bool:
        assert self._request is not None
        # Writing a trace empties caches: one more iteration fills them.
        is_filled = self._number > self._end
        return is_filled and (self._request.in_program or self._request.stopped.exists())

    def _change_to(self, state: str) -> None:
        if state == "done":
            for function in before_done:
                function()
        self._state = state
        self._write()

    def _write(self, *, has_ended: bool = False) -> None:
        assert self._request is not None
        self._written = time.monotonic()
        document: dict[str, Any] = {
            "state": self._state,
            "has_ended": has_ended,  # the numbers are those at the end of the program
            "steps": self._ended,
            "first_marked": self._first_marked,
            "warmup": self._first,
            "iterations": len(self._profiled_ns),
            "profiled": _timing(self._profiled_ns),
            "unprofiled": _timing(self._bare_ns or []),
        }
        # A full disk must not stop the training; at its end the directory may have another name.
        with suppress(OSError):
            write_json(self._request.file, document)


def _timing(periods_ns: list[int]) -> dict[str, Any] | None:
    if not periods_ns:
        return None
    return {
        "iterations": len(periods_ns),
        "seconds": sum(periods_ns) / 1e9,
        "iteration_ns": periods_ns,
    }
