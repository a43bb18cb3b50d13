"""Columns of the SELECTs of traces of torch.profiler, which are the same in all of them."""

from __future__ import annotations

from pathlib import Path

import duckdb

from tbd_trace.model.canonical_tables import event_tables
from tbd_trace.runtime.duckdb_connection import column_types
from tbd_trace.sources.kineto.reader import TorchTraceReader


def fixed_columns(path: Path) -> dict[str, dict[str, str]]:
    """Return the types of DuckDB by table, after comparing the reader's; they may be cached."""
    found = {}
    with duckdb.connect() as connection, TorchTraceReader(path) as reader:
        for table in event_tables():
            select = reader.relation(connection, table)
            if select is None:
                continue
            fixed = reader.column_types(connection, table)
            if fixed is None:
                assert table in ("device", "job_rank")
                continue
            found[table] = column_types(connection, select)
            assert fixed == found[table], table
    return found
