"""Plots drawn by a process of their own, while the caller asks the next question."""

from __future__ import annotations

import gc
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from types import TracebackType

from tbd_trace.report.asking import Answer
from tbd_trace.report.page import Note, Plot

Draw = Callable[[Answer, Mapping[str, str], str], Callable[[], Plot | Note]]
"""Takes what :func:`tbd_trace.report.drawing.plot_block` does; its result returns the plot."""

# Not multiprocessing: it would run the caller's script again.
_PROGRAM = "import sys; sys.path[:] = {path!r}; from {module} import serve; serve()"


def draw_here(answer: Answer, trace_names: Mapping[str, str], caption: str) -> Plot | Note:
    """Return the plot of an answer, or why it is not drawn; see ``plot_block``."""
    from tbd_trace.report.drawing import plot_block  # noqa: PLC0415 - imports matplotlib

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
        self._process: subprocess.Popen[bytes] | None = None
        self._talk = ThreadPoolExecutor(1)

    def __enter__(self) -> Plotter:
        if _cpus() > 1:
            self._process = _started()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        process, self._process = self._process, None
        self._talk.shutdown(wait=False, cancel_futures=True)
        if process is not None:
            process.kill()
            process.communicate()

    def draw(
        self, answer: Answer, trace_names: Mapping[str, str], caption: str
    ) -> Callable[[], Plot | Note]:
        """Begin to draw the plot of an answer; what is returned waits for it."""
        if self._process is None:
            return draw_later(answer, trace_names, caption)
        return self._talk.submit(self._drawn, self._process, answer, trace_names, caption).result

    def _drawn(
        self,
        process: subprocess.Popen[bytes],
        answer: Answer,
        trace_names: Mapping[str, str],
        caption: str,
    ) -> Plot | Note:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            pickle.dump((answer, trace_names, caption), process.stdin)
            process.stdin.flush()
            drawn: Plot | Note = pickle.load(process.stdout)
        except (OSError, EOFError, ValueError, pickle.PickleError):  # it failed, or never began
            if self._process is None:  # nobody waits for it any more
                raise
            return draw_here(answer, trace_names, caption)
        return replace(drawn, frame=answer.frame) if isinstance(drawn, Plot) else drawn


def _cpus() -> int:
    """Return how many CPUs this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _started() -> subprocess.Popen[bytes] | None:
    if not sys.executable:
        return None
    program = _PROGRAM.format(path=sys.path, module=__name__)
    try:
        return subprocess.Popen(
            [sys.executable, "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # what fails is drawn again by the caller, who reports it
            start_new_session=True,  # Ctrl-C is for the caller
        )
    except OSError:
        return None


def serve() -> None:
    """Draw what standard input asks for until it ends: what a :class:`Plotter` starts."""
    from tbd_trace.report.drawing import plot_block  # noqa: PLC0415 - imports matplotlib

    gc.disable()  # it ends before garbage is worth looking for
    questions, answers = sys.stdin.buffer, sys.stdout.buffer
    while True:
        try:
            asked = pickle.load(questions)
        except EOFError:
            return
        drawn = plot_block(*asked)
        pickle.dump(replace(drawn, frame=None) if isinstance(drawn, Plot) else drawn, answers)
        answers.flush()
