"""Remove duplicate ids from the string tables of profiles."""

from __future__ import annotations

import duckdb

from tbd_trace.sqltext import identifier

DUPLICATES_NOTE = "texts that repeat the id of another text: {:,}; the first text of each id counts"


def drop_duplicate_ids(connection: duckdb.DuckDBPyConnection, table: str, key: str) -> int:
    """Keep the first row of each key in a temporary table and return the number of removed rows."""
    # A join with the table would otherwise multiply the events.
    name, column = identifier(table), identifier(key)
    ((duplicates,),) = connection.execute(
        f"SELECT count({column}) - count(DISTINCT {column}) FROM {name}"
    ).fetchall()
    if duplicates:
        first = f"SELECT min(rowid) FROM {name} GROUP BY {column}"
        connection.execute(f"DELETE FROM {name} WHERE rowid NOT IN ({first})")
    return int(duplicates)
