"""Draw plots in a separate process while the caller runs the next query."""

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
from tbd_trace.runtime.worker_process import Worker, WorkerFailed

Draw = Callable[[Answer, Mapping[str, str], str], Callable[[], Plot | Note]]
"""Takes the arguments of :func:`drawing.plot_block`; returns a function that waits for the plot."""


def draw_here(answer: Answer, trace_names: Mapping[str, str], caption: str) -> Plot | Note:
    """Draw a plot in this process, as :func:`drawing.plot_block`."""
    from tbd_trace.analysis.report.drawing import plot_block  # noqa: PLC0415 - imports matplotlib

    return plot_block(answer, trace_names, caption)


def draw_later(
    answer: Answer, trace_names: Mapping[str, str], caption: str
) -> Callable[[], Plot | Note]:
    """Return a function that draws a plot in this process when it is called."""
    return partial(draw_here, answer, trace_names, caption)


class Plotter:
    """Context manager that draws plots in a separate process, one after the other.

    Plots are drawn in this process if there is only one CPU, or if the other process cannot be
    started or fails.
    """

    def __init__(self) -> None:
        self._worker: Worker | None = None
        self._thread = ThreadPoolExecutor(1)

    def __enter__(self) -> Plotter:
        if worker_process.cpus() > 1:
            try:
                self._worker = Worker()
            except WorkerFailed:
                return self
            # The slow import of matplotlib runs while the first queries do.
            self._thread.submit(self._worker.call, _prepare)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        worker, self._worker = self._worker, None
        self._thread.shutdown(wait=False, cancel_futures=True)
        if worker is not None:
            worker.close()

    def draw(
        self, answer: Answer, trace_names: Mapping[str, str], caption: str
    ) -> Callable[[], Plot | Note]:
        """Start drawing the plot of an answer; return a function that waits for it."""
        if self._worker is None:
            return draw_later(answer, trace_names, caption)
        return self._thread.submit(self._drawn, self._worker, answer, trace_names, caption).result

    def _drawn(
        self, worker: Worker, answer: Answer, trace_names: Mapping[str, str], caption: str
    ) -> Plot | Note:
        try:
            drawn = worker.call(_draw_for_another, answer, trace_names, caption)
        except WorkerFailed:
            if self._worker is None:  # after __exit__, so the result is not needed
                raise
            return draw_here(answer, trace_names, caption)
        return replace(drawn, frame=answer.frame) if isinstance(drawn, Plot) else drawn


def _prepare() -> None:
    import tbd_trace.analysis.report.drawing  # noqa: F401, PLC0415 - imports matplotlib

    gc.disable()  # the process is short-lived


def _draw_for_another(answer: Answer, trace_names: Mapping[str, str], caption: str) -> Plot | Note:
    # Without the rows, which the caller has: they would be pickled for the way back.
    drawn = draw_here(answer, trace_names, caption)
    return replace(drawn, frame=None) if isinstance(drawn, Plot) else drawn
