"""Write and find the Parquet files of a trace: one or more per canonical table."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from pathlib import Path

import duckdb

from tbd_trace.model.canonical_tables import CanonicalTable, TableColumn, canonical_tables
from tbd_trace.runtime.duckdb_connection import column_types
from tbd_trace.sqltext import enumerated, parquet_relation, string

# Delta encodings, for ids and times: smaller, and written in half the time. Larger row groups leave
# the processor's caches, and take a fourth longer.
PARQUET = "FORMAT parquet, PARQUET_VERSION V2, ROW_GROUP_SIZE 40960, WRITE_BLOOM_FILTER false"
FAST_PARQUET = f"{PARQUET}, COMPRESSION lz4_raw"
# Without it, DuckDB looks for up to 24,000 different values of every column, which texts are worth,
# but not ids and times.
_SMALL_DICTIONARIES = "DICTIONARY_SIZE_LIMIT 256"
# By columns: files without rows are the same in all traces.
_empty_files: dict[tuple[TableColumn, ...], bytes] = {}


def table_files(directory: Path, table: str) -> list[Path]:
    """Return the files of a canonical table in a trace's directory, in the order of the rows."""
    whole = whole_file(directory, table)
    if whole.exists():
        return [whole]
    return sorted(directory.glob(f"{table}.*.parquet")) or [whole]


def whole_file(directory: Path, table: str) -> Path:
    """Return the file of a canonical table that is one file."""
    return directory / f"{table}.parquet"


def part_file(directory: Path, table: str, number: int) -> Path:
    """Return the file of one row range of a canonical table; names sort by number."""
    return directory / f"{table}.{number:04}.parquet"


def files_pattern(table: str) -> str:
    """Return a glob pattern for the files of a canonical table."""
    return f"{table}.*parquet"


def write_table(
    connection: duckdb.DuckDBPyConnection,
    select: str | None,
    table: CanonicalTable,
    *,
    trace_id: str,
    file: Path,
    types: Mapping[str, str] | None = None,
) -> int:
    """Write rows of a canonical table and return their number.

    Args:
        connection: a connection on which the SELECT can run.
        select: yields the rows, with some or all columns; None for no rows.
        types: of the columns of the SELECT, by name; None to ask DuckDB, which takes 2 ms.
    """
    if select is None and table.columns in _empty_files:
        file.write_bytes(_empty_files[table.columns])
        return 0
    given = (types or column_types(connection, select)) if select else {}
    rows = f"FROM ({select})" if select else "WHERE false"
    has_texts = "VARCHAR" in given.values()  # beside enumerations, which are dictionaries
    options = FAST_PARQUET if has_texts else f"{FAST_PARQUET}, {_SMALL_DICTIONARIES}"
    ((written,),) = connection.execute(
        f"COPY (SELECT {enumerated(trace_id)} AS trace_id, {_projected(table, given)} {rows}) "
        f"TO {string(str(file))} ({options})"
    ).fetchall()
    if select is None:
        _empty_files[table.columns] = file.read_bytes()
    return int(written)


def _projected(table: CanonicalTable, given: Mapping[str, str]) -> str:
    # A number out of the range of its type becomes NULL. Enumerations are written as such: as
    # dictionaries they cost nothing, and read back as texts.
    parts = []
    for column in table.columns:
        if column.name == "trace_id":
            continue
        value = column.name if column.name in given else "NULL"
        if not given.get(column.name, "").startswith("ENUM("):
            value = f"TRY_CAST({value} AS {column.type})"
        parts.append(f"{value} AS {column.name}")
    return ", ".join(parts)


def rewrite(
    connection: duckdb.DuckDBPyConnection,
    directory: Path,
    table: str,
    select: str,
    counts: MutableMapping[str, int],
) -> None:
    """Replace the rows of a written canonical table.

    Args:
        connection: has a view with the table's name over its files; it stays valid.
        select: yields the new rows, from the view.
        counts: rows by table; updated.
    """
    new = directory / f"{table}.new"
    canonical = canonical_tables()[table]
    ((trace_id,),) = connection.execute(f"SELECT any_value(trace_id) FROM {table}").fetchall()
    counts[table] = write_table(connection, select, canonical, trace_id=str(trace_id), file=new)
    for file in table_files(directory, table):
        file.unlink()
    new.rename(whole_file(directory, table))
    rows = parquet_relation([whole_file(directory, table)])
    connection.execute(f"CREATE OR REPLACE TEMP VIEW {table} AS {rows}")
