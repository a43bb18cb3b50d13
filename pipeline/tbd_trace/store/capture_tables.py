"""Rows of the canonical tables that come from the JSON files of a capture."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import duckdb

from tbd_trace.model.canonical_tables import JOB_POINT, LAYER_DEFINITION
from tbd_trace.store.capture import CaptureFile

_LAYER_TYPES = {
    **{"layer": "string", "position": "int32", "layer_type": "string", "precision": "string"},
    **dict.fromkeys(("parameters", "weight_bytes", "gradient_bytes", "feature_map_bytes"), "int64"),
    **dict.fromkeys(("forward_flop", "backward_flop"), "float64"),
}
_POINT_TYPES = {
    **{"point_id": "int64", "is_own": "bool_", "scheme": "string", "world_size": "int64"},
    **dict.fromkeys(("bandwidth_bits_per_s", "latency_added_s", "median_s"), "float64"),
    **{"iterations": "int64", "quietest_s": "float64", "is_stable": "bool_"},
    **dict.fromkeys(("all_reduce_s", "busbw_bytes_per_s", "host_bytes_per_s"), "float64"),
}


def _layers(file: CaptureFile) -> list[dict[str, Any]]:
    return [
        layer | {"layer": layer["name"], "position": position, "layer_type": layer.get("type")}
        for position, layer in enumerate(file.layers)
    ]


_TABLES: dict[str, tuple[Callable[[CaptureFile], list[dict[str, Any]]], Mapping[str, str]]] = {
    LAYER_DEFINITION: (_layers, _LAYER_TYPES),
    JOB_POINT: (lambda file: file.job_points, _POINT_TYPES),
}
CAPTURE_TABLES = frozenset(_TABLES)
"""The tables that are filled from the JSON files."""


def capture_relation(
    connection: duckdb.DuckDBPyConnection, file: CaptureFile, table: str
) -> str | None:
    """Return a SELECT of one of these tables, None without rows."""
    rows_of, types = _TABLES[table]
    rows = rows_of(file)
    return _registered(connection, table, rows, types) if rows else None


def _registered(
    connection: duckdb.DuckDBPyConnection,
    table: str,
    rows: Sequence[Mapping[str, Any]],
    types: Mapping[str, str],
) -> str:
    import pyarrow as pa  # noqa: PLC0415 - few files have such rows

    schema = pa.schema([(name, getattr(pa, kind)()) for name, kind in types.items()])
    known = [{name: row.get(name) for name in types} for row in rows]
    connection.register(f"{table}_json", pa.Table.from_pylist(known, schema=schema))
    return f"SELECT * FROM {table}_json"
