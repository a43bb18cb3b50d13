"""Read a database of many traces from several processes while another one writes.

Usage: python -m benchmarks.load [--traces 300] [--readers 4] [--seconds 180]

A reader opens the database again for each query and checks that its trace has all kernels. The
writer ingests and removes a trace in turn. Prints the answers, the queries that a removal
interrupted, the errors, and the growth of the largest process from the end of the first quarter of
the time to the end. Exit code 1 after an error.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import shutil
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import tbd_trace
from tbd_trace.errors import StoreError
from tbd_trace.store import Database

_SAMPLE = Path(__file__).resolve().parents[1] / "data" / "samples" / "synthetic_cnn"
_KERNELS = 301
_QUERIES = ("kernel_summary", "dominant_layer", "trace_info")
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Work:
    """What one process did."""

    done: int
    asked_again: int  # queries that a removal interrupted
    errors: list[str]
    early_bytes: int  # resident memory after the first quarter of the time
    late_bytes: int  # at the end


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traces", type=int, default=300)
    parser.add_argument("--readers", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=180)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        database = Path(folder) / "load.duckdb"
        store = Database(database)
        for number in range(options.traces):
            store.ingest([_profile(Path(folder), number)])
        ids = store.trace_ids()
        with multiprocessing.get_context("spawn").Pool(options.readers + 1) as pool:
            end = time.time() + options.seconds
            jobs = [
                pool.apply_async(_read, (database, ids, i, end)) for i in range(options.readers)
            ]
            jobs.append(pool.apply_async(_write, (database, Path(folder), options.traces, end)))
            work = [job.get() for job in jobs]
    readers, writer = work[:-1], work[-1]
    growth = max(w.late_bytes - w.early_bytes for w in work) / 1e6
    largest = max(w.late_bytes for w in work) / 1e6
    errors = [error for w in work for error in w.errors]
    print(
        f"{options.traces} traces, {options.readers} readers, {options.seconds:.0f} s: "
        f"{sum(w.done for w in readers):,} answers, {writer.done:,} traces written and removed, "
        f"{sum(w.asked_again for w in work)} to ask again, {len(errors)} errors; "
        f"the largest process has {largest:.0f} MB, largest growth {growth:.0f} MB"
    )
    print(*errors[:10], sep="\n", end="\n" if errors else "")
    sys.exit(bool(errors))


def _profile(folder: Path, number: int) -> Path:
    # Runs of one program differ in their length; equal profiles would be one trace.
    path = Path(shutil.copy(_SAMPLE / "timeline.sqlite", folder / f"run{number}.sqlite"))
    last = "rowid = (SELECT rowid FROM NVTX_EVENTS ORDER BY end DESC LIMIT 1)"
    with closing(sqlite3.connect(path)) as file, file:
        file.execute(f"UPDATE NVTX_EVENTS SET end = end + ? WHERE {last}", (number,))
    return path


def _read(database: Path, ids: list[str], number: int, end: float) -> Work:
    rng = random.Random(number)

    def ask() -> None:
        traces = tbd_trace.open(rng.choice(ids), db=database)
        (kernels,) = traces.sql("SELECT count(*) FROM kernel").row(0)
        assert kernels == _KERNELS, f"{kernels} kernels"
        assert traces.query(rng.choice(_QUERIES)).height

    return _repeat(ask, end)


def _write(database: Path, folder: Path, first: int, end: float) -> Work:
    store = Database(database)
    numbers = iter(range(first, sys.maxsize))

    def ingest_and_remove() -> None:
        path = _profile(folder, next(numbers))
        (report,) = store.ingest([path])
        store.remove([report.trace_id])
        path.unlink()

    return _repeat(ingest_and_remove, end)


def _repeat(action: Callable[[], None], end: float) -> Work:
    quarter = time.time() + (end - time.time()) / 4
    done, again, early, errors = 0, 0, 0, []
    while time.time() < end:
        try:
            action()
            done += 1
        except StoreError as error:
            again += "ask again" in str(error)
            errors += [] if "ask again" in str(error) else [str(error)]
        except Exception as error:
            errors.append(f"{type(error).__name__}: {error}")
        if not early and time.time() > quarter:
            early = _resident_bytes()
    return Work(done, again, errors, early, _resident_bytes())


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * _PAGE


if __name__ == "__main__":
    main()
