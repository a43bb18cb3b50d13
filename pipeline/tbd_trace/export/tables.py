"""Export a table of traces to a file."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import TYPE_CHECKING

from tbd_trace import query as queries
from tbd_trace.errors import UsageError
from tbd_trace.model.canonical_tables import canonical_tables
from tbd_trace.query.catalogue import derived_names
from tbd_trace.runtime.atomic_write import atomic_write
from tbd_trace.runtime.sigint import interruptible
from tbd_trace.runtime.write_failure import os_errors
from tbd_trace.sqltext import identifier, string
from tbd_trace.store.read_errors import reading
from tbd_trace.store.selection import Selection

if TYPE_CHECKING:
    import duckdb


_COPY_OPTIONS = {".parquet": "FORMAT parquet, COMPRESSION zstd", ".csv": "FORMAT csv, HEADER"}


def relations() -> list[str]:
    """Return the names of the canonical and derived tables."""
    return [*canonical_tables(), *sorted(derived_names())]


def export(traces: Selection, name: str, path: Path, *, excel_safe: bool = False) -> int:
    """Write a table to a file and return the number of rows.

    Args:
        path: a .parquet or .csv file.
        excel_safe: quote texts in CSV that a spreadsheet would take for formulas.

    Raises:
        TbdTraceError: the file cannot be written.
        UsageError: the table or the extension is unknown, or ``excel_safe`` is set for Parquet.
    """
    if name not in relations():
        close = difflib.get_close_matches(name, relations(), n=3)
        hint = f"; did you mean {', '.join(close)}?" if close else ""
        raise UsageError(f"no table {name!r}{hint} (docs/reference/tables lists them)")
    options = _COPY_OPTIONS.get(path.suffix.lower())
    if options is None:
        raise UsageError(f"{path}: expected a name that ends in {' or '.join(_COPY_OPTIONS)}")
    if excel_safe and path.suffix.lower() != ".csv":
        raise UsageError(f"{path}: --excel-safe is for CSV; choose a name that ends in .csv")
    with (
        reading(traces.database),
        queries.connect(traces.database, traces.trace_ids) as connection,
        interruptible(connection),
        atomic_write(path) as partial,
    ):
        cache = queries.RelationCache(traces.database, traces.trace_ids)
        queries.prepare(connection, [name], cache)
        # Derived tables come from joins without a fixed order; sorting makes files reproducible.
        order = "" if name in canonical_tables() else " ORDER BY ALL"
        safe = _spreadsheet_safe(connection, name) if excel_safe else ""
        rows = f"SELECT *{safe} FROM {identifier(name)}{order}"
        with os_errors(partial):
            counted = connection.execute(
                f"COPY ({rows}) TO {string(str(partial))} ({options})"
            ).fetchall()
    return int(counted[0][0])


def _spreadsheet_safe(connection: duckdb.DuckDBPyConnection, table: str) -> str:
    # The rule of present.csv.spreadsheet_safe, for tables of any size.
    columns = connection.execute(f"DESCRIBE {identifier(table)}").fetchall()
    texts = [identifier(name) for name, kind, *_ in columns if kind == "VARCHAR"]
    quoted = (rf"regexp_replace({t}, '^([=+\-@\t\r])', '''\1') AS {t}" for t in texts)
    return f" REPLACE ({', '.join(quoted)})" if texts else ""
