"""Tables of the records in rocprofv3's JSON, and where in a record each column is."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import duckdb
import pyarrow as pa

from tbd_trace.sources.arrow_columns import Damage, column
from tbd_trace.sqltext import identifier

_BATCH_ROWS = 50_000
_TEXTS = frozenset(
    ("category", "operation_name", "message", "command", "display_name", "symbol", "name")
)

Paths = Mapping[str, str]
"""Keys of a record, separated by dots, by column."""

_TIMES = {
    "thread_id": "thread_id",
    "start_ns": "start_timestamp",
    "end_ns": "end_timestamp",
    "call_id": "correlation_id.internal",
    "kind": "kind",
    "operation": "operation",
}
_INFO = "dispatch_info."
CALL: Paths = {**_TIMES, "parent_id": "correlation_id.ancestor"}
COPY: Paths = {
    **_TIMES,
    "src_agent_id": "src_agent_id.handle",
    "dst_agent_id": "dst_agent_id.handle",
    "stream_id": "stream_id.handle",
    "bytes": "bytes",
}
DISPATCH: Paths = {
    **_TIMES,
    "id": f"{_INFO}dispatch_id",
    "agent_id": f"{_INFO}agent_id.handle",
    "kernel_id": f"{_INFO}kernel_id",
    "queue_id": f"{_INFO}queue_id.handle",
    "stream_id": "stream_id.handle",
    "private_bytes": f"{_INFO}private_segment_size",
    "group_bytes": f"{_INFO}group_segment_size",
    **{f"block_{axis}": f"{_INFO}workgroup_size.{axis}" for axis in "xyz"},
    **{f"items_{axis}": f"{_INFO}grid_size.{axis}" for axis in "xyz"},
}
SYMBOL: Paths = {
    "kernel_id": "kernel_id",
    "display_name": "formatted_kernel_name",
    "symbol": "kernel_name",
    "group_bytes": "group_segment_size",
    "vector_registers": "arch_vgpr_count",
    "accumulation_registers": "accum_vgpr_count",
}
AGENT: Paths = {
    "agent_id": "id.handle",
    "kind": "type",
    "device_id": "logical_node_type_id",
    "node_id": "node_id",
    "name": "product_name",
}
OPERATION: Paths = {
    "kind": "kind",
    "operation": "operation",
    "category": "category",
    "operation_name": "name",
}
MESSAGE: Paths = {"call_id": "key", "message": "value"}
PROCESS: Paths = {"pid": "pid", "command": "command"}
_TABLES: dict[str, Paths] = {
    "call": CALL,
    "copy": COPY,
    "dispatch": DISPATCH,
    "symbol": SYMBOL,
    "agent": AGENT,
    "operation": OPERATION,
    "message": MESSAGE,
    "process": PROCESS,
}


@dataclass
class RecordTables:
    """Temporary tables ``json_<name>`` that grow by records.

    ``number`` counts the records of a table, in the order of the file; ``part`` is the recording.
    """

    connection: duckdb.DuckDBPyConnection
    damage: Damage = field(default_factory=Damage)  # values of other types, stored as NULL
    part: int = 0
    _counts: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in _TABLES:
            self._insert("CREATE OR REPLACE TEMP TABLE {} AS FROM rocprof_rows", name, [])

    def add(self, name: str, records: Iterable[Any]) -> None:
        """Append records; values of a list other than objects are damage."""
        batch: list[Mapping[str, Any]] = []
        for record in records:
            if not isinstance(record, dict):
                self.damage.values += 1
                continue
            batch.append(record)
            if len(batch) == _BATCH_ROWS:
                self._insert("INSERT INTO {} FROM rocprof_rows", name, batch)
                batch = []
        if batch:
            self._insert("INSERT INTO {} FROM rocprof_rows", name, batch)

    def _insert(self, statement: str, name: str, records: Sequence[Mapping[str, Any]]) -> None:
        first = self._counts.get(name, 0)
        self._counts[name] = first + len(records)
        columns = {
            "part": pa.array([self.part] * len(records), pa.int64()),
            "number": pa.array(range(first, first + len(records)), pa.int64()),
        }
        for key, path in _TABLES[name].items():
            kind = pa.string() if key in _TEXTS else pa.int64()
            columns[key] = column(_at(records, path.split(".")), kind, self.damage)
        if name == "agent":
            columns["properties"] = pa.array(map(json.dumps, records), pa.string())
        self.connection.register("rocprof_rows", pa.table(columns))
        self.connection.execute(statement.format(identifier(f"json_{name}")))
        self.connection.unregister("rocprof_rows")


def _at(records: Sequence[Any], keys: Sequence[str]) -> list[Any]:
    values: list[Any] = list(records)
    for key in keys:
        values = [value.get(key) if isinstance(value, dict) else None for value in values]
    return values
