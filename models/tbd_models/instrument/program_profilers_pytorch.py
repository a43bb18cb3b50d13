"""Notice when a program profiles itself: two profilers of PyTorch at a time end it by SIGSEGV."""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable
from typing import Any
from weakref import WeakSet

import torch
from torch import profiler
from torch.autograd.profiler import profile, record_function


class ProgramProfilers:
    """Notice the profilers of PyTorch that begin and end, until ``remove``.

    ``torch.profiler.profile`` uses ``torch.autograd.profiler.profile``, too. One that a schedule
    has prepared counts as running, although PyTorch says that none is enabled.
    """

    def __init__(self, is_recording: Callable[[], bool], interrupt: Callable[[], None]) -> None:
        """Notice from now on.

        Args:
            is_recording: returns True while tbd-trace records.
            interrupt: ends that recording; called before another profiler begins.
        """
        self._is_recording = is_recording
        self._interrupt = interrupt
        self._running: WeakSet[Any] = WeakSet(
            one for one in gc.get_objects() if issubclass(type(one), profile) and _has_begun(one)
        )
        self._stepping: Any = None  # a profiler whose step has no range
        self._originals: tuple[Any, ...] = (
            profile._prepare_trace,
            profile.__exit__,
            profiler.profile.step,
        )
        notices: tuple[Any, ...] = (self._begins, self._ends, self._steps)
        _install(*map(self._noticed, self._originals, notices))

    def is_any_running(self) -> bool:
        """Return True if a profiler records, or is prepared to."""
        return bool(self._running) or torch._C._autograd._profiler_enabled()

    @staticmethod
    def end_open_ranges() -> None:
        """End all ranges, between two recordings.

        A range that begins in one recording and ends in the next one refers to freed memory, which
        ends the program. Between the two, ends are not recorded, and a second end has no effect.
        """
        for one in gc.get_objects():
            if issubclass(type(one), record_function) and getattr(one, "record", None) is not None:
                one.__exit__(None, None, None)

    def remove(self) -> None:
        """Restore the classes of the profilers."""
        _install(*self._originals)

    @staticmethod
    def _noticed(original: Any, notice: Callable[..., Any]) -> Any:
        @functools.wraps(original)
        def noticed(one: Any, *given: Any, **named: Any) -> Any:
            return notice(original, one, *given, **named)

        return noticed

    def _begins(self, prepare: Any, one: Any) -> None:
        if self._is_recording():
            self._interrupt()
            self.end_open_ranges()
            if self._stepping is not None:
                self._stepping.record_steps = True
        self._running.add(one)
        prepare(one)

    def _ends(self, leave: Any, one: Any, *error: Any, **named: Any) -> Any:
        self._running.discard(one)
        return leave(one, *error, **named)

    def _steps(self, step: Any, one: Any) -> None:
        # The ranges of steps of a schedule that waits, or is over, would be iterations beside those
        # of the marks, which they overlap.
        if not (self._is_recording() and one.record_steps):
            step(one)
            return
        self._stepping, one.record_steps = one, False
        try:
            step(one)
        finally:
            self._stepping, one.record_steps = None, True


def _has_begun(one: Any) -> bool:
    return bool(getattr(one, "entered", False)) and one.kineto_results is None


def _install(prepare: Any, leave: Any, step: Any) -> None:
    classes: tuple[Any, Any] = (profile, profiler.profile)
    inner, outer = classes
    inner._prepare_trace, inner.__exit__ = prepare, leave
    outer.step = step
