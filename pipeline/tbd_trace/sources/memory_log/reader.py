"""Read memory.jsonl, the open format of ``tbd-trace collect --memory``.

The first line is a header; each further line is one event (docs/reference/memory_log.md).
"""

from __future__ import annotations

import json
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import duckdb
import pyarrow as pa

from tbd_trace.errors import InputError
from tbd_trace.sources.base import Ask, TraceDescription
from tbd_trace.sources.memory_log.reserved import reserved_bytes
from tbd_trace.sources.memory_notes import memory_notes
from tbd_trace.sqltext import string

FORMAT = "tbd-trace memory"
VERSION = 1
_SQL = Path(__file__).parent / "sql"
_UNITS = {"ns": 1, "us": 1_000, "ms": 1_000_000}
_COLUMNS = {
    **dict.fromkeys(("t", "bytes", "stream", "used", "total", "reserved"), "BIGINT"),
    "address": "UBIGINT",
    "iteration": "INTEGER",
    **dict.fromkeys(("action", "class", "layer", "phase", "operator", "shape", "dtype"), "VARCHAR"),
}
_ALLOCATORS = {"pytorch": "torch", "tensorflow": "tf_bfc", "mxnet": "mxnet"}
_LOADED = "SELECT 1 FROM duckdb_tables() WHERE table_name = 'memory_log'"
_AGAIN = "record it again with `tbd-trace collect --memory`"


class MemoryLogReader:
    """Reader of one log.

    Raises:
        InputError: the header is invalid.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._header = _header(path)
        self._unit = _UNITS.get(str(self._header.get("time_unit", "ns")))
        if self._header.get("version") != VERSION or self._unit is None:
            raise InputError(
                f"{path}: a memory log of version {self._header.get('version')!r} with times in "
                f"{self._header.get('time_unit')!r}; this program reads version {VERSION} in "
                f"{', '.join(_UNITS)}"
            )

    def relation(self, connection: duckdb.DuckDBPyConnection, table: str) -> str | None:
        """Return a SELECT over the rows of a canonical table, None if the file lacks them."""
        if table == "memory_total":
            return self._totals(connection)
        if table not in ("memory_event", "memory_device"):
            return None
        self._load(connection)
        faults = connection.execute((_SQL / "faults.sql").read_text(encoding="utf-8")).fetchall()
        for event, fault in faults:
            raise InputError(f"{self._path}: event {event}: {fault}; {_AGAIN}")
        sql = (_SQL / f"{table}.sql").read_text(encoding="utf-8")
        for name, value in (
            ("$time_unit", str(self._unit)),
            ("$device", self._device()),
            ("$allocator", string(self._allocator())),
        ):
            sql = sql.replace(name, value)
        return sql

    def _totals(self, connection: duckdb.DuckDBPyConnection) -> str:
        live = self._integer("live_before_bytes") or 0
        rows: list[tuple[int, int | None, int | None]] = [(-1, live, None)]
        if self._models_reserved():
            self._load(connection)
            events = connection.execute(
                "SELECT sequence, action, address, bytes, coalesce(stream, 0) FROM memory_log "
                "WHERE address IS NOT NULL AND bytes IS NOT NULL ORDER BY sequence"
            ).fetchall()
            rows = [
                (-1, live, 0),
                *((at, None, reserved) for at, reserved in reserved_bytes(events)),
            ]
        connection.register(
            "memory_log_total",
            pa.table(
                {
                    "sequence": pa.array([at for at, _, _ in rows], pa.int64()),
                    "requested_bytes": pa.array([live for _, live, _ in rows], pa.int64()),
                    "reserved_bytes": pa.array([reserved for _, _, reserved in rows], pa.int64()),
                }
            ),
        )
        return (
            f"SELECT {self._device()} AS device_id, {string(self._allocator())} AS allocator, * "
            "FROM memory_log_total"
        )

    def _models_reserved(self) -> bool:
        return self._allocator() == "torch" and not self._integer("live_before_bytes")

    def _load(self, connection: duckdb.DuckDBPyConnection) -> None:
        if connection.execute(_LOADED).fetchone():
            return
        columns = ", ".join(f"{name}: '{kind}'" for name, kind in _COLUMNS.items())
        try:
            connection.execute(
                "CREATE TEMP TABLE memory_log AS "
                "SELECT row_number() OVER () - 2 AS sequence, * FROM read_json("
                f"{string(str(self._path))}, format = 'newline_delimited', "
                f"columns = {{{columns}}}, compression = 'none')"
            )
        except duckdb.InvalidInputException as error:
            text = next(iter(str(error).splitlines()), "")
            raise InputError(f"{self._path}: damaged ({text}); {_AGAIN}") from None
        connection.execute("DELETE FROM memory_log WHERE sequence < 0")  # the header

    def _allocator(self) -> str:
        named = self._header.get("allocator")
        framework = str(self._header.get("framework"))
        return named if isinstance(named, str) else _ALLOCATORS.get(framework, "none")

    def _device(self) -> str:
        device = self._integer("device")
        is_known = device is not None and device < 1 << 31
        is_host = self._header.get("device_type") == "cpu"
        return f"{device}::INTEGER" if is_known and not is_host else "NULL::INTEGER"

    def _integer(self, name: str) -> int | None:
        value = self._header.get(name)
        is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63
        return value if is_count else None

    def describe(self, ask: Ask | None = None) -> TraceDescription:
        """Return kind and notes of the file; call after the last `relation`."""
        notes = [] if ask is None else memory_notes(ask)
        if self._models_reserved():
            notes.append(
                "reserved bytes are those of a model of PyTorch's allocator with default settings"
            )
        if self._header.get("estimated") is True:
            notes.append("estimated: tensors had shapes but no data")
        assumptions = self._header.get("assumptions")
        if isinstance(assumptions, list):
            notes += [f"assumed: {text}" for text in assumptions if isinstance(text, str)]
        return TraceDescription("tbd-trace", "memory", schema_version=str(VERSION), notes=notes)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Do nothing: the file is open only while DuckDB reads it."""


def _header(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        return parsed_header(file.readline(1 << 20)) or {}


def parsed_header(line: bytes) -> dict[str, Any] | None:
    """Return the header of a log from its first line, None for another file."""
    try:
        header = json.loads(line)
    except ValueError:
        return None
    return header if isinstance(header, dict) and header.get("format") == FORMAT else None


class MemoryLog:
    """Source for memory logs."""

    format = "memory-log"

    def detect(self, path: Path, head: bytes) -> bool:
        """Return True if the first line is the header of a memory log."""
        return parsed_header(head.split(b"\n", 1)[0]) is not None

    def open(self, path: Path) -> MemoryLogReader:
        """Open a detected file.

        Raises:
            InputError: the header is invalid.
        """
        return MemoryLogReader(path)


MEMORY_LOG = MemoryLog()
