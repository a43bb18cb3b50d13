"""Drawing plots beside the queries: in one thread, for matplotlib knows no more."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from importlib import import_module
from types import TracebackType

from tbd_trace.report.asking import Answer
from tbd_trace.report.page import Note, Plot

_DRAWING = "tbd_trace.report.drawing"  # matplotlib takes a while to import: that is its first work


class Artist:
    """Draws the plots of answers while the next queries are answered.

    It is a context manager; plots are drawn inside it.

    Args:
        trace_names: name per trace id.
    """

    def __init__(self, trace_names: Mapping[str, str]) -> None:
        self._trace_names = trace_names
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="plots")

    def __enter__(self) -> Artist:
        self._thread.submit(import_module, _DRAWING)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._thread.shutdown(cancel_futures=True)

    def draw(self, answer: Answer, caption: str = "") -> Future[Plot | Note]:
        """Return what will be the plot of an answer, or why it is not drawn.

        Args:
            answer: the answer of a query that has a plot.
            caption: title of the plot; that of the query if empty.
        """
        return self._thread.submit(_drawn, answer, self._trace_names, caption)


def _drawn(answer: Answer, trace_names: Mapping[str, str], caption: str) -> Plot | Note:
    from tbd_trace.report.drawing import plot_block  # noqa: PLC0415 - imports matplotlib

    return plot_block(answer, trace_names, caption)
