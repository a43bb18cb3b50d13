"""Iterations, phases and layers as NVTX ranges; see docs/reference/capture_directory.md."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

DOMAIN = "tbd_trace"
WINDOW = "measured window"
PHASES = ("data", "forward", "loss", "backward", "optimizer")
LAYERS_VARIABLE = "TBD_TRACE_LAYERS"
"""Environment variable: where `tbd-trace collect` wants layers.json; without it none is written."""


class Marks(Protocol):
    """Where ranges go. Ranges of a thread nest: ``pop`` ends the one that began last."""

    def push(self, text: str) -> None:
        """Begin a range on the calling thread."""

    def pop(self) -> None:
        """End the innermost range of the calling thread."""

    def start(self, text: str) -> Any:
        """Begin a range that any thread may end, and return what ends it."""

    def end(self, handle: Any) -> None:
        """End a range that ``start`` began."""


class NoMarks:
    """Marks that go nowhere."""

    def push(self, text: str) -> None:
        """Do nothing."""

    def pop(self) -> None:
        """Do nothing."""

    def start(self, text: str) -> None:
        """Do nothing."""

    def end(self, handle: None) -> None:
        """Do nothing."""


class NvtxMarks:
    """Marks as NVTX ranges.

    Raises:
        ImportError: the interpreter has no package ``nvtx``.
    """

    def __init__(self) -> None:
        import nvtx  # noqa: PLC0415  (needed for marks alone)

        self._nvtx = nvtx

    def push(self, text: str) -> None:
        """Begin a range on the calling thread."""
        self._nvtx.push_range(text, domain=DOMAIN)

    def pop(self) -> None:
        """End the innermost range of the calling thread."""
        self._nvtx.pop_range(domain=DOMAIN)

    def start(self, text: str) -> Any:
        """Begin a range that any thread may end."""
        return self._nvtx.start_range(text, domain=DOMAIN)

    def end(self, handle: Any) -> None:
        """End a range that ``start`` began."""
        self._nvtx.end_range(handle)


@contextmanager
def marked(marks: Marks, text: str) -> Iterator[None]:
    """Enclose a block in a range."""
    marks.push(text)
    try:
        yield
    finally:
        marks.pop()
