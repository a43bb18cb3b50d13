"""Read traces of torch.profiler: JSON, also gzipped."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import duckdb

from tbd_trace.errors import InputError
from tbd_trace.model.canonical_tables import canonical_tables
from tbd_trace.runtime.duckdb_connection import column_types
from tbd_trace.sources.base import Ask, TraceDescription
from tbd_trace.sources.demangle import demangle, is_mangled, short_name
from tbd_trace.sources.kineto.call_clock import create_moved_calls
from tbd_trace.sources.kineto.detection import is_trace
from tbd_trace.sources.kineto.devices import device_rows, is_rocm
from tbd_trace.sources.kineto.event_block import FRAME, KINDS
from tbd_trace.sources.kineto.event_list import EventList
from tbd_trace.sources.kineto.kept_events import KeptEvents
from tbd_trace.sources.kineto.processes import create_process_macros
from tbd_trace.sources.kineto.ranks import rank_row
from tbd_trace.sources.kineto.trace_notes import launch_notes, trace_notes
from tbd_trace.sources.memory_notes import memory_notes
from tbd_trace.sources.unpacked import Unpacked
from tbd_trace.sources.value_table import create_value_table

_MAPPINGS = Path(__file__).with_name("sql")
_RECORD = "record one with `torch.profiler.profile(...)` and `export_chrome_trace(FILE)`"
# Kinds of events that the mapping of each table reads.
_KINDS = {
    "annotation": ("operator", "user", "module", "overhead", FRAME),
    "api_call": ("call",),
    "collective_record": ("kernel", "operator", "user"),
    "event_wait": ("synchronization",),
    "kernel": ("kernel",),
    "kernel_metric": ("kernel",),
    "memcpy": ("memcpy",),
    "memory_event": ("memory",),
    "memory_total": ("memory",),
    "memset": ("memset",),
    "operator_input": ("operator",),
    "synchronization": ("synchronization",),
}
_MAPPED = (*_KINDS, "process", "thread")
_column_types: dict[str, dict[str, str]] = {}  # by table, of all files of the process
_GPU = "('kernel', 'memcpy', 'memset', 'synchronization')"
_ASCEND = """
    SELECT DISTINCT json_extract_string(args, '$.name') FROM event
    WHERE kind = 'process_name' AND pid IN (
        SELECT pid FROM event WHERE kind = 'kernel' AND args ->> '$."Task Type"' IS NOT NULL)"""
_EPOCH_NS = 10**18  # times from here on count from 1970
_MACROS = r"""
    CREATE OR REPLACE TEMP MACRO stream_number(tid) AS
        TRY_CAST(regexp_extract(tid, '(\d+)$', 1) AS BIGINT);
    -- Not a CASE of eight kinds: it takes 3 ms to plan.
    CREATE OR REPLACE TEMP MACRO memory_kind(word) AS
        if(list_contains(['device', 'pinned', 'pageable', 'array', 'managed', 'device static',
            'managed static', 'unknown'], lower(word)), lower(word), NULL);
"""


class TorchTraceReader:
    """Reader of one trace.

    Raises:
        InputError: the file cannot be read.
    """

    # The file is read once, when the first table is asked for; a mapping (sql/<table>.sql) selects
    # each table from the view `event`.

    def __init__(self, path: Path) -> None:
        self._path = path
        self._kept = KeptEvents()
        self._events: EventList | None = None
        self._unpacking_damage: str | None = None
        self._out_of_range = 0  # values of the header
        self._notes: list[str] = []
        self._keeps_frames = False
        self._is_rocm = False

    def keep_python_frames(self) -> None:
        """Keep the frames of Python as annotations; call before `select_tables`."""
        self._keeps_frames = True

    def select_tables(self, tables: Collection[str]) -> None:
        """Read only the events of some canonical tables from now on."""
        kinds = {kind for table in tables for kind in _KINDS.get(table, ())}
        if "api_call" in tables:
            kinds.add("operator")  # into which calls of HIP can be moved
        if not self._keeps_frames:
            kinds.discard(FRAME)
        names = {f"{table}_name" for table in ("process", "thread") if table in tables}
        if "device" in tables:
            kinds |= {"kernel", "memcpy", "memset", "synchronization"}
            names.add("process_name")
        # Calls give the process of GPU operations.
        self._kept.kinds = [kind for kind in (*KINDS, FRAME) if kind in kinds | names | {"call"}]

    def relation(self, connection: duckdb.DuckDBPyConnection, table: str) -> str | None:
        """Return a SELECT over the rows of a canonical table, None if the file lacks them.

        Raises:
            InputError: the file has no events.
        """
        if self._events is None:
            self._events = self._read(connection)
        if table == "device":
            return self._devices(connection, self._events)
        if table == "job_rank":
            row = rank_row(self._events.header)
            return self._rows(connection, table, [row]) if row else None
        is_host = table in ("process", "thread")
        if not (self._kept.threads if is_host else self._kept.holds(*_KINDS.get(table, ()))):
            return None
        if table == "annotation":
            self._create_module_paths(connection)
        return _mapping(table)

    def column_types(
        self, connection: duckdb.DuckDBPyConnection, table: str
    ) -> Mapping[str, str] | None:
        """Return the columns of a mapping, which are the same in all files."""
        if table not in _MAPPED:
            return None
        if table not in _column_types:
            _column_types[table] = column_types(connection, _mapping(table))
        return _column_types[table]

    def _read(self, connection: duckdb.DuckDBPyConnection) -> EventList:
        with Unpacked(self._path) as content, _single_thread(connection):
            events = EventList(content, partial(self._kept.load, connection))
            has_list = events.read()
            self._kept.finish()
            self._unpacking_damage = content.damage
        if not has_list or not self._kept.events:
            why = f" ({self._unpacking_damage})" if self._unpacking_damage else ""
            raise InputError(f"{self._path}: a PyTorch trace without events{why}; {_RECORD}")
        self._kept.create_view(connection)
        _create_kernel_names(connection)
        connection.execute(_MACROS)
        self._is_rocm = _is_rocm(connection, events)
        self._notes += create_moved_calls(connection, is_rocm=self._is_rocm)
        self._notes += create_process_macros(connection, self._kept.threads, _mapping("api_call"))
        connection.execute(f"CREATE OR REPLACE TEMP VIEW _memory AS {_mapping('_memory')}")
        return events

    def _devices(self, connection: duckdb.DuckDBPyConnection, events: EventList) -> str | None:
        used = _used_devices(connection) if self._is_rocm else set()
        rows, notes = device_rows(events.header, used, self._is_rocm)
        self._notes += notes
        if not rows:  # torch_npu names the device in place of a process
            named = connection.execute(_ASCEND).fetchall()
            rows = [{"device_id": 0, "name": name} for (name,) in named]
        return self._rows(connection, "device", rows) if rows else None

    def _rows(
        self, connection: duckdb.DuckDBPyConnection, table: str, rows: Sequence[Mapping[str, Any]]
    ) -> str:
        # A SELECT of rows of a canonical table; columns that they lack are NULL.
        columns = {
            column.name: (column.type, [row.get(column.name) for row in rows])
            for column in canonical_tables()[table].columns
            if column.name != "trace_id"
        }
        create_value_table(connection, f"kineto_{table}", columns)
        counts = " + ".join(f"count({column})" for column in columns)
        ((stored,),) = connection.execute(f"SELECT {counts} FROM kineto_{table}").fetchall()
        given = sum(cell is not None for _, cells in columns.values() for cell in cells)
        self._out_of_range += given - int(stored)
        return f"SELECT * FROM kineto_{table}"

    def _create_module_paths(self, connection: duckdb.DuckDBPyConnection) -> None:
        if self._kept.frames is not None:
            connection.register("module_path", self._kept.frames.paths())
            return
        connection.execute(
            "CREATE OR REPLACE TEMP TABLE module_path (event_id BIGINT, path VARCHAR)"
        )

    def describe(self, ask: Ask | None = None) -> TraceDescription:
        """Return version, start and notes of the file; call after the last `relation`."""
        events = self._events
        if events is None:  # no table was wanted
            with duckdb.connect() as connection:
                events = self._events = self._read(connection)
        notes = trace_notes(self._path.name, events, self._kept, self._unpacking_damage)
        notes += self._notes
        if ask is not None:
            notes += launch_notes(ask) if self._kept.holds("kernel") else []
            notes += memory_notes(ask) if self._kept.holds("memory") else []
        if self._out_of_range:
            notes.append(f"values of the header out of range: {self._out_of_range:,}; NULL")
        schema = events.header.get("schemaVersion")
        version = events.header.get("torch_version")  # added by `tbd-trace collect`
        return TraceDescription(
            tool="torch",
            kind="timeline",
            tool_version=version if isinstance(version, str) else None,
            schema_version=None if schema is None else str(schema),
            utc_start_ns=self._utc_start(events.header.get("baseTimeNanoseconds")),
            notes=notes,
        )

    def _utc_start(self, base: Any) -> int | None:
        if self._kept.first_ns is not None and self._kept.first_ns >= _EPOCH_NS:
            return 0
        try:
            start = int(base)
        except (TypeError, ValueError, OverflowError):
            return None
        return start if 0 < start < 1 << 63 else None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._kept.close()


@contextlib.contextmanager
def _single_thread(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    # More threads of DuckDB find nothing to share in one block, and take a sixth more CPU time.
    ((threads,),) = connection.execute("SELECT current_setting('threads')").fetchall()
    connection.execute("SET threads = 1")
    try:
        yield
    finally:
        connection.execute(f"SET threads = {threads}")


@cache
def _mapping(name: str) -> str:
    return (_MAPPINGS / f"{name}.sql").read_text(encoding="utf-8")


def _is_rocm(connection: duckdb.DuckDBPyConnection, events: EventList) -> bool:
    if is_rocm(events.header):
        return True
    ((hip,),) = connection.execute(
        "SELECT count(*) FROM event WHERE kind = 'call' AND starts_with(name, 'hip')"
    ).fetchall()
    return bool(hip)


def _used_devices(connection: duckdb.DuckDBPyConnection) -> set[int]:
    rows = connection.execute(
        f"""
        SELECT DISTINCT coalesce(TRY_CAST(json_extract_string(args, '$.device') AS INTEGER),
            TRY_CAST(pid AS INTEGER))
        FROM event WHERE kind IN {_GPU}
        """
    ).fetchall()
    return {device for (device,) in rows if device is not None}


def _create_kernel_names(connection: duckdb.DuckDBPyConnection) -> None:
    rows = connection.execute("SELECT DISTINCT name FROM event WHERE kind = 'kernel'").fetchall()
    names = [name for (name,) in rows]
    demangled = [demangle(name) for name in names]
    columns = {
        "name": names,
        "demangled": demangled,
        "short_name": [short_name(name) for name in demangled],
        "mangled_name": [name if is_mangled(name) else None for name in names],
    }
    typed = {name: ("VARCHAR", values) for name, values in columns.items()}
    create_value_table(connection, "kernel_name", typed)


class TorchTrace:
    """Source for traces of torch.profiler."""

    format = "torch-json"

    def detect(self, path: Path, head: bytes) -> bool:
        """Return True for a list of events with categories or a header of torch."""
        return is_trace(path, head)

    def open(self, path: Path) -> TorchTraceReader:
        """Open a detected file; it is read when the first table is asked for."""
        return TorchTraceReader(path)


TORCH_TRACE = TorchTrace()
