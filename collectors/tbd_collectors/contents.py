"""What a profile holds, counted without reading it: profilers succeed with empty files, too."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import sqlalchemy as sa

from tbd_collectors.process import CollectionError, NothingRecordedError

_ACTIVITY = "CUPTI_ACTIVITY_KIND_"
_NSYS_RANGES = (59, 60, 70, 71)  # push/pop and start/end, of NVTX and of its extension
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
        CollectionError: the file is not a SQLite database.
    """
    is_range = sa.column("eventType").in_(_NSYS_RANGES)
    return _count(path, "NVTX_EVENTS", is_range, ("KERNEL", "GRAPH_TRACE"))


def count_nvprof(path: Path) -> Contents:
    """Count what a profile exported by nvprof holds.

    Raises:
        CollectionError: the file is not a SQLite database.
    """
    starts = sa.column("flags").bitwise_and(_NVPROF_RANGE_START) != 0
    return _count(path, f"{_ACTIVITY}MARKER", starts, ("KERNEL", "CONCURRENT_KERNEL"))


def count_counted(path: Path) -> int:
    """Count the kernels of a profile exported by nvprof that have counters.

    Raises:
        CollectionError: the file is not a SQLite database.
    """
    kernels = sa.func.count(sa.column("correlationId").distinct())
    with _opened(path) as connection:
        return _rows(connection, [f"{_ACTIVITY}METRIC"], count=kernels)


def _count(
    path: Path, marks: str, is_range: sa.ColumnElement[bool], kernels: Iterable[str]
) -> Contents:
    with _opened(path) as connection:
        return Contents(
            ranges=_rows(connection, [marks], is_range),
            kernels=_rows(connection, [_ACTIVITY + kind for kind in kernels]),
            api_calls=_rows(connection, [_ACTIVITY + kind for kind in ("RUNTIME", "DRIVER")]),
        )


@contextmanager
def _opened(path: Path) -> Iterator[sa.Connection]:
    if not path.is_file():
        raise CollectionError(f"{path}: no such file")
    # A profile is evidence: never write to it or beside it.
    uri = f"file:{quote(os.fsencode(path.resolve()))}?mode=ro&immutable=1"
    engine = sa.create_engine(
        "sqlite://", creator=lambda: sqlite3.connect(uri, uri=True), poolclass=sa.NullPool
    )
    try:
        with engine.connect() as connection:
            yield connection
    except (sa.exc.DatabaseError, sqlite3.DatabaseError) as error:
        raise CollectionError(
            f"{path}: is not a profile in SQLite ({getattr(error, 'orig', error)})"
        ) from error


def _rows(
    connection: sa.Connection,
    names: Iterable[str],
    where: sa.ColumnElement[bool] | None = None,
    count: sa.ColumnElement[int] | None = None,
) -> int:
    """Count the rows of some tables; one that is not there has none."""
    present = set(sa.inspect(connection).get_table_names())
    condition = sa.true() if where is None else where
    counted = sa.func.count() if count is None else count
    return sum(
        connection.execute(
            sa.select(counted).select_from(sa.table(name)).where(condition)
        ).scalar_one()
        for name in names
        if name in present
    )
