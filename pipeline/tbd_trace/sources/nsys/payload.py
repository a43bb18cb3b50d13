"""The payload of an NVTX event: one number, which an export has in the column of its type."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

_UNSIGNED = "uint64Value"
_COLUMNS = (
    "doubleValue",
    "floatValue",
    "int64Value",
    _UNSIGNED,
    "int32Value",
    "uint32Value",
)


def with_payload(schema: pa.Schema, events: Iterable[pa.RecordBatch]) -> pa.RecordBatchReader:
    """Return rows of ``NVTX_EVENTS`` with a float64 column ``payload`` instead of six.

    It is worked out here, not in the mapping: nearly all events have none, which is known of many
    rows at once, while SQL looks at six columns of each.

    Args:
        schema: the columns of the rows.
        events: the rows.
    """
    fields = [field for field in schema if field.name not in _COLUMNS]
    names = [field.name for field in fields]
    wanted = pa.schema([*fields, pa.field("payload", pa.float64())])
    batches = (
        pa.RecordBatch.from_arrays([*map(batch.column, names), _payload(batch)], schema=wanted)
        for batch in events
    )
    return pa.RecordBatchReader.from_batches(wanted, batches)


def _payload(events: pa.RecordBatch) -> pa.Array:
    """Return the first payload that each event has, NULL where there is none."""
    columns = {name: events.column(name) for name in _COLUMNS}
    given = {name: column for name, column in columns.items() if column.null_count < len(column)}
    if not given:
        return pa.nulls(events.num_rows, pa.float64())
    import pyarrow.compute as pc  # noqa: PLC0415 - slow to import, and few files have payloads

    if _UNSIGNED in given:  # SQLite has no unsigned integers
        given[_UNSIGNED] = given[_UNSIGNED].view(pa.uint64())
    return pc.coalesce(*(column.cast(pa.float64(), safe=False) for column in given.values()))
