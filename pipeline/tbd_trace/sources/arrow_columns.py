"""Turn Python values into Arrow columns; values of other types become NULL."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import duckdb
import pyarrow as pa

from tbd_trace.model.canonical_tables import canonical_tables

_ARROW = {
    "VARCHAR": pa.string(),
    "BIGINT": pa.int64(),
    "UBIGINT": pa.uint64(),
    "INTEGER": pa.int32(),
    "BOOLEAN": pa.bool_(),
    "DOUBLE": pa.float64(),
}


class Damage:
    """Counts the values that were dropped."""

    def __init__(self) -> None:
        self.values = 0


def column(values: Sequence[Any], kind: pa.DataType, damage: Damage) -> pa.Array:
    """Return a column; values that do not fit its type become NULL and are counted."""
    try:
        return pa.array(values, kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        fitting = [value if _fits(value, kind) else None for value in values]
        damage.values += sum(
            value is not None and fit is None for value, fit in zip(values, fitting, strict=True)
        )
        return pa.array(fitting, kind)


def _fits(value: Any, kind: pa.DataType) -> bool:
    try:
        pa.array([value], kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return False
    return True


def register(
    connection: duckdb.DuckDBPyConnection,
    table: str,
    batches: Iterable[Mapping[str, Sequence[Any] | pa.Array]],
    damage: Damage,
) -> str:
    """Register batches of columns as a stream and return a SELECT over it, to be read once.

    Args:
        batches: columns by name, as values or arrays; columns of the table that a batch lacks are
            NULL.
    """
    schema = pa.schema(
        [
            (known.name, _ARROW[known.type])
            for known in canonical_tables()[table].columns
            if known.name != "trace_id"
        ]
    )
    reader = pa.RecordBatchReader.from_batches(schema, _batches(batches, schema, damage))
    connection.register(f"stream_{table}", reader)
    return f"SELECT * FROM stream_{table}"


def _batches(
    batches: Iterable[Mapping[str, Sequence[Any] | pa.Array]], schema: pa.Schema, damage: Damage
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        rows = len(next(iter(batch.values())))
        columns = [_column(batch.get(field.name), field.type, rows, damage) for field in schema]
        if rows:
            yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _column(
    values: Sequence[Any] | pa.Array | None, kind: pa.DataType, rows: int, damage: Damage
) -> pa.Array:
    if values is None:
        return pa.nulls(rows, kind)
    return values if isinstance(values, pa.Array) else column(values, kind, damage)
