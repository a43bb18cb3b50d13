"""Any table of some traces as a file of its own."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from tbd_trace import query as queries
from tbd_trace.errors import TbdTraceError, UsageError
from tbd_trace.model.canonical_tables import canonical_tables
from tbd_trace.query.catalogue import derived_names
from tbd_trace.runtime.atomic_write import written_beside
from tbd_trace.runtime.sigint import interruptible
from tbd_trace.sqltext import identifier, string
from tbd_trace.store.read_errors import reading

if TYPE_CHECKING:
    from tbd_trace.api import Traces

_FORMS = {".parquet": "FORMAT parquet, COMPRESSION zstd", ".csv": "FORMAT csv, HEADER"}


def relations() -> list[str]:
    """Return the names of the canonical and the derived tables."""
    return [*canonical_tables(), *sorted(derived_names())]


def export(traces: Traces, name: str, path: Path) -> int:
    """Write a table to a file, row by row, and return the number of rows.

    Args:
        traces: whose rows.
        name: a canonical or derived table.
        path: the file: .parquet or .csv.

    Raises:
        TbdTraceError: the file cannot be written.
        UsageError: there is no such table, or the file's extension is another.
    """
    if name not in relations():
        close = difflib.get_close_matches(name, relations(), n=3)
        hint = f"; did you mean {', '.join(close)}?" if close else ""
        raise UsageError(f"no table {name!r}{hint} (docs/reference/tables.md lists them)")
    form = _FORMS.get(path.suffix.lower())
    if form is None:
        raise UsageError(f"{path}: expected a name that ends in {' or '.join(_FORMS)}")
    with (
        reading(traces.database),
        traces.connect() as connection,
        interruptible(connection),
        written_beside(path) as beside,
    ):
        kept = queries.RelationCache(traces.database, traces.trace_ids)
        queries.prepare(connection, [name], kept)
        # Joins put rows in any order; the same question has the same answer, line by line.
        order = "" if name in canonical_tables() else " ORDER BY ALL"
        rows = f"SELECT * FROM {identifier(name)}{order}"
        try:
            counted = connection.execute(
                f"COPY ({rows}) TO {string(str(beside))} ({form})"
            ).fetchall()
        except duckdb.IOException as error:
            reason = str(error).splitlines()[0]
            raise TbdTraceError(f"{path}: cannot be written ({reason})") from error
    return int(counted[0][0])
