"""Redaction policy of each text column of the canonical tables."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import duckdb

from tbd_trace.model.canonical_tables import CanonicalTable
from tbd_trace.redact.text import CANDIDATE
from tbd_trace.sqltext import identifier, string

COLUMN_POLICIES = ("fixed", "code", "text", "file", "document", "device")
"""How a text column is redacted, as the header of its canonical table names it.

fixed: words from a fixed list of the reader, the profiler or CUDA, hashes and versions; never
private. code: names of functions, whose words stay even if a user has such a name. text: what
people and programs write. file: a path. document: JSON. device: UUID of a GPU.
"""


def text_columns(table: CanonicalTable) -> dict[str, str]:
    """Return the policy of each column of a canonical table that may hold private data.

    A column that the table's header does not list is redacted as ``text``.
    """
    return {
        column.name: table.privacy.get(column.name, "text")
        for column in table.columns
        if column.type.startswith("VARCHAR")
        and column.name != "trace_id"
        and table.privacy.get(column.name) != "fixed"
    }


def candidates(
    connection: duckdb.DuckDBPyConnection,
    relation: str,
    column: str,
    policy: str,
    words: Sequence[str] = (),
) -> dict[Any, int]:
    """Return the sorted texts of a column that may hold private data, with their row counts.

    Args:
        connection: connection on which the SELECT runs.
        column: one of its columns; list values are returned as tuples.
        policy: a key of :data:`COLUMN_POLICIES`.
        words: user and host names to search for in texts.
    """
    name = identifier(column)
    matches = f"{name} IS NOT NULL"
    # DuckDB filters with RE2, so that Python only receives the few texts that can change.
    if policy in ("text", "code"):
        patterns = [CANDIDATE, *(map(re.escape, words) if policy == "text" else ())]
        matches = f"regexp_matches({name}::VARCHAR, {string('|'.join(patterns))})"
    rows = connection.execute(
        f"SELECT {name}, count(*) FROM ({relation}) WHERE {matches} GROUP BY ALL ORDER BY ALL"
    ).fetchall()
    return {tuple(text) if isinstance(text, list) else text: number for text, number in rows}
