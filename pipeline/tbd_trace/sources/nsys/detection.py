"""Recognise exports and reports of Nsight Systems; their readers are imported when one is opened.

Every file is first compared with these formats, and pyarrow, which the readers need, takes 0.2 s to
import.
"""
# ruff: noqa: PLC0415

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from tbd_trace.machine.nsys_export import MAGIC_BYTES, STREAM_MAGIC, TIMEOUT_S
from tbd_trace.sqlite_io.detection import has_tables

if TYPE_CHECKING:
    from tbd_trace.sources.nsys.reader import NsysReader
    from tbd_trace.sources.nsys.report import ReportReader

_REPORT = b"NVIDIA Tegra Profiler Report"
_ALLOCATIONS = "CUDA_GPU_MEMORY_USAGE_EVENTS"
_CHARACTERISTIC = re.compile(
    r"CUPTI_ACTIVITY_KIND_\w+|TARGET_INFO_\w+|NVTX_EVENTS|OSRT_API|ANALYSIS_DETAILS|"
    r"EXPORT_META_DATA|META_DATA_EXPORT|META_DATA_CAPTURE"
)


class NsysSqliteSource:
    """Source for SQLite exports (``nsys export --type sqlite``, ``nsys stats``)."""

    format = "nsys-sqlite"

    def detect(self, path: Path, head: bytes) -> bool:
        """Return True for a SQLite database with tables of Nsight Systems."""
        return has_tables(path, head, _are_known, _is_in_head)

    def open(self, path: Path) -> NsysReader:
        """Open a detected file.

        Raises:
            InputError: the file is damaged or has no known table.
        """
        from tbd_trace.sources.nsys.reader import NsysReader

        return NsysReader(path)


def _are_known(tables: Collection[str]) -> bool:
    # Allocations carry their names themselves, so an excerpt with them alone can be read.
    return _ALLOCATIONS in tables or (
        "StringIds" in tables and any(map(_CHARACTERISTIC.fullmatch, tables))
    )


def _is_in_head(head: bytes) -> bool:
    text = head.decode("latin-1")
    return "StringIds" in text and _CHARACTERISTIC.search(text) is not None


class NsysReportSource:
    """Source for Nsight Systems reports; `timeout_s` limits each export step."""

    format = "nsys-report"

    def __init__(self, timeout_s: float = TIMEOUT_S) -> None:
        self._timeout_s = timeout_s

    def detect(self, path: Path, head: bytes) -> bool:
        return any(magic in head[:MAGIC_BYTES] for magic in (_REPORT, STREAM_MAGIC))

    def open(self, path: Path) -> ReportReader:
        """Export a report and open the export.

        Raises:
            InputError: nsys is not installed or the export failed.
        """
        from tbd_trace.sources.nsys.report import ReportReader

        return ReportReader(path, self._timeout_s)


NSYS_SQLITE = NsysSqliteSource()
NSYS_REPORT = NsysReportSource()
