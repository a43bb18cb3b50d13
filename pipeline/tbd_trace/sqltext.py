"""Writing Python values as DuckDB literals, for statements that take no parameters."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path


def string(value: str) -> str:
    """Return a quoted SQL string."""
    return "'" + value.replace("'", "''") + "'"


def enumerated(value: str) -> str:
    """Return an SQL string of a type that has only this value."""
    return f"CAST({string(value)} AS ENUM({string(value)}))"


def literal(value: str | int | float | bool | None) -> str:
    """Return a SQL literal of a scalar."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    return string(value) if isinstance(value, str) else repr(value)


def set_variable(name: str, value: str | int | float | bool | None) -> str:
    """Return the statement that gives a query's parameter its value."""
    return f"SET VARIABLE {identifier(name)} = {literal(value)}"


def identifier(name: str) -> str:
    """Return a quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def glob_escaped(path: Path) -> str:
    """Return a path as a DuckDB pattern without wildcards: ``[``, ``*``, ``?`` are themselves."""
    return "".join(f"[{c}]" if c in "[*?" else c for c in str(path))


def parquet_relation(files: Iterable[Path]) -> str:
    """Return the SELECT of Parquet files of one table.

    What their directories are called (``name=value``, for one) does not matter.
    """
    listed = ", ".join(string(glob_escaped(path)) for path in files)
    return f"SELECT * FROM read_parquet([{listed}], hive_partitioning = false)"


def of_one_trace(relation: str, trace_id: str) -> str:
    """Return the SELECT of one trace's rows with its id as a constant of one byte.

    Every sort, join and table made of the rows carries the id along: as text it takes 16 bytes.
    """
    return f"SELECT * REPLACE ({enumerated(trace_id)} AS trace_id) FROM ({relation})"


def csv_relation(file: Path) -> str:
    """Return the SELECT of a data table; every value is text unless the whole column is numeric.

    Told how the file is written, DuckDB finds out the rest in a fifth of the time.
    """
    return (
        f"SELECT * FROM read_csv({string(glob_escaped(file))}, header = true, delim = ',', "
        "quote = '\"', escape = '\"', sample_size = -1, hive_partitioning = false)"
    )
