"""Merge the payload columns of NVTX events, one per type, into one."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

_UNSIGNED = "uint64Value"
# In order of precedence; an event has a value in at most one of them.
_COLUMNS = (
    "doubleValue",
    "floatValue",
    "int64Value",
    _UNSIGNED,
    "int32Value",
    "uint32Value",
)


def with_payload(schema: pa.Schema, events: Iterable[pa.RecordBatch]) -> pa.RecordBatchReader:
    """Return rows of ``NVTX_EVENTS`` with one float64 column ``payload`` instead of six columns."""
    # Not in SQL: nearly all events have no payload, which Arrow knows per batch, while SQL would
    # evaluate six columns in each row.
    fields = [field for field in schema if field.name not in _COLUMNS]
    names = [field.name for field in fields]
    wanted = pa.schema([*fields, pa.field("payload", pa.float64())])
    batches = (
        pa.RecordBatch.from_arrays([*map(batch.column, names), _payload(batch)], schema=wanted)
        for batch in events
    )
    return pa.RecordBatchReader.from_batches(wanted, batches)


def _payload(events: pa.RecordBatch) -> pa.Array:
    columns = {name: events.column(name) for name in _COLUMNS}
    given = {name: column for name, column in columns.items() if column.null_count < len(column)}
    if not given:
        return pa.nulls(events.num_rows, pa.float64())
    import pyarrow.compute as pc  # noqa: PLC0415 - slow to import, and few files have payloads

    if _UNSIGNED in given:  # stored as signed, because SQLite has no unsigned integers
        given[_UNSIGNED] = given[_UNSIGNED].view(pa.uint64())
    return pc.coalesce(*(column.cast(pa.float64(), safe=False) for column in given.values()))
