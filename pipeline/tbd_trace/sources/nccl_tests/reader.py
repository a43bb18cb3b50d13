"""Source for logs of nccl-tests."""

from __future__ import annotations

from pathlib import Path

from tbd_trace.sources.base import TraceDescription
from tbd_trace.sources.nccl_tests.log import is_log, read_log
from tbd_trace.sources.row_reader import RowReader


class NcclTestsLog:
    """Source for the standard output of all_reduce_perf and the other tests."""

    format = "nccl-tests-log"

    def detect(self, path: Path, head: bytes) -> bool:
        """Return True if a file has the first line of a test."""
        return is_log(head)

    def open(self, path: Path) -> RowReader:
        """Read a detected file.

        Raises:
            InputError: the log ends early, or a test found wrong values.
        """
        version, rows = read_log(path)
        notes = []
        if any(row["kind"] is None for row in rows):
            notes.append("the log does not name its collective; put it in the file name")
        if any(row["ranks"] is None for row in rows):
            notes.append("the log lists no ranks; bus bandwidths are as printed")
        description = TraceDescription("nccl-tests", "summary", tool_version=version, notes=notes)
        return RowReader({"link_sample": rows}, description)


NCCL_TESTS_LOG = NcclTestsLog()
