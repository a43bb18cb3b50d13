"""DuckDB's sqlite scanner to Parquet: python scanner_to_parquet.py FILE COLUMNS.json DIRECTORY.

With ``any`` appended, row order is not preserved, which lets several threads read a table.
"""

import json
import sys
from pathlib import Path

import duckdb
import duckdb_extension_sqlite_scanner as extension  # type: ignore[import-not-found,unused-ignore]


def main(file: str, columns: str, directory: str, order: str = "") -> None:
    """Write a Parquet file for each wanted table of the file."""
    wanted = json.loads(Path(columns).read_text(encoding="utf-8"))
    (library,) = Path(extension.__file__).parent.glob("extensions/*/*.duckdb_extension")
    connection = duckdb.connect()
    connection.execute(f"LOAD '{library}'")
    if order == "any":
        connection.execute("SET preserve_insertion_order = false")
    connection.execute(f"ATTACH '{file}' AS trace (TYPE sqlite, READ_ONLY)")
    present: dict[str, list[str]] = {}
    for table, column in connection.execute(
        "SELECT table_name, column_name FROM duckdb_columns() WHERE database_name = 'trace'"
    ).fetchall():
        present.setdefault(table, []).append(column)
    for table, kinds in wanted.items():
        chosen = ", ".join(f'"{name}"' for name in kinds if name in present.get(table, []))
        if chosen:
            target = Path(directory) / f"{table}.parquet"
            connection.execute(
                f'COPY (SELECT {chosen} FROM trace."{table}") '
                f"TO '{target}' (FORMAT parquet, COMPRESSION lz4_raw)"
            )


if __name__ == "__main__":
    main(*sys.argv[1:])
