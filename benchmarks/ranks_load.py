"""Ingest the ranks of a job like the command; print the seconds without its imports.

Usage: python -m benchmarks.ranks_load ARGUMENT…, the arguments of `tbd-trace ingest`.
"""

import contextlib
import sys
import time

# The command imports these later.
import duckdb  # noqa: F401

import tbd_trace.archive
import tbd_trace.runtime.executors
import tbd_trace.sources.kineto.reader
import tbd_trace.store.parallel_ingest  # noqa: F401
from tbd_trace.cli.main import app

begin = time.perf_counter()
with contextlib.suppress(SystemExit):
    app(["ingest", *sys.argv[1:]])
print(time.perf_counter() - begin, file=sys.stderr)
