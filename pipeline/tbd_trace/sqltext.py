"""Write Python values as SQL of DuckDB, for statements that do not accept parameters."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path


def string(value: str) -> str:
    """Quote an SQL string."""
    return "'" + value.replace("'", "''") + "'"


def enumerated(value: str) -> str:
    """Return an SQL string of an ENUM type that has only this value."""
    # A column of it takes one byte per row, and sorts and joins carry no text.
    return f"CAST({string(value)} AS ENUM({string(value)}))"


def literal(value: str | int | float | bool | None) -> str:
    """Return the SQL literal of a scalar."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):  # before int, of which bool is a subclass
        return "true" if value else "false"
    return string(value) if isinstance(value, str) else repr(value)


def set_variable(name: str, value: str | int | float | bool | None) -> str:
    """Return the statement that sets a parameter of a query."""
    return f"SET VARIABLE {identifier(name)} = {literal(value)}"


def identifier(name: str) -> str:
    """Quote an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def glob_escaped(path: Path) -> str:
    """Escape ``[``, ``*`` and ``?`` of a path, because DuckDB's readers take glob patterns."""
    return "".join(f"[{c}]" if c in "[*?" else c for c in str(path))


def parquet_relation(files: Iterable[Path]) -> str:
    """Return a SELECT of the Parquet files of one table."""
    # By default, DuckDB adds columns for directories that are named name=value.
    listed = ", ".join(string(glob_escaped(path)) for path in files)
    return f"SELECT * FROM read_parquet([{listed}], hive_partitioning = false)"


def with_trace_id_enum(relation: str, trace_id: str) -> str:
    """Return a SELECT of the rows of one trace with its id as an ENUM.

    Sorts, joins and tables copy the id of each row: an ENUM takes 1 byte, text takes 16.
    """
    return f"SELECT * REPLACE ({enumerated(trace_id)} AS trace_id) FROM ({relation})"


def csv_relation(file: Path) -> str:
    """Return a SELECT of a CSV file; a column is numeric if all its values are, else text."""
    # With a given dialect, DuckDB detects the rest in a fifth of the time. All rows are sampled
    # (-1), because the first text of a column may be in its last row.
    return (
        f"SELECT * FROM read_csv({string(glob_escaped(file))}, header = true, delim = ',', "
        "quote = '\"', escape = '\"', sample_size = -1, hive_partitioning = false)"
    )
