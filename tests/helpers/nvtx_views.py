"""The views nvtx_range and nvtx_mark over rows that a reader hands over."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import duckdb

from tbd_trace import resources

Rows = list[dict[str, Any]]
VIEWS = ("nvtx_range", "nvtx_mark")


def canonical_names(names: Iterable[str]) -> list[str]:
    """Return the canonical tables behind some tables and views."""
    return list(dict.fromkeys("annotation" if name in VIEWS else name for name in names))


def nvtx_rows(annotations: Rows) -> dict[str, Rows]:
    """Return the rows of the views by name, worked out apart from their SQL."""
    ranges, marks = [], []
    for row in annotations:
        assert row["source"] == "nvtx"
        rest = {key: value for key, value in row.items() if key not in ("annotation_id", "source")}
        if row["kind"] == "mark":
            assert row["start_ns"] == row["end_ns"]
            assert not row["is_open"]
            kept = ("process_id", "thread_id", "domain_id", "domain", "text")
            mark = {key: rest[key] for key in kept if key in rest}
            marks.append({"timestamp_ns": row["start_ns"]} | mark)
        else:
            ranges.append({"nvtx_range_id": row["annotation_id"]} | rest)
    return {"nvtx_range": ranges, "nvtx_mark": marks}


def create_views(connection: duckdb.DuckDBPyConnection) -> None:
    """Create the views on a connection that has the table annotation."""
    for name in VIEWS:
        sql = resources.sql_files("derive")[name].read_text(encoding="utf-8")
        connection.execute(f"CREATE OR REPLACE TEMP VIEW {name} AS {sql}")
