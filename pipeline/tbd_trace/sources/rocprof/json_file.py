"""Read the JSON of ``rocprofv3 --output-format json``, plain or gzipped."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb

from tbd_trace.errors import InputError
from tbd_trace.sources.base import Ask, TraceDescription
from tbd_trace.sources.rocprof.json_records import RecordTables
from tbd_trace.sources.rocprof.json_stream import JsonStream
from tbd_trace.sources.rocprof.reader import (
    COUNTERS_NOTE,
    RECORD_AGAIN,
    RELATIONS,
    RocprofReader,
    mapping,
)
from tbd_trace.sources.unpacked import Unpacked

_GZIP = b"\x1f\x8b"
_HEAD_BYTES = 1 << 12
_ROOT = "rocprofiler-sdk-tool"
_START = re.compile(rb'\s*\{\s*"' + _ROOT.encode() + rb'"\s*:')
_TABLES = {"kernel_dispatch": "dispatch", "memory_copy": "copy"}
_CALLS = "_api"  # how the names of lists of calls end


class RocprofJsonReader(RocprofReader):
    """Reader of one file."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._tables: RecordTables | None = None
        self._has_counters = False

    def load(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._tables = tables = RecordTables(connection)
        with Unpacked(self._path) as content:
            try:
                self._read(JsonStream(content.read), tables)
            except (ValueError, RecursionError) as error:
                why = content.damage or str(error)
                raise InputError(
                    f"{self._path}: damaged or incomplete JSON of rocprofv3 ({why}); copy it "
                    f"again, or {RECORD_AGAIN}"
                ) from None
        for name in RELATIONS:
            connection.execute(
                f"CREATE OR REPLACE TEMP VIEW record_{name} AS {mapping(f'json/{name}')}"
            )

    def _read(self, stream: JsonStream, tables: RecordTables) -> None:
        for root in stream.fields():
            if root != _ROOT:
                stream.skip()
                continue
            for part, _ in enumerate(stream.items()):
                tables.part = part
                self._read_recording(stream, tables)

    def _read_recording(self, stream: JsonStream, tables: RecordTables) -> None:
        for key in stream.fields():
            match key:
                case "metadata":
                    tables.add("process", [_process(stream.value())])
                case "agents":
                    tables.add("agent", stream.values())
                case "kernel_symbols":
                    tables.add("symbol", stream.values())
                case "strings":
                    _read_strings(stream, tables)
                case "callback_records" | "buffer_records":
                    self._read_records(stream, tables)
                case _:
                    stream.skip()

    def _read_records(self, stream: JsonStream, tables: RecordTables) -> None:
        for key in stream.fields():
            table = _TABLES.get(key) or ("call" if key.endswith(_CALLS) else None)
            if table:
                tables.add(table, stream.values())
            elif key == "counter_collection":
                self._has_counters |= sum(1 for _ in stream.values()) > 0
            else:
                stream.skip()

    def describe(self, _ask: Ask | None = None) -> TraceDescription:
        """Return the metadata of the file; rocprofv3 does not write its version."""
        description = TraceDescription("rocprof", "timeline")
        if self._has_counters:
            description.notes.append(COUNTERS_NOTE)
        if self._tables is not None and self._tables.damage.values:
            number = self._tables.damage.values
            description.notes.append(f"values of another type than expected: {number:,}; NULL")
        return description


def _process(metadata: Any) -> Any:
    if not isinstance(metadata, dict):
        return metadata
    command = metadata.get("command")
    # Arguments can contain secrets, and the table of processes has only the name.
    program = str(command[0]) if isinstance(command, list) and command else None
    return metadata | {"command": program}


def _read_strings(stream: JsonStream, tables: RecordTables) -> None:
    for key in stream.fields():
        match key:
            case "buffer_records":
                tables.add("operation", _operations(stream.value()))
            case "marker_api":
                tables.add("message", stream.values())
            case _:
                stream.skip()


def _operations(kinds: Any) -> Iterator[dict[str, Any]]:
    # Records name their kind and operation by the positions in these lists.
    for kind, each in enumerate(kinds if isinstance(kinds, list) else []):
        names = each.get("operations") if isinstance(each, dict) else None
        for operation, name in enumerate(names if isinstance(names, list) else []):
            yield {
                "kind": kind,
                "operation": operation,
                "category": each.get("kind"),
                "name": name,
            }


class RocprofJsonSource:
    """JSON of rocprofv3 (``*_results.json``)."""

    format = "rocprof-json"

    def detect(self, path: Path, head: bytes) -> bool:
        """Return True for JSON that begins as that of rocprofv3, plain or gzipped."""
        if head.startswith(_GZIP):
            with Unpacked(path) as content:
                head = content.read(_HEAD_BYTES)
        return _START.match(head.removeprefix(b"\xef\xbb\xbf")) is not None

    def open(self, path: Path) -> RocprofJsonReader:
        """Open a detected file; damage is found when the first table is read."""
        return RocprofJsonReader(path)


ROCPROF_JSON = RocprofJsonSource()
