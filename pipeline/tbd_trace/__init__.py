"""Why is my DNN training slow? Profiler traces in, metrics out.

import tbd_trace

db = tbd_trace.open("report.sqlite")
db.query("kernel_summary")  # a polars frame
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tbd_trace.errors import (
    CannotAnswerError,
    InputError,
    StoreError,
    TbdTraceError,
    UsageError,
)
from tbd_trace.version import __version__

if TYPE_CHECKING:
    from os import PathLike

    from tbd_trace.api import Traces

__all__ = [
    "CannotAnswerError",
    "InputError",
    "StoreError",
    "TbdTraceError",
    "UsageError",
    "__version__",
    "open",
]


def open(*traces: str | PathLike[str], db: str | PathLike[str] | None = None) -> Traces:
    """Open traces for queries.

    Args:
        traces: profiler files and capture directories (ingested on the fly into a cache that is
            keyed by their content), or ids and names of traces in ``db``; none means all of ``db``.
        db: a database made by ``tbd-trace ingest``; None means ``TBD_TRACE_DB`` or
            ``tbd-trace.duckdb`` in the working directory.

    Raises:
        InputError: a file is no profile, or damaged.
        UsageError: a name is unknown, or there is no database.
    """
    from tbd_trace.api import open_traces  # noqa: PLC0415  (keeps `import tbd_trace` fast)

    return open_traces(*traces, db=db)
