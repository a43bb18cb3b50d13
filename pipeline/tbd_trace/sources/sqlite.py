"""Reading SQLite profiles through SQLAlchemy Core, in bounded Arrow batches.

Profilers change their schemas from version to version, so tables are found by presence and
columns by name; what a file lacks comes out as NULL.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import pyarrow as pa
import sqlalchemy as sa

from tbd_trace.errors import InputError
from tbd_trace.sources.sqlite_header import SQLITE_MAGIC, check_complete, damaged

__all__ = ["SQLITE_MAGIC", "SqliteFile"]

_BATCH_ROWS = 65_536
# The last one is what Python makes of a message about a name that is damaged, too.
_DAMAGE = (sa.exc.DatabaseError, sqlite3.DatabaseError, UnicodeDecodeError)
_NO_ROOM = ("database or disk is full", "disk I/O error")  # SQLite sorts in temporary files


class SqliteFile:
    """A SQLite file opened read-only.

    Args:
        path: the file.

    Raises:
        InputError: the file cannot be opened, is truncated or still being written, or is not a
            database.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        check_complete(path)
        self._engine = sa.create_engine("sqlite://", creator=self._connect, poolclass=sa.NullPool)
        try:
            self._connection = self._engine.connect()
            self._schema = self._read_schema()
        except _DAMAGE as error:
            raise InputError(_damaged(path, error)) from error

    def _connect(self) -> sqlite3.Connection:
        # A profile is evidence: never write to it or beside it, not even a lock or a journal.
        uri = f"file:{quote(os.fsencode(self.path.resolve()))}?mode=ro&immutable=1"
        # DuckDB reads the streams from threads of its own, one at a time.
        connection = sqlite3.connect(uri, uri=True, check_same_thread=False)
        # Exports hold text that is not UTF-8 (kernel names of other locales): keep the row.
        connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
        return connection

    def _read_schema(self) -> dict[str, list[str]]:
        names = self._connection.execute(
            sa.text("SELECT name FROM sqlite_master WHERE type IN ('table', 'view') ORDER BY name")
        ).scalars()
        schema: dict[str, list[str]] = {}
        for name in list(names):
            quoted = str(name).replace('"', '""')
            columns = self._connection.execute(sa.text(f'PRAGMA table_info("{quoted}")'))
            schema[str(name)] = [str(row[1]) for row in columns]
        return schema

    @property
    def tables(self) -> frozenset[str]:
        """Names of the tables present."""
        return frozenset(self._schema)

    def columns(self, table: str) -> list[str]:
        """Return the column names of a table, empty when the table is absent."""
        return self._schema.get(table, [])

    def has_rows(self, table: str) -> bool:
        """Tell whether a table is present and holds at least one row."""
        if table not in self._schema:
            return False
        return self.rows(f'SELECT 1 FROM "{table}" LIMIT 1') != []

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """Run a small query and return all its rows.

        Raises:
            InputError: the file is damaged.
        """
        try:
            return [tuple(row) for row in self._connection.execute(sa.text(statement))]
        except _DAMAGE as error:
            raise InputError(_damaged(self.path, error)) from error

    def batches(
        self, table: str, columns: Mapping[str, pa.DataType], *, rowid: str | None = None
    ) -> pa.RecordBatchReader:
        """Stream some columns of a table as Arrow record batches.

        Args:
            table: table name; an absent table gives no rows.
            columns: wanted columns and their Arrow types; a column the table lacks is all NULL.
                A value that does not fit its type (SQLite does not enforce types) becomes NULL.
            rowid: if given, a further int64 column of this name holds SQLite's rowid.

        Returns:
            A reader of batches of at most 65,536 rows, with the columns in the order given.
        """
        fields = [pa.field(name, kind) for name, kind in columns.items()]
        if rowid is not None:
            fields.append(pa.field(rowid, pa.int64()))
        schema = pa.schema(fields)
        return pa.RecordBatchReader.from_batches(
            schema, self._stream(table, list(columns), schema, rowid)
        )

    def _stream(
        self, table: str, wanted: Sequence[str], schema: pa.Schema, rowid: str | None
    ) -> Iterator[pa.RecordBatch]:
        if table not in self._schema:
            return
        # SQLite compares column names without regard to case.
        present = {name.lower(): name for name in self._schema[table]}
        selected: list[Any] = [
            sa.column(present[name.lower()]) if name.lower() in present else sa.null()
            for name in wanted
        ]
        if rowid is not None:
            selected.append(sa.literal_column("rowid"))
        statement = sa.select(*selected).select_from(sa.table(table))
        try:
            result = self._connection.execution_options(yield_per=_BATCH_ROWS).execute(statement)
            for rows in result.partitions(_BATCH_ROWS):
                values = list(zip(*rows, strict=True))
                yield pa.RecordBatch.from_arrays(
                    [_array(v, f.type) for v, f in zip(values, schema, strict=True)], schema=schema
                )
        except _DAMAGE as error:
            raise InputError(_damaged(self.path, error)) from error

    def close(self) -> None:
        """Close the file."""
        self._connection.close()
        self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _array(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Build an Arrow array, turning values of another storage class into NULL."""
    try:
        return pa.array(values, type=kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return pa.array([_fit(value, kind) for value in values], type=kind)


def _fit(value: Any, kind: pa.DataType) -> Any:
    """Return the value if it fits the Arrow type, converted where nothing is lost, else None."""
    if value is None:
        return None
    candidates: list[Any] = [value]
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        candidates = [value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)]
    elif pa.types.is_integer(kind) and isinstance(value, float) and value.is_integer():
        candidates = [int(value)]
    elif isinstance(value, str):
        candidates = _numbers(value)
    for candidate in candidates:
        try:
            pa.scalar(candidate, type=kind)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            continue
        return candidate
    return None


def _numbers(text: str) -> list[Any]:
    """Return the numeric readings of a text, the exact one first."""
    readings: list[Any] = []
    for convert in (int, float):
        try:
            readings.append(convert(text))
        except ValueError:
            continue
    return readings


def _damaged(path: Path, error: Exception) -> str:
    reason = str(getattr(error, "orig", None) or error).splitlines()[0]
    if reason in _NO_ROOM:
        return f"{path}: cannot be read ({reason}); make room for temporary files (TMPDIR)"
    return damaged(path, reason)
