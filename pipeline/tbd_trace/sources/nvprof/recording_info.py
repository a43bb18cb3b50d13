"""Query versions, processes, threads and defects of an nvprof recording."""

from __future__ import annotations

import csv
import struct
from collections.abc import Iterable, Iterator

import pyarrow as pa

from tbd_trace import resources
from tbd_trace.sources.base import TraceDescription
from tbd_trace.sources.nvprof.tables import ACTIVITY_PREFIX, STRINGS
from tbd_trace.sqlite_io import SqliteFile

_TESTED_VERSIONS = range(8, 19)  # of the database schema
_KERNELS = ("KERNEL", "CONCURRENT_KERNEL", "CDP_KERNEL")
_COPIES = ("MEMCPY", "MEMCPY2", "MEMSET", "UNIFIED_MEMORY_COUNTER", "GRAPH_TRACE")
_CALLS = ("RUNTIME", "DRIVER")
_COUNTERS = ("METRIC", "METRIC_INSTANCE", "EVENT", "EVENT_INSTANCE")
# Source-level experiments (--source-level-analysis, --analysis-metrics) also replay kernels.
_REPLAYS = (*_COUNTERS, "BRANCH", "GLOBAL_ACCESS", "INSTRUCTION_EXECUTION", "SHARED_ACCESS")
_EVENTS = (*_KERNELS, *_COPIES, *_CALLS, *_REPLAYS, "MARKER", "MEMORY", "MEMORY2")
_PROCESS, _THREAD = 1, 2  # CUpti_ActivityObjectKind
# Times of at least 2007, the first year of CUDA, are UTC; smaller ones count from another epoch.
_EPOCH_NS = 1_167_609_600_000_000_000


def _present(file: SqliteFile, kinds: Iterable[str], *columns: str) -> list[str]:
    # Names of the activity tables that are not empty and have all the columns.
    tables = (ACTIVITY_PREFIX + kind for kind in kinds)
    return [
        table
        for table in tables
        if set(columns) <= set(file.columns(table)) and file.has_rows(table)
    ]


def kernel_names(file: SqliteFile) -> dict[int, str]:
    """Return the kernel names by string id, mangled as in the file."""
    tables = _present(file, _KERNELS, "name")
    if not tables or not {"_id_", "value"} <= set(file.columns(STRINGS)):
        return {}
    used = " UNION ".join(f'SELECT name FROM "{table}"' for table in tables)
    rows = file.rows(f"SELECT _id_, value FROM {STRINGS} WHERE _id_ <> 0 AND _id_ IN ({used})")
    return {int(string_id): str(name) for string_id, name in rows}


def host_threads(file: SqliteFile) -> pa.Table:
    """Return the distinct process_id and thread_id, which is NULL for a process without thread."""
    # The database stores unsigned 32-bit thread ids as signed numbers.
    pairs: set[tuple[object, object]] = set()
    for table in _present(file, _CALLS, "processId", "threadId"):
        pairs |= set(file.rows(f'SELECT DISTINCT processId, threadId & 4294967295 FROM "{table}"'))
    for table in _present(file, ("MEMORY", "MEMORY2", "UNIFIED_MEMORY_COUNTER"), "processId"):
        pairs |= set(file.rows(f'SELECT DISTINCT processId, NULL FROM "{table}"'))
    for table in _present(file, ("MARKER", "NAME"), "objectKind", "objectId"):
        objects = file.rows(f'SELECT DISTINCT objectKind, objectId FROM "{table}"')
        pairs |= {_host_thread(kind, blob) for kind, blob in objects}
    known = [pair for pair in pairs if isinstance(pair[0], int) and pair[0] != 0]
    processes, threads = zip(*sorted(known, key=str), strict=True) if known else ((), ())
    return pa.table(
        {"process_id": pa.array(processes, pa.int64()), "thread_id": pa.array(threads, pa.int64())}
    )


def _host_thread(kind: object, blob: object) -> tuple[int | None, int | None]:
    # CUpti_ActivityObjectKindId is a union; only processes and threads are host objects.
    if kind not in (_PROCESS, _THREAD) or not isinstance(blob, bytes) or len(blob) < 8:
        return None, None
    process, thread = struct.unpack_from("<II", blob)
    return process, thread if kind == _THREAD else None


def recording(file: SqliteFile) -> pa.Table:
    """Return one row: process_id, NULL if there are several processes, and end_ns."""
    processes = set(host_threads(file).column("process_id").to_pylist())
    return pa.table(
        {
            "process_id": pa.array([processes.pop() if len(processes) == 1 else None], pa.int64()),
            "end_ns": pa.array([_extreme(file, "max", "end", "timestamp")], pa.int64()),
        }
    )


def _extreme(file: SqliteFile, function: str, *columns: str) -> int | None:
    # Time 0 means that CUPTI did not record the time.
    extremes = [
        file.rows(f'SELECT {function}("{column}") FROM "{table}" WHERE "{column}" > 0')[0][0]
        for column in columns
        for table in _present(file, _EVENTS, column)
    ]
    times = [time for time in extremes if isinstance(time, int)]
    return (max if function == "max" else min)(times, default=None)


def describe(file: SqliteFile) -> TraceDescription:
    """Return kind, versions, start and notes of a recording."""
    version = _version(file)
    start = _extreme(file, "min", "start", "timestamp")
    return TraceDescription(
        tool="nvprof",
        kind="metrics" if _is_replayed(file) else "timeline",
        schema_version=None if version is None else str(version),
        utc_start_ns=0 if start is not None and start >= _EPOCH_NS else None,
        notes=list(_notes(file, version)),
    )


def _version(file: SqliteFile) -> int | None:
    if "version" not in file.columns("Version"):
        return None
    rows = file.rows("SELECT max(version) FROM Version")
    return rows[0][0] if isinstance(rows[0][0], int) else None


def _is_replayed(file: SqliteFile) -> bool:
    # nvprof fills KERNEL instead of CONCURRENT_KERNEL if it serialises kernels.
    serialised = _present(file, ("KERNEL",)) and not _present(file, _CALLS)
    return bool(_present(file, _REPLAYS) or serialised)


def _notes(file: SqliteFile, version: int | None) -> Iterator[str]:
    if version is not None and version not in _TESTED_VERSIONS:
        yield (
            f"database version {version} is not tested (tested: 8 to 18); unknown tables and "
            "columns are left out"
        )
    if not _present(file, _EVENTS):
        yield _why_empty(file)
    elif _is_replayed(file):
        yield (
            "nvprof serialised and replayed the kernels to collect counters: their durations and "
            "gaps are not those of a normal run; take times from a timeline run"
        )
    elif _present(file, ("KERNEL",)):
        yield "kernels were serialised (--concurrent-kernels off): none could overlap another"
    if len(set(host_threads(file).column("process_id").to_pylist())) > 1:
        yield "several processes in one file: which of them a GPU operation belongs to is unknown"
    if untimed := _untimed_kernels(file):
        yield (
            f"{untimed} kernels have no times, since nvprof's device buffer was too small: their "
            "time is missing from every total; profile again with a larger --device-buffer-size"
        )
    if unknown := _unknown_metrics(file):
        numbers = ", ".join(map(str, unknown[:5])) + (", …" if len(unknown) > 5 else "")
        yield (
            f"{len(unknown)} metric numbers have no known name ({numbers}): values left out; "
            "nvprof knows them: print them with `nvprof -i FILE --csv --print-gpu-trace "
            "--log-file NEW.csv` and ingest NEW.csv"
        )


def _why_empty(file: SqliteFile) -> str:
    if _present(file, ("DEVICE", "CONTEXT")):
        return (
            "nvprof recorded no activity although CUDA was started: with --profile-from-start off "
            "the program must reach cudaProfilerStart, and cudaProfilerStop or "
            "cudaDeviceReset before it ends; profile again"
        )
    return (
        "nvprof recorded nothing: the program made no CUDA call, made them in a child process "
        "(use --profile-child-processes), ended before its data was flushed, or never reached "
        "cudaProfilerStart with --profile-from-start off; profile again"
    )


def _untimed_kernels(file: SqliteFile) -> int:
    tables = _present(file, _KERNELS, "start", "end")
    counts = [
        file.rows(f'SELECT count(*) FROM "{table}" WHERE start = 0 OR "end" = 0')[0][0]
        for table in tables
    ]
    return sum(counts)


def _unknown_metrics(file: SqliteFile) -> list[int]:
    # Metric numbers that data/nvprof_metrics.csv lacks.
    used: set[int] = set()
    for table in _present(file, ("METRIC", "METRIC_INSTANCE"), "id"):
        used |= {row[0] for row in file.rows(f'SELECT DISTINCT id FROM "{table}"')}
    if not used:
        return []
    with (resources.data() / "nvprof_metrics.csv").open(encoding="utf-8", newline="") as data:
        known = {int(row["id"]) for row in csv.DictReader(data) if row["record"] == "metric"}
    return sorted(used - known)
