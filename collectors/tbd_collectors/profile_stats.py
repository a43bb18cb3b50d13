"""What a profile holds, counted without reading it: profilers succeed with empty files, too."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tbd_collectors.process import CollectionError, NothingRecordedError
from tbd_trace.errors import InputError
from tbd_trace.sources.nsys.columns import NVTX_RANGES
from tbd_trace.sqlite_io.sqlite_file import SqliteFile
from tbd_trace.sqltext import identifier

_ACTIVITY = "CUPTI_ACTIVITY_KIND_"
_NVPROF_RANGE_START = 2


@dataclass(frozen=True, slots=True)
class Contents:
    """What a timeline holds.

    Attributes:
        ranges: NVTX ranges.
        kernels: kernels, and CUDA graphs that were traced as a whole.
        api_calls: calls of the CUDA runtime and driver.
    """

    ranges: int
    kernels: int
    api_calls: int

    def require(self, path: Path, *, gpu: bool) -> None:
        """Make sure that there are NVTX ranges, and kernels if a GPU was used.

        Raises:
            NothingRecordedError: there are none; the message says what to do.
        """
        if self.ranges == 0:
            raise NothingRecordedError(
                f"{path}: holds no NVTX ranges, so nothing tells iterations and layers apart: the "
                "Python package nvtx records nothing from 0.2.12 on, install nvtx==0.2.11; and "
                "only ranges inside the captured stretch count"
            )
        if gpu and self.kernels == 0:
            raise NothingRecordedError(f"{path}: holds no kernels: {self._why_no_kernels()}")

    def _why_no_kernels(self) -> str:
        if self.api_calls:
            return "CUDA was called, but no kernel ran in the captured stretch; make it longer"
        return (
            "the program did not use the GPU in the captured stretch, or the profiler is too old "
            "for the driver; check both with tbd-trace doctor"
        )


def count_nsys(path: Path) -> Contents:
    """Count what an nsys export holds.

    Raises:
        CollectionError: the file is not a SQLite database, or not a whole one.
    """
    is_range = f"eventType IN {NVTX_RANGES}"
    return _count(path, "NVTX_EVENTS", is_range, ("KERNEL", "GRAPH_TRACE"))


def count_nvprof(path: Path) -> Contents:
    """Count what a profile exported by nvprof holds.

    Raises:
        CollectionError: the file is not a SQLite database, or not a whole one.
    """
    is_start = f"(flags & {_NVPROF_RANGE_START}) != 0"
    return _count(path, f"{_ACTIVITY}MARKER", is_start, ("KERNEL", "CONCURRENT_KERNEL"))


def count_counted(path: Path) -> int:
    """Count the kernels of a profile exported by nvprof that have counters.

    Raises:
        CollectionError: the file is not a SQLite database, or not a whole one.
    """
    with _opened(path) as file:
        return _rows(file, [f"{_ACTIVITY}METRIC"], count="count(DISTINCT correlationId)")


def _count(path: Path, marks: str, is_range: str, kernels: Iterable[str]) -> Contents:
    with _opened(path) as file:
        return Contents(
            ranges=_rows(file, [marks], where=is_range),
            kernels=_rows(file, [_ACTIVITY + kind for kind in kernels]),
            api_calls=_rows(file, [_ACTIVITY + kind for kind in ("RUNTIME", "DRIVER")]),
        )


@contextmanager
def _opened(path: Path) -> Iterator[SqliteFile]:
    if not path.is_file():
        raise CollectionError(f"{path}: no such file")
    try:
        with SqliteFile(path) as file:
            yield file
    except InputError as error:
        said = error.__cause__  # what SQLite itself says, if it was asked
        is_no_profile = isinstance(said, sqlite3.Error)
        raise CollectionError(
            f"{path}: is not a profile in SQLite ({said})" if is_no_profile else str(error)
        ) from error


def _rows(
    file: SqliteFile, names: Iterable[str], *, where: str = "true", count: str = "count(*)"
) -> int:
    """Count the rows of some tables; one that is not there has none."""
    return sum(
        file.rows(f"SELECT {count} FROM {identifier(name)} WHERE {where}")[0][0]
        for name in names
        if file.has_rows(name)
    )
