"""Emit iterations, phases and layers as NVTX ranges; see docs/reference/capture_directory.md."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

DOMAIN = "tbd_trace"
WINDOW = "measured window"
PHASES = ("data", "forward", "loss", "backward", "optimizer")
# Path of the layers.json that `tbd-trace collect` requests; none is written without it.
LAYERS_VARIABLE = "TBD_TRACE_LAYERS"
# Path of the memory.jsonl of `instrument(memory=True)`.
MEMORY_VARIABLE = "TBD_TRACE_MEMORY"
# What `tbd-trace collect --profiler torch` requests of `instrument()`, as JSON: the files to write
# (trace, report), the window (warmup, iterations) and whether to record allocations (memory).
TRACE_VARIABLE = "TBD_TRACE_TORCH"
# Set by `tbd-trace collect --ranks`: each rank has its own request, not the first one alone.
EVERY_RANK_VARIABLE = "TBD_TRACE_EVERY_RANK"
# What `tbd-trace collect` waits for in a program that does not end soon (instrument/progress.py).
PROGRESS_VARIABLE = "TBD_TRACE_PROGRESS"
# File for the report of automatic marks (tbd_models.auto).
REPORT_VARIABLE = "TBD_TRACE_AUTO"


def iteration_text(number: int, window: int) -> str:
    """Return the text of an iteration's range.

    Args:
        number: the iteration.
        window: the first one that is analysed. A profiler outside the program records those before
            it, too; queries do not take their text for an iteration.
    """
    return f"warm-up {number}" if number < window else f"iteration {number}"


class Marks(Protocol):
    """Receiver of ranges; ranges of a thread nest, and ``pop`` ends the innermost."""

    def push(self, text: str) -> None:
        """Begin a range on the calling thread."""

    def pop(self) -> None:
        """End the innermost range of the calling thread."""

    def start(self, text: str) -> Any:
        """Begin a range that any thread may end and return its handle."""

    def end(self, handle: Any) -> None:
        """End a range by its handle."""


class NoMarks:
    """Marks that emit nothing."""

    def push(self, text: str) -> None:
        pass

    def pop(self) -> None:
        pass

    def start(self, text: str) -> None:
        pass

    def end(self, handle: None) -> None:
        pass


class NvtxMarks:
    """Marks as NVTX ranges; raises ImportError without the package ``nvtx``."""

    def __init__(self) -> None:
        import nvtx  # noqa: PLC0415  (optional: only marks need it)

        self._nvtx = nvtx

    def push(self, text: str) -> None:
        self._nvtx.push_range(text, domain=DOMAIN)

    def pop(self) -> None:
        self._nvtx.pop_range(domain=DOMAIN)

    def start(self, text: str) -> Any:
        return self._nvtx.start_range(text, domain=DOMAIN)

    def end(self, handle: Any) -> None:
        self._nvtx.end_range(handle)


class WindowMarks:
    """Marks that emit only ranges that begin while ``is_open`` is true.

    ``is_open`` may change at any time: a range that was emitted ends, and no other one does.
    """

    def __init__(self, receiver: Marks) -> None:
        self.receiver = receiver
        self.is_open = False
        self._threads = threading.local()

    def push(self, text: str) -> None:
        self._emitted().append(self.is_open)
        if self.is_open:
            self.receiver.push(text)

    def pop(self) -> None:
        if self._emitted().pop():
            self.receiver.pop()

    def start(self, text: str) -> Any:
        return self.receiver.start(text) if self.is_open else None

    def end(self, handle: Any) -> None:
        if handle is not None:
            self.receiver.end(handle)

    def _emitted(self) -> list[bool]:
        # For each open range of the thread, whether it was emitted.
        if not hasattr(self._threads, "emitted"):
            self._threads.emitted = []
        emitted: list[bool] = self._threads.emitted
        return emitted


@contextmanager
def marked(marks: Marks, text: str) -> Iterator[None]:
    """Enclose a block in a range."""
    marks.push(text)
    try:
        yield
    finally:
        marks.pop()
