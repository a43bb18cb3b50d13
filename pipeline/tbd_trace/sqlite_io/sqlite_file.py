"""Reading SQLite profiles through SQLAlchemy Core, in bounded Arrow batches.

Profilers change their schemas from version to version, so tables are found by presence and
columns by name; what a file lacks comes out as NULL. Large tables are read without SQLite where
that gives the same rows (`sqlite_tables`).
"""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import pyarrow as pa

from tbd_trace.errors import InputError
from tbd_trace.sources.base import Part
from tbd_trace.sqlite_io.header import SQLITE_MAGIC, check_complete, damaged
from tbd_trace.sqlite_io.values import as_array
from tbd_trace.sqltext import identifier, string

__all__ = ["SQLITE_MAGIC", "SqliteFile"]

READER_VARIABLE = "TBD_TRACE_READER"
"""Environment variable: ``auto`` (the default), ``pages`` or ``sqlalchemy`` reads the tables."""

_LOG = logging.getLogger(__name__)
_BATCH_ROWS = 65_536
_LARGE_FILE = 2 << 20  # bytes
# The last one is what Python makes of a message about a name that is damaged, too.
_DAMAGE = (sqlite3.DatabaseError, UnicodeDecodeError)
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
        try:
            self._connection = self._connect()
        except _DAMAGE as error:
            raise InputError(_damaged(path, error)) from error
        try:
            self._schema = self._read_schema()
        except _DAMAGE as error:
            self._connection.close()
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
            "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') ORDER BY name"
        ).fetchall()
        schema: dict[str, list[str]] = {}
        for (name,) in names:
            columns = self._connection.execute(f"PRAGMA table_info({identifier(str(name))})")
            schema[str(name)] = [str(row[1]) for row in columns]
        return schema

    @property
    def tables(self) -> frozenset[str]:
        """Names of the tables present."""
        return frozenset(self._schema)

    def columns(self, table: str) -> list[str]:
        """Return the column names of a table, empty when the table is absent."""
        return self._schema.get(table, [])

    def is_key(self, table: str, column: str) -> bool:
        """Tell whether a column is the primary key of a table, so that no value repeats."""
        found = self.rows(f"SELECT name FROM pragma_table_info({string(table)}) WHERE pk > 0")
        return found == [(column,)]

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
            return self._connection.execute(statement).fetchall()
        except _DAMAGE as error:
            raise InputError(_damaged(self.path, error)) from error

    def batches(
        self,
        table: str,
        columns: Mapping[str, pa.DataType],
        *,
        rowid: str | None = None,
        without: str | None = None,
        part: Part | None = None,
    ) -> pa.RecordBatchReader:
        """Stream some columns of a table as Arrow record batches.

        Args:
            table: table name; an absent table gives no rows.
            columns: wanted columns and their Arrow types; a column the table lacks is all NULL.
                A value that does not fit its type (SQLite does not enforce types) becomes NULL.
            rowid: if given, a further int64 column of this name holds SQLite's rowid.
            without: if given, only rows that have no integer in this column.
            part: if given, only this part of the rows, of a table that ``rows_in_parts`` counts.

        Returns:
            A reader of batches of at most 65,536 rows, with the columns in the order given.

        Raises:
            LeftToSqlite: from the reader of a part; other readers then turn to SQLite.
        """
        fields = [pa.field(name, kind) for name, kind in columns.items()]
        if rowid is not None:
            fields.append(pa.field(rowid, pa.int64()))
        schema = pa.schema(fields)
        return pa.RecordBatchReader.from_batches(
            schema, self._stream(table, columns, schema, rowid, without, part=part)
        )

    def _stream(
        self,
        table: str,
        columns: Mapping[str, pa.DataType],
        schema: pa.Schema,
        rowid: str | None,
        without: str | None,
        *,
        part: Part | None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows from the pages as far as that goes, and the rest from SQLite."""
        if table not in self._schema:
            return
        done = 0
        if part is not None or self._reads_pages():
            # Imported here, because small files do without NumPy.
            from tbd_trace.sqlite_io import tables  # noqa: PLC0415
            from tbd_trace.sqlite_io.pages import LeftToSqlite  # noqa: PLC0415

            try:
                plan = tables.plan(self.rows, table, columns, rowid, without)
                for batch in tables.stream(self.path, plan, schema, part):
                    yield batch
                    done += batch.num_rows
                if without is None and part is None:
                    self.check_count(table, done)
                return
            except LeftToSqlite as reason:
                if part is not None:
                    raise
                _LOG.debug("%s: %s is left to SQLite: %s", self.path, table, reason)
        yield from self._ordinary(table, list(columns), schema, rowid, without, skip=done)

    def _reads_pages(self) -> bool:
        """Tell whether large tables are read from the pages."""
        reader = os.environ.get(READER_VARIABLE, "auto")
        return reader == "pages" or (
            reader != "sqlalchemy" and self.path.stat().st_size >= _LARGE_FILE
        )

    def rows_in_parts(self, table: str, columns: Mapping[str, pa.DataType], rowid: str) -> int:
        """Return how many rows a table has at most, 0 if it cannot be read in parts."""
        if table not in self._schema or not self._reads_pages():
            return 0
        from tbd_trace.sqlite_io import tables  # noqa: PLC0415 - imports NumPy
        from tbd_trace.sqlite_io.pages import LeftToSqlite  # noqa: PLC0415

        try:
            tables.plan(self.rows, table, columns, rowid)
            first, last = self._rowids(table)
        except (LeftToSqlite, InputError):  # the reader of the whole table says what is wrong
            return 0
        return 0 if first is None or last is None else last - first + 1

    def _rowids(self, table: str) -> tuple[int | None, int | None]:
        """Return the first and the last rowid of an ordinary table, None if it is empty."""
        name = identifier(table)
        ((first, last),) = self.rows(
            f"SELECT (SELECT min(rowid) FROM {name}), (SELECT max(rowid) FROM {name})"
        )
        return first, last

    def check_count(self, table: str, rows: int) -> None:
        """Make sure that a table has as many rows as were read.

        Raises:
            InputError: it has not; the file is damaged.
        """
        first, last = self._rowids(table)
        if first is not None and last is not None and rows == last - first + 1:
            return  # their rowids, which go up, leave room for no other
        name = identifier(table)
        ((expected,),) = self.rows(f"SELECT count(*) FROM {name} NOT INDEXED")
        if rows != expected:
            raise InputError(damaged(self.path, f"{rows} of {expected} rows of {table}"))

    def _ordinary(
        self,
        table: str,
        wanted: Sequence[str],
        schema: pa.Schema,
        rowid: str | None,
        without: str | None,
        *,
        skip: int,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows that SQLite gives through SQLAlchemy, after the first ``skip``.

        They are not skipped with OFFSET: SQLite then does not decode them, and passes over damage
        that it reports in a full scan.
        """
        import sqlalchemy as sa  # noqa: PLC0415 - large files do without it

        # SQLite compares column names without regard to case.
        present = {name.lower(): name for name in self._schema[table]}
        selected: list[Any] = [
            sa.column(present[name.lower()]) if name.lower() in present else sa.null()
            for name in wanted
        ]
        if rowid is not None:
            selected.append(sa.literal_column("rowid"))
        statement = sa.select(*selected).select_from(sa.table(table))
        if without is not None and without.lower() in present:
            held: sa.ColumnClause[Any] = sa.column(present[without.lower()])
            statement = statement.where(sa.func.typeof(held) != "integer")
        engine = sa.create_engine("sqlite://", creator=self._connect, poolclass=sa.NullPool)
        try:
            with engine.connect() as connection:
                result = connection.execution_options(yield_per=_BATCH_ROWS).execute(statement)
                for rows in result.partitions(_BATCH_ROWS):
                    if skip >= len(rows):
                        skip -= len(rows)
                        continue
                    values = list(zip(*rows[skip:], strict=True))
                    skip = 0
                    yield pa.RecordBatch.from_arrays(
                        [as_array(v, f.type) for v, f in zip(values, schema, strict=True)],
                        schema=schema,
                    )
        except (*_DAMAGE, sa.exc.DatabaseError) as error:
            raise InputError(_damaged(self.path, error)) from error

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _damaged(path: Path, error: Exception) -> str:
    reason = str(getattr(error, "orig", None) or error).splitlines()[0]
    if reason in _NO_ROOM:
        return f"{path}: cannot be read ({reason}); make room for temporary files (TMPDIR)"
    return damaged(path, reason)
