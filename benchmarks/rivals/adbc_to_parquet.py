"""ADBC's SQLite driver to Parquet: python adbc_to_parquet.py FILE COLUMNS.json DIRECTORY."""

import json
import sys
from pathlib import Path

import pyarrow.parquet as pq
from adbc_driver_sqlite import dbapi  # type: ignore[import-not-found,unused-ignore]


def main(file: str, columns: str, directory: str) -> None:
    """Write a Parquet file for each wanted table of the file."""
    wanted = json.loads(Path(columns).read_text(encoding="utf-8"))
    with dbapi.connect(f"file:{file}?mode=ro&immutable=1") as connection:
        cursor = connection.cursor()
        cursor.adbc_statement.set_options(**{"adbc.sqlite.query.batch_rows": "65536"})
        for table, kinds in wanted.items():
            cursor.execute(f"SELECT name FROM pragma_table_info('{table}')")
            present = {name for (name,) in cursor.fetchall()}
            # The driver infers types from the first rows, which fails for NULLs; so cast.
            chosen = [
                f'CAST("{name}" AS {kind}) AS "{name}"'
                for name, kind in kinds.items()
                if name in present
            ]
            if chosen:
                cursor.execute(f'SELECT {", ".join(chosen)} FROM "{table}"')
                reader = cursor.fetch_record_batch()
                target = Path(directory) / f"{table}.parquet"
                with pq.ParquetWriter(target, reader.schema, compression="lz4") as writer:
                    for batch in reader:
                        writer.write_batch(batch)


if __name__ == "__main__":
    main(*sys.argv[1:])
