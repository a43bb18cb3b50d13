"""Read the rows of a relation from a CSV file, so that a query needs no trace.

A derived relation with ``[file]`` in its header has a parameter that names such a file. The
relations that build on it, and the query, are the same as for traces.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import duckdb

from tbd_trace.errors import UsageError
from tbd_trace.query.catalogue import required_relations
from tbd_trace.query.header import Query, RowFile, Scalar
from tbd_trace.sqltext import glob_escaped, identifier, string

_MOST_ROWS = 100_000  # more is another kind of file
_MOST_BYTES = 100_000_000


def file_relations(query: Query, values: Mapping[str, Scalar]) -> list[Query]:
    """Return the relations that come from a file; none if no parameter names one.

    The one whose columns are checked comes first.
    """
    relations = required_relations(query.relations)
    from_file = [
        (each.file, each) for each in relations if each.file and values.get(each.file.param)
    ]
    return [each for _, each in sorted(from_file, key=lambda pair: not pair[0].columns)]


def load_rows(
    connection: duckdb.DuckDBPyConnection, relation: Query, values: Mapping[str, Scalar]
) -> None:
    """Create a relation from the file that a parameter names.

    Raises:
        UsageError: the file cannot be read, or a column or value is missing or invalid.
    """
    file = _declared(relation)
    path = Path(str(values[file.param]))
    wanted = ", ".join(file.columns)
    try:
        if path.exists() and not path.is_file():
            raise ValueError  # DuckDB would read all files of a directory
        if path.stat().st_size > _MOST_BYTES:
            raise UsageError(f"{path}: larger than 100 MB; expected a CSV file with {wanted}")
        rows = f"SELECT * FROM {_csv(path)} LIMIT {_MOST_ROWS + 1}"
        connection.execute(f"CREATE OR REPLACE TEMP TABLE text_rows AS {_numbered(rows)}")
    except (OSError, ValueError) as error:
        problem = getattr(error, "strerror", None) or "not a file"
        raise UsageError(f"{path}: {problem}; name a CSV file with {wanted}") from None
    except duckdb.Error:
        raise UsageError(f"{path}: not a CSV file with the columns {wanted}") from None
    _check(connection, path, file)
    for statement in file_statements(relation, values):
        connection.execute(statement)


def file_statements(relation: Query, values: Mapping[str, Scalar]) -> list[str]:
    """Return the statements that create a relation from its file."""
    file = _declared(relation)
    path = Path(str(values[file.param]))
    columns = "".join(
        f", {identifier(name)}::{'DOUBLE' if kind == 'number' else 'VARCHAR'} AS {identifier(name)}"
        for name, kind in file.columns.items()
    )
    return [
        f"CREATE OR REPLACE TEMP TABLE row_file AS\nSELECT position, {string(path.stem)} AS "
        f"file_name{columns}\nFROM ({_numbered(f'SELECT * FROM {_csv(path)}')})",
        f"CREATE OR REPLACE TEMP TABLE {relation.name} AS\n{file.rows}",
    ]


def _declared(relation: Query) -> RowFile:
    assert relation.file is not None, relation.name
    return relation.file


def _csv(path: Path) -> str:
    return (
        f"read_csv({string(glob_escaped(path))}, header = true, delim = ',', quote = '\"', "
        "escape = '\"', all_varchar = true, hive_partitioning = false)"
    )


def _numbered(rows: str) -> str:
    return f"SELECT (row_number() OVER () - 1)::INTEGER AS position, * FROM ({rows})"


def _check(connection: duckdb.DuckDBPyConnection, path: Path, file: RowFile) -> None:
    present = [row[0] for row in connection.execute("DESCRIBE text_rows").fetchall()]
    missing = [name for name in file.columns if name not in present]
    if missing:
        raise UsageError(
            f"{path}: no column {missing[0]!r}; the first line must name {', '.join(file.columns)}"
        )
    ((rows,),) = connection.execute("SELECT count(*) FROM text_rows").fetchall()
    if not 0 < rows <= _MOST_ROWS:
        problem = "no rows" if rows == 0 else f"more than {_MOST_ROWS:,} rows"
        raise UsageError(f"{path}: {problem}; write a row per layer")
    for name, kind in file.columns.items():
        column = identifier(name)
        valid = f"{column} <> ''"
        if kind == "number":
            valid = f"try_cast({column} AS DOUBLE) BETWEEN 0 AND 1e300"
        wrong = connection.execute(
            f"SELECT position + 1, {column} FROM text_rows WHERE NOT coalesce({valid}, false) "
            "ORDER BY position LIMIT 1"
        ).fetchall()
        for row, text in wrong:
            shown = "nothing" if text is None else repr(text[:40])
            expected = "a number of at least 0" if kind == "number" else "a text"
            raise UsageError(f"{path}: {name} in row {row} is {shown}; write {expected}")
