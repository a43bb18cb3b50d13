"""Read tables of a SQLite file as Arrow record batches of bounded size.

Profilers change their schemas between versions, so columns are read by name, and a table or column
that a file lacks is empty or NULL. Large files are read from their pages (`tables`) where that
gives the same rows, and through SQLAlchemy Core otherwise.
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
from tbd_trace.model.row_range import RowRange
from tbd_trace.sqlite_io.errors import (
    SQLITE_ERRORS,
    UnsupportedLayout,
    error_message,
    is_denied,
)
from tbd_trace.sqlite_io.header import (
    LONGEST_RECORD,
    SQLITE_MAGIC,
    check_complete,
    damage_message,
)
from tbd_trace.sqlite_io.schema import Schema
from tbd_trace.sqlite_io.values import as_array
from tbd_trace.sqltext import identifier, string

READER_VARIABLE = "TBD_TRACE_READER"
"""Environment variable that selects the reader: ``auto`` (default), ``pages``, ``sqlalchemy``."""

_LOG = logging.getLogger(__name__)
_BATCH_ROWS = 65_536
_LARGE_FILE = 2 << 20  # bytes; smaller files are read without importing the page reader


class SqliteFile:
    """SQLite file that is opened read-only.

    Raises:
        InputError: the file cannot be opened, is truncated, being written, or not a database.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        check_complete(path)
        try:
            self._connection = self._connect()
        except SQLITE_ERRORS as error:
            raise InputError(error_message(path, error)) from error
        try:
            self._schema = Schema(self._connection)
            self._connection.set_authorizer(self._schema.authorize)
        except SQLITE_ERRORS as error:
            self._connection.close()
            raise InputError(error_message(path, error)) from error

    @staticmethod
    def has_magic(head: bytes) -> bool:
        """Return True if the first bytes of a file are those of a SQLite database."""
        return head.startswith(SQLITE_MAGIC)

    def _connect(self) -> sqlite3.Connection:
        # A profile is evidence: never write to it or beside it, not even a lock or a journal.
        uri = f"file:{quote(os.fsencode(self.path.resolve()))}?mode=ro&immutable=1"
        # DuckDB pulls the streams from its own threads, one at a time.
        connection = sqlite3.connect(uri, uri=True, check_same_thread=False)
        # Exports contain invalid UTF-8 (kernel names in other locales): keep these rows.
        connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_RECORD)
        # Without this check SQLite follows a damaged pointer out of its page, and returns a row
        # of whatever the memory there holds.
        connection.execute("PRAGMA cell_size_check = ON")
        return connection

    def _guarded_connection(self) -> sqlite3.Connection:
        connection = self._connect()
        connection.set_authorizer(self._schema.authorize)
        return connection

    @property
    def tables(self) -> frozenset[str]:
        return frozenset(self._schema.columns)

    def columns(self, table: str) -> list[str]:
        """Return the column names of a table; empty if the table is absent."""
        return self._schema.columns.get(table, [])

    def is_key(self, table: str, column: str) -> bool:
        """Return True if a column is the primary key of a table, so that its values are unique."""
        key_columns = self.rows(f"SELECT name FROM pragma_table_info({string(table)}) WHERE pk > 0")
        return key_columns == [(column,)]

    def has_rows(self, table: str) -> bool:
        if table not in self._schema.columns:
            return False
        return self.rows(f'SELECT 1 FROM "{table}" LIMIT 1') != []

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """Run a query with few result rows and return them.

        Raises:
            InputError: the file is damaged.
        """
        try:
            return self._connection.execute(statement).fetchall()
        except SQLITE_ERRORS as error:
            raise self._failure(error) from error

    def batches(
        self,
        table: str,
        columns: Mapping[str, pa.DataType],
        *,
        rowid: str | None = None,
        not_integer: str | None = None,
        row_range: RowRange | None = None,
    ) -> pa.RecordBatchReader:
        """Stream columns of a table as batches of at most 65,536 rows.

        Args:
            table: table name; an absent table has no rows.
            columns: Arrow types by column name; absent columns and values that do not fit the type
                are NULL.
            rowid: name of an additional int64 column with SQLite's rowid; None for none.
            not_integer: read only rows whose value in this column is not an integer; None for all.
            row_range: rows of a table accepted by `parallel_rows` to read; None for all rows.

        Raises:
            UnsupportedLayout: while reading a part; whole tables fall back to SQLite.
        """
        fields = [pa.field(name, kind) for name, kind in columns.items()]
        if rowid is not None:
            fields.append(pa.field(rowid, pa.int64()))
        schema = pa.schema(fields)
        return pa.RecordBatchReader.from_batches(
            schema, self._stream(table, columns, schema, rowid, not_integer, row_range=row_range)
        )

    def _stream(
        self,
        table: str,
        columns: Mapping[str, pa.DataType],
        schema: pa.Schema,
        rowid: str | None,
        not_integer: str | None,
        *,
        row_range: RowRange | None,
    ) -> Iterator[pa.RecordBatch]:
        if table not in self._schema.columns:
            return
        yielded = 0
        if row_range is not None or self._uses_page_reader():
            from tbd_trace.sqlite_io import tables  # noqa: PLC0415 - not needed for small files

            try:
                plan = tables.plan(self.rows, table, columns, rowid, not_integer)
                for batch in tables.stream(self.path, plan, schema, row_range):
                    yield batch
                    yielded += batch.num_rows
                if not_integer is None and row_range is None:
                    self.check_count(table, yielded)
                return
            except UnsupportedLayout as reason:
                # The caller cannot know which rows of a part SQLite would have to add.
                if row_range is not None:
                    raise
                _LOG.debug("%s: SQLite reads %s: %s", self.path, table, reason)
        yield from self._rows_from_sqlite(
            table, list(columns), schema, rowid, not_integer, skip=yielded
        )

    def _uses_page_reader(self) -> bool:
        reader = os.environ.get(READER_VARIABLE, "auto")
        return reader == "pages" or (
            reader != "sqlalchemy" and self.path.stat().st_size >= _LARGE_FILE
        )

    def parallel_rows(self, table: str, columns: Mapping[str, pa.DataType], rowid: str) -> int:
        """Return an upper bound for the rows of a table, 0 if it cannot be read in parts."""
        if table not in self._schema.columns or not self._uses_page_reader():
            return 0
        from tbd_trace.sqlite_io import tables  # noqa: PLC0415 - not needed for small files

        try:
            tables.plan(self.rows, table, columns, rowid)
            first, last = self._rowid_range(table)
        except (UnsupportedLayout, InputError):  # reading the whole table reports the error
            return 0
        return 0 if first is None or last is None else last - first + 1

    def _rowid_range(self, table: str) -> tuple[int | None, int | None]:
        # Two subqueries: SQLite optimises min() and max() to a b-tree lookup only one at a time.
        name = identifier(table)
        ((first, last),) = self.rows(
            f"SELECT (SELECT min(rowid) FROM {name}), (SELECT max(rowid) FROM {name})"
        )
        return first, last

    def check_count(self, table: str, rows: int) -> None:
        """Check the number of rows read from a table.

        Raises:
            InputError: the table has another number of rows, so the file is damaged.
        """
        first, last = self._rowid_range(table)
        # Rowids are distinct integers: as many rows as integers in the range means no gap, and
        # saves a scan.
        if first is not None and last is not None and rows == last - first + 1:
            return
        name = identifier(table)
        ((expected,),) = self.rows(f"SELECT count(*) FROM {name} NOT INDEXED")
        if rows != expected:
            raise InputError(damage_message(self.path, f"{rows} of {expected} rows of {table}"))

    def _rows_from_sqlite(
        self,
        table: str,
        wanted: Sequence[str],
        schema: pa.Schema,
        rowid: str | None,
        not_integer: str | None,
        *,
        skip: int,
    ) -> Iterator[pa.RecordBatch]:
        import sqlalchemy as sa  # noqa: PLC0415 - not needed for large files

        # SQLite compares column names without regard to case.
        present = {name.lower(): name for name in self._schema.columns[table]}
        selected: list[Any] = [
            sa.column(present[name.lower()]) if name.lower() in present else sa.null()
            for name in wanted
        ]
        if rowid is not None:
            selected.append(sa.literal_column("rowid"))
        statement = sa.select(*selected).select_from(sa.table(table))
        if not_integer is not None and not_integer.lower() in present:
            filtered: sa.ColumnClause[Any] = sa.column(present[not_integer.lower()])
            statement = statement.where(sa.func.typeof(filtered) != "integer")
        engine = sa.create_engine(
            "sqlite://", creator=self._guarded_connection, poolclass=sa.NullPool
        )
        try:
            with engine.connect() as connection:
                result = connection.execution_options(yield_per=_BATCH_ROWS).execute(statement)
                for rows in result.partitions(_BATCH_ROWS):
                    # Not OFFSET: SQLite does not decode the rows that it skips, and so misses
                    # damage that a full scan reports.
                    if skip >= len(rows):
                        skip -= len(rows)
                        continue
                    values = list(zip(*rows[skip:], strict=True))
                    skip = 0
                    yield pa.RecordBatch.from_arrays(
                        [as_array(v, f.type) for v, f in zip(values, schema, strict=True)],
                        schema=schema,
                    )
        except (*SQLITE_ERRORS, sa.exc.DatabaseError) as error:
            raise self._failure(error) from error

    def _failure(self, error: Exception) -> InputError | KeyboardInterrupt:
        if self._schema.refused is not None:
            return InputError(
                f"{self.path}: {self._schema.refused} is not an ordinary table, but a view, a "
                "virtual table or one with generated columns, which profilers never write; export "
                "the report again"
            )
        if is_denied(error):
            # sqlite3 drops an exception in the authorizer and denies the statement. Only the
            # handler of Ctrl-C raises one there.
            return KeyboardInterrupt()
        return InputError(error_message(self.path, error))

    def close(self) -> None:
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
