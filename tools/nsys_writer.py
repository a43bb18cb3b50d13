"""Write Nsight Systems SQLite exports from rows of `nsys_schema`.

Rows are written in batches, so files of gigabytes need little memory. As in a real export, a table
exists only if it has rows. Equal rows give equal bytes with the same version of SQLite::

    with NsysWriter(path, utc_start_ns=0) as writer:
        process = writer.process(4242, "python")
        writer.add(Runtime(0, 10, RUNTIME_CALL, process | 4242, 1, writer.string("cudaFree_v3020")))
"""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self, get_args, get_type_hints

from nsys_schema import (
    ENUMERATIONS,
    PRODUCT_VERSION,
    SCHEMA_VERSION,
    TABLES,
    AnalysisDetails,
    Gpu,
    MetaData,
    Process,
    SessionStart,
    String,
    ThreadName,
)

MACHINE_ID = 1 << 48  # the first machine in the global ids of processes and threads
_BATCH_ROWS = 20_000
_SQL_TYPES = {int: "INTEGER", float: "REAL", str: "TEXT"}
_PRIMARY_KEYS: dict[type[tuple[Any, ...]], str] = {String: "id"}


class NsysWriter:
    """An SQLite export in progress; use it in a ``with`` block.

    ``path`` is replaced, and removed after an error; ``utc_start_ns`` is the UTC epoch time of
    trace time 0; ``origin`` is the input file named in ``EXPORT_META_DATA``.
    """

    def __init__(self, path: Path, *, utc_start_ns: int, origin: str = "") -> None:
        path.unlink(missing_ok=True)
        self._path = path
        self._connection = sqlite3.connect(path, isolation_level=None)
        # An incomplete file is deleted, so neither journal nor fsync is needed.
        self._connection.execute("PRAGMA journal_mode = OFF")
        self._connection.execute("PRAGMA synchronous = OFF")
        self._connection.execute("BEGIN")
        self._buffers: dict[type[tuple[Any, ...]], list[tuple[Any, ...]]] = {}
        self._strings: dict[str, int] = {}
        self._meta_data(origin)
        self._enumerations()
        self.add(_session_start(utc_start_ns))

    def add(self, row: tuple[Any, ...]) -> None:
        """Append a row; its class in `nsys_schema` determines the table."""
        kind = type(row)
        buffer = self._buffers.get(kind)
        if buffer is None:
            self._connection.execute(create_table(kind))
            buffer = self._buffers[kind] = []
        buffer.append(row)
        if len(buffer) == _BATCH_ROWS:
            self._flush(kind)

    def string(self, text: str) -> int:
        """Return the ``StringIds`` id of a text."""
        number = self._strings.get(text)
        if number is None:
            number = self._strings[text] = len(self._strings)
            self.add(String(number, text))
        return number

    def process(self, pid: int, name: str) -> int:
        """Add a process and return its global id; ``| tid`` gives the global id of a thread."""
        global_pid = MACHINE_ID | pid << 24
        self.add(Process(global_pid, pid, name))
        return global_pid

    def thread(self, global_pid: int, tid: int, name: str) -> int:
        """Add a named thread and return its global id."""
        global_tid = global_pid | tid
        self.add(ThreadName(self.string(name), 20, global_tid))
        return global_tid

    def span(self, start_ns: int, end_ns: int) -> None:
        """Record the time span of the trace."""
        self.add(AnalysisDetails(MACHINE_ID, end_ns - start_ns, start_ns, end_ns))

    def _meta_data(self, origin: str) -> None:
        major, minor, micro = SCHEMA_VERSION.split(".")
        facts = {
            "EXPORT_PRODUCT_NAME": "NVIDIA Nsight Systems",
            "EXPORT_PRODUCT_VERSION": PRODUCT_VERSION,
            "EXPORT_SCHEMA_VERSION": SCHEMA_VERSION,
            "EXPORT_SCHEMA_VERSION_MAJOR": major,
            "EXPORT_SCHEMA_VERSION_MINOR": minor,
            "EXPORT_SCHEMA_VERSION_MICRO": micro,
            "EXPORT_INPUT_FILE": origin,
            "EXPORT_LAZY": "true",
        }
        for name, value in facts.items():
            self.add(MetaData(name, value))

    def _enumerations(self) -> None:
        for table, rows in ENUMERATIONS.items():
            self._connection.execute(
                f"CREATE TABLE {table} (id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT)"
            )
            self._connection.executemany(f"INSERT INTO {table} VALUES (?, ?, ?)", rows)

    def _flush(self, kind: type[tuple[Any, ...]]) -> None:
        rows = self._buffers[kind]
        if rows:
            marks = ", ".join("?" * len(rows[0]))
            self._connection.executemany(f"INSERT INTO {TABLES[kind]} VALUES ({marks})", rows)
            rows.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            for row_class in self._buffers:
                self._flush(row_class)
            self._connection.execute("COMMIT")
        self._connection.close()
        if error is not None:
            self._path.unlink()


def create_table(row_class: type[tuple[Any, ...]]) -> str:
    """Return the CREATE TABLE statement of a row class."""
    key = _PRIMARY_KEYS.get(row_class)
    columns = []
    for name, annotation in get_type_hints(row_class).items():
        types = get_args(annotation) or (annotation,)
        null = "" if type(None) in types else " NOT NULL"
        primary = " PRIMARY KEY" if name == key else ""
        columns.append(f'"{name}" {_SQL_TYPES[types[0]]}{null}{primary}')
    return f"CREATE TABLE {TABLES[row_class]} ({', '.join(columns)})"


def a100(number: int = 0) -> Gpu:
    """Return the row that nsys records for an NVIDIA A100-SXM4-40GB (GA100)."""
    return Gpu(
        vmId=MACHINE_ID,
        id=number,
        name="NVIDIA A100-SXM4-40GB",
        busLocation=f"0000:{number + 1:02X}:00.0",
        isDiscrete=1,
        l2CacheSize=41_943_040,
        totalMemory=42_506_321_920,
        memoryBandwidth=1_555_200_000_000,
        clockRate=1_410_000_000,
        smCount=108,
        pwGpuId=number,
        uuid=f"00000000-0000-0000-0000-{number:012d}",
        luid=-1,
        chipName="GA100",
        cuDevice=number,
        ctxswDevPath="",
        ctrlDevPath="",
        revision=161,
        nodeMask=0,
        constantMemory=65_536,
        maxIPC=4,
        maxRegistersPerBlock=65_536,
        maxShmemPerBlock=49_152,
        maxShmemPerBlockOptin=166_912,
        maxShmemPerSm=167_936,
        maxRegistersPerSm=65_536,
        threadsPerWarp=32,
        asyncEngines=5,
        maxWarpsPerSm=64,
        maxBlocksPerSm=32,
        maxThreadsPerBlock=1024,
        maxBlockDimX=1024,
        maxBlockDimY=1024,
        maxBlockDimZ=64,
        maxGridDimX=2**31 - 1,
        maxGridDimY=65_535,
        maxGridDimZ=65_535,
        computeMajor=8,
        computeMinor=0,
        smMajor=8,
        smMinor=0,
    )


def _session_start(utc_ns: int) -> SessionStart:
    text = datetime.fromtimestamp(utc_ns // 10**9, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return SessionStart(utc_ns, text, text)
