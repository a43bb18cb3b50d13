"""Reader of Nsight Systems' own reports (.nsys-rep, .qdrep, .qdstrm), by the installed ``nsys``.

A report is exported to SQLite in a temporary directory (``TMPDIR`` chooses where; the export may be
ten times as large as the report) and read from there.
"""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from types import TracebackType

from tbd_trace.nsys_export import MAGIC_BYTES, STREAM_MAGIC, TIMEOUT_S, export, made_by
from tbd_trace.sources.base import Ask, TraceDescription
from tbd_trace.sources.nsys.reader import NsysReader

_REPORT = b"NVIDIA Tegra Profiler Report"


class ReportReader(NsysReader):
    """One report, exported for the time that it is open.

    Args:
        path: the report.
        timeout_s: seconds that each step of the export may take.

    Raises:
        InputError: the report cannot be exported; the message passes on what nsys said.
    """

    def __init__(self, path: Path, timeout_s: float) -> None:
        self._made_by = made_by(path)
        with contextlib.ExitStack() as stack:
            directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="tbd-trace-"))
            sqlite = Path(directory) / "report.sqlite"
            export(path, sqlite, timeout_s=timeout_s)
            super().__init__(sqlite)
            self._cleanup = stack.pop_all()

    def describe(self, ask: Ask | None = None) -> TraceDescription:
        """Return what the report says about itself; see ``TraceReader``."""
        description = super().describe(ask)
        description.tool_version = self._made_by or description.tool_version
        return description

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        super().__exit__(kind, error, trace)
        self._cleanup.close()


class NsysReportSource:
    """Nsight Systems reports.

    Args:
        timeout_s: seconds that each step of an export may take.
    """

    format = "nsys-report"

    def __init__(self, timeout_s: float = TIMEOUT_S) -> None:
        self._timeout_s = timeout_s

    def detect(self, path: Path, head: bytes) -> bool:
        """Tell whether a file begins like a report."""
        return any(magic in head[:MAGIC_BYTES] for magic in (_REPORT, STREAM_MAGIC))

    def open(self, path: Path) -> ReportReader:
        """Export a report and open the export.

        Raises:
            InputError: nsys is not installed, or cannot export the report.
        """
        return ReportReader(path, self._timeout_s)


NSYS_REPORT = NsysReportSource()
