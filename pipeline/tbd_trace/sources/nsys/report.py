"""Read reports of Nsight Systems (.nsys-rep, .qdrep, .qdstrm) with the installed ``nsys``."""

from __future__ import annotations

import contextlib
from pathlib import Path
from types import TracebackType

from tbd_trace.machine.nsys_export import export, made_by
from tbd_trace.runtime.private_files import temporary_directory
from tbd_trace.sources.base import Ask, TraceDescription
from tbd_trace.sources.nsys.reader import NsysReader


class ReportReader(NsysReader):
    """Reader of one report.

    Args:
        timeout_s: timeout of each export step, seconds.

    Raises:
        InputError: the export failed; the message contains the output of nsys.
    """

    def __init__(self, path: Path, timeout_s: float) -> None:
        self._made_by = made_by(path)
        with contextlib.ExitStack() as stack:
            # Below TMPDIR, because an export can be ten times as large as its report.
            directory = stack.enter_context(temporary_directory())
            sqlite = Path(directory) / "report.sqlite"
            export(path, sqlite, timeout_s=timeout_s)
            super().__init__(sqlite)
            self._cleanup = stack.pop_all()

    def describe(self, ask: Ask | None = None) -> TraceDescription:
        description = super().describe(ask)
        # The export contains the version of the exporter, the report that of the profiler.
        description.tool_version = self._made_by or description.tool_version
        return description

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # The export can be removed only after its reader is closed.
        super().__exit__(kind, error, trace)
        self._cleanup.close()
