"""Where the traces of a command are read: in this process, in several, or on a Dask cluster."""

# Most commands need none of these modules.
# ruff: noqa: PLC0415
from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tbd_trace.errors import TbdTraceError, UsageError

if TYPE_CHECKING:
    from tbd_trace.runtime.executors import Executor

_WORTH_SHARING = 4 << 20  # bytes of all files


@contextlib.contextmanager
def executor_of(workers: int | None, dask: str | None) -> Iterator[Executor | None]:
    """Yield what --workers and --dask choose, None without them.

    Raises:
        UsageError: both are given, or the cluster cannot be reached.
    """
    if workers is not None and dask is not None:
        raise UsageError("--workers and --dask: choose one")
    if dask is not None:
        from tbd_trace.runtime.dask_cluster import DaskCluster

        with DaskCluster(dask) as cluster:
            yield cluster
    elif workers is not None:
        from tbd_trace.runtime.executors import Processes

        with Processes(workers) as processes:
            yield processes
    else:
        yield None


def processes_for(files: Sequence[Path]) -> int | None:
    """Return how many processes should read files, None if this one should, one after another.

    Several processes read each large file, and a process takes as long to start as a small one.
    """
    from tbd_trace.runtime.worker_pool import processes
    from tbd_trace.store.database import LARGE_FILE

    sizes = [_size(file) for file in files]
    if len(sizes) < 2 or sum(sizes) < _WORTH_SHARING or max(sizes) >= LARGE_FILE:
        return None
    number = min(processes(), len(sizes))
    return number if number > 1 else None


def _size(file: Path) -> int:
    with contextlib.suppress(OSError):  # reported when it is read
        return file.stat().st_size
    return 0


def require_all(missing: Sequence[str]) -> None:
    """Fail if traces are missing from the answer.

    Raises:
        TbdTraceError: it names them.
    """
    if missing:
        from tbd_trace.query.divided import not_answered

        raise TbdTraceError(not_answered(list(dict.fromkeys(missing))))
