"""Write the row of a trace in the catalogue."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from tbd_trace.model.canonical_tables import CATALOGUE, canonical_tables, timed_tables
from tbd_trace.sqltext import string
from tbd_trace.store.capture import CaptureFile
from tbd_trace.store.content import Content
from tbd_trace.store.tables import FAST_PARQUET, table_files, whole_file
from tbd_trace.version import __version__

if TYPE_CHECKING:
    from tbd_trace.sources.base import TraceDescription


def file_columns(file: CaptureFile, content: Content) -> dict[str, object]:
    """Return what the file, its capture and this ingest say about the trace."""
    return {
        "name": unicode_name(file.name),
        "path": unicode_name(str(file.path.resolve())),
        "sha256": content.sha256,
        "file_bytes": content.size,
        "capture_id": file.capture_id,
        "capture": json.dumps(file.metadata, sort_keys=True) if file.metadata else None,
        "batch_size": file.batch_size,
        "ingested_at": datetime.now(UTC).replace(tzinfo=None),
        "ingested_by": __version__,
    }


def content_columns(description: TraceDescription, counts: Mapping[str, int]) -> dict[str, object]:
    """Return what the content of the file says; ``counts`` has the rows by table."""
    return {
        "tool": description.tool,
        "tool_version": description.tool_version,
        "export_version": description.export_version,
        "schema_version": description.schema_version,
        "kind": description.kind,
        "utc_start_ns": description.utc_start_ns,
        "holds": sorted(name for name, rows in counts.items() if rows),
        "lacks": sorted(name for name, rows in counts.items() if not rows),
        "notes": list(dict.fromkeys(description.notes)),
    }


def span_columns(
    connection: duckdb.DuckDBPyConnection, counts: Mapping[str, int], staging: Path
) -> dict[str, int | None]:
    """Return begin and end of the events, from the statistics of the Parquet files."""
    timed = [t for t in timed_tables().values() if t.bounds_trace and counts.get(t.name)]
    if not timed:
        return {"start_ns": None, "end_ns": None}
    files = [str(file) for table in timed for file in table_files(staging, table.name)]
    ((start, end),) = connection.execute(
        """
        SELECT
            min(stats_min_value::BIGINT) FILTER (path_in_schema IN $starts),
            max(stats_max_value::BIGINT) FILTER (path_in_schema IN $ends)
        FROM parquet_metadata($files)
        WHERE path_in_schema IN $starts OR path_in_schema IN $ends
        """,
        {"files": files, "starts": [t.start for t in timed], "ends": [t.end for t in timed]},
    ).fetchall()
    return {"start_ns": start, "end_ns": end}


def write_trace_row(
    connection: duckdb.DuckDBPyConnection, staging: Path, row: Mapping[str, object]
) -> None:
    """Write the row, with a value for each column, as the table of a trace that is staged."""
    table = canonical_tables()[CATALOGUE]
    columns = ", ".join(
        f"CAST(${column.name} AS {column.type}) AS {column.name}" for column in table.columns
    )
    path = string(str(whole_file(staging, CATALOGUE)))
    connection.execute(f"CREATE TEMP TABLE trace_row AS SELECT {columns}", dict(row))
    connection.execute(f"COPY trace_row TO {path} ({FAST_PARQUET})")


def unicode_name(name: str) -> str:
    """Return a name of a file as text: it can hold bytes that are not UTF-8."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")
