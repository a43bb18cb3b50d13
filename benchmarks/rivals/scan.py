"""Scan some columns with SQLite alone: python scan.py FILE COLUMNS.json.

SQLite's aggregates read each value in C, so no row reaches Python.
"""

import json
import sqlite3
import sys
from pathlib import Path

_AGGREGATES = {"integer": 'max("{}")', "real": 'max("{}")', "text": 'max(length("{}"))'}


def main(file: str, columns: str) -> None:
    """Scan each wanted table of the file."""
    wanted = json.loads(Path(columns).read_text(encoding="utf-8"))
    connection = sqlite3.connect(f"file:{file}?mode=ro&immutable=1", uri=True)
    for table, kinds in wanted.items():
        present = {row[1] for row in connection.execute(f'PRAGMA table_info("{table}")')}
        chosen = [_AGGREGATES[kind].format(name) for name, kind in kinds.items() if name in present]
        if chosen:
            connection.execute(f'SELECT {", ".join(chosen)} FROM "{table}"').fetchall()


if __name__ == "__main__":
    main(*sys.argv[1:])
