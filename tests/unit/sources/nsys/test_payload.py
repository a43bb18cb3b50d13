"""The payload of NVTX events, beside what Python makes of each row by itself."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tbd_trace.sources.nsys.columns import EVENTS
from tbd_trace.sources.nsys.payload import with_payload

FLOATS = ("doubleValue", "floatValue")
INTEGERS = ("int64Value", "uint64Value", "int32Value", "uint32Value")
SCHEMA = pa.schema(list(EVENTS["NVTX_EVENTS"].items()))
INT64 = st.integers(-(2**63), 2**63 - 1)

# Few have a payload, and some have several.
Row = dict[str, float | int | None]
rows: st.SearchStrategy[Row] = st.fixed_dictionaries(
    {name: st.none() | st.floats(allow_nan=False) for name in FLOATS}
    | {name: st.none() | INT64 for name in INTEGERS}
) | st.just(dict[str, float | int | None]())


def batch(found: list[Row]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"start": 5, "text": "a", **row} for row in found], SCHEMA)


def expected(row: Row) -> float | None:
    for name in FLOATS + INTEGERS:
        value = row.get(name)
        if value is not None:
            return float(value + 2**64 if name == "uint64Value" and value < 0 else value)
    return None


@given(st.lists(st.lists(rows, max_size=5), max_size=3))
def test_the_first_that_there_is(found: list[list[Row]]) -> None:
    table: Any = with_payload(SCHEMA, map(batch, found)).read_all()
    assert table.column("payload").to_pylist() == [expected(row) for rs in found for row in rs]
    assert set(table.column_names) == set(SCHEMA.names) - {*FLOATS, *INTEGERS} | {"payload"}
    assert table.column("text").to_pylist() == ["a"] * table.num_rows


def test_of_several_the_widest_counts() -> None:
    rows: list[Row] = [
        {"doubleValue": 0.5, "int64Value": 7},
        {"uint64Value": -1, "int32Value": 3},
        {"int32Value": 3, "uint32Value": 4},
        {"int64Value": 2**62 + 1},
        {},
    ]
    payloads = with_payload(SCHEMA, [batch(rows)]).read_all().column("payload")
    assert payloads.to_pylist() == [0.5, 2.0**64, 3.0, 2.0**62, None]
