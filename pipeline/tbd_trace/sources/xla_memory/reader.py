"""Source for the buffer assignments that XLA dumps."""

from __future__ import annotations

from pathlib import Path

from tbd_trace.sources.base import TraceDescription
from tbd_trace.sources.row_reader import RowReader
from tbd_trace.sources.xla_memory.buffer_assignment import is_buffer_assignment
from tbd_trace.sources.xla_memory.plan_rows import memory_plan


class BufferAssignment:
    """Source for ``*-buffer-assignment.txt``."""

    format = "xla-buffer-assignment"

    def detect(self, path: Path, head: bytes) -> bool:
        """Return True if a file begins as a buffer assignment."""
        return is_buffer_assignment(head)

    def open(self, path: Path) -> RowReader:
        """Read a detected file.

        Raises:
            InputError: the file is damaged.
        """
        return RowReader({"memory_plan": memory_plan(path)}, TraceDescription("xla", "memory"))


BUFFER_ASSIGNMENT = BufferAssignment()
