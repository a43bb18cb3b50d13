"""Ingest the ranks of a job like the command; print the seconds without its imports.

Usage: python -m benchmarks.ranks_load ARGUMENT…, the arguments of `tbd-trace ingest`.
"""

import contextlib
import sys
import time

import duckdb  # noqa: F401 the command imports these later

import tbd_trace.store.ranks  # noqa: F401
from tbd_trace.cli.main import app

begin = time.perf_counter()
with contextlib.suppress(SystemExit):
    app(["ingest", *sys.argv[1:]])
print(time.perf_counter() - begin, file=sys.stderr)
