"""Count the contents of a profile, because profilers exit with 0 even if they recorded nothing."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tbd_collectors.process import CollectionError, NoRangesError, NothingRecordedError
from tbd_trace.errors import InputError
from tbd_trace.sources.nsys.columns import NVTX_RANGES
from tbd_trace.sqlite_io import SqliteFile
from tbd_trace.sqltext import identifier

_ACTIVITY = "CUPTI_ACTIVITY_KIND_"
_NVPROF_RANGE_START = 2  # CUPTI_ACTIVITY_FLAG_MARKER_START


@dataclass(frozen=True, slots=True)
class Contents:
    """Numbers of events in a timeline."""

    ranges: int  # NVTX ranges
    kernels: int  # kernels, and CUDA graphs traced as a whole
    api_calls: int  # calls of the CUDA runtime and driver API

    def require(self, path: Path, *, gpu: bool) -> None:
        """Raise NoRangesError without NVTX ranges.

        Raises NothingRecordedError without kernels if ``gpu``.
        """
        if self.ranges == 0:
            raise NoRangesError(
                f"{path}: holds no NVTX ranges",
                ", so iterations and layers cannot be distinguished: the Python package nvtx "
                "records nothing from 0.2.12 on, install nvtx==0.2.11; only ranges inside the "
                "captured interval count",
                self.kernels,
            )
        if gpu and self.kernels == 0:
            raise NothingRecordedError(f"{path}: holds no kernels: {self._why_no_kernels()}")

    def _why_no_kernels(self) -> str:
        if self.api_calls:
            return "CUDA was called, but no kernel ran in the captured interval; make it longer"
        return (
            "the program did not use the GPU in the captured interval, or the profiler is too old "
            "for the driver; check both with tbd-trace doctor"
        )


def count_nsys(path: Path) -> Contents:
    """Count the events of an nsys export; raise CollectionError for an unreadable file."""
    is_range = f"eventType IN {NVTX_RANGES}"
    return _count(path, "NVTX_EVENTS", is_range, ("KERNEL", "GRAPH_TRACE"))


def count_nvprof(path: Path) -> Contents:
    """Count the events of an nvprof profile; raise CollectionError for an unreadable file."""
    is_start = f"(flags & {_NVPROF_RANGE_START}) != 0"
    return _count(path, f"{_ACTIVITY}MARKER", is_start, ("KERNEL", "CONCURRENT_KERNEL"))


def count_counted(path: Path) -> int:
    """Count kernels with counters in an nvprof profile; raise CollectionError if unreadable."""
    with _open_profile(path) as file:
        # One row per kernel and metric, so kernels are counted by their correlation id.
        return _rows(file, [f"{_ACTIVITY}METRIC"], count="count(DISTINCT correlationId)")


def _count(path: Path, marks: str, is_range: str, kernels: Iterable[str]) -> Contents:
    with _open_profile(path) as file:
        return Contents(
            ranges=_rows(file, [marks], where=is_range),
            kernels=_rows(file, [_ACTIVITY + kind for kind in kernels]),
            api_calls=_rows(file, [_ACTIVITY + kind for kind in ("RUNTIME", "DRIVER")]),
        )


@contextmanager
def _open_profile(path: Path) -> Iterator[SqliteFile]:
    if not path.is_file():
        raise CollectionError(f"{path}: no such file")
    try:
        with SqliteFile(path) as file:
            yield file
    except InputError as error:
        cause = error.__cause__  # SQLite's own message, if SQLite raised it
        is_sqlite_error = isinstance(cause, sqlite3.Error)
        raise CollectionError(
            f"{path}: is not a profile in SQLite ({cause})" if is_sqlite_error else str(error)
        ) from error


def _rows(
    file: SqliteFile, names: Iterable[str], *, where: str = "true", count: str = "count(*)"
) -> int:
    # Profilers omit the tables of event kinds that never occurred.
    return sum(
        file.rows(f"SELECT {count} FROM {identifier(name)} WHERE {where}")[0][0]
        for name in names
        if file.has_rows(name)
    )
