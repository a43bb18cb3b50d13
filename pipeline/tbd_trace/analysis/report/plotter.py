"""Plots drawn by a process of their own, while the caller asks the next question."""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from types import TracebackType

from tbd_trace.analysis.report.page import Note, Plot
from tbd_trace.analysis.report.report_query import Answer
from tbd_trace.runtime import worker_process
from tbd_trace.runtime.worker_process import Helper, HelperFailed

Draw = Callable[[Answer, Mapping[str, str], str], Callable[[], Plot | Note]]
"""Takes the arguments of ``drawing.plot_block`` and returns a function that waits for the plot."""


def draw_here(answer: Answer, trace_names: Mapping[str, str], caption: str) -> Plot | Note:
    """Return the plot of an answer, or why it is not drawn; see ``plot_block``."""
    from tbd_trace.analysis.report.drawing import plot_block  # noqa: PLC0415 - imports matplotlib

    return plot_block(answer, trace_names, caption)


def draw_later(
    answer: Answer, trace_names: Mapping[str, str], caption: str
) -> Callable[[], Plot | Note]:
    """Return what draws the plot of an answer in this process when it is called."""
    return partial(draw_here, answer, trace_names, caption)


class Plotter:
    """Draws plots in a process of its own, one after the other.

    It is a context manager. Without a second CPU, and where the process cannot be started or fails,
    plots are drawn in this process.
    """

    def __init__(self) -> None:
        self._helper: Helper | None = None
        self._talk = ThreadPoolExecutor(1)

    def __enter__(self) -> Plotter:
        if worker_process.cpus() > 1:
            try:
                self._helper = Helper()
            except HelperFailed:
                return self
            self._talk.submit(self._helper.call, _prepare)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        helper, self._helper = self._helper, None
        self._talk.shutdown(wait=False, cancel_futures=True)
        if helper is not None:
            helper.close()

    def draw(
        self, answer: Answer, trace_names: Mapping[str, str], caption: str
    ) -> Callable[[], Plot | Note]:
        """Begin to draw the plot of an answer; what is returned waits for it."""
        if self._helper is None:
            return draw_later(answer, trace_names, caption)
        return self._talk.submit(self._drawn, self._helper, answer, trace_names, caption).result

    def _drawn(
        self, helper: Helper, answer: Answer, trace_names: Mapping[str, str], caption: str
    ) -> Plot | Note:
        try:
            drawn = helper.call(_draw_for_another, answer, trace_names, caption)
        except HelperFailed:
            if self._helper is None:  # nobody waits for it any more
                raise
            return draw_here(answer, trace_names, caption)
        return replace(drawn, frame=answer.frame) if isinstance(drawn, Plot) else drawn


def _prepare() -> None:
    """Get ready to draw, in the other process."""
    import tbd_trace.analysis.report.drawing  # noqa: F401, PLC0415 - imports matplotlib

    gc.disable()  # the process ends before garbage is worth looking for


def _draw_for_another(answer: Answer, trace_names: Mapping[str, str], caption: str) -> Plot | Note:
    """Return the plot of an answer without the answer, which the caller has."""
    drawn = draw_here(answer, trace_names, caption)
    return replace(drawn, frame=None) if isinstance(drawn, Plot) else drawn
