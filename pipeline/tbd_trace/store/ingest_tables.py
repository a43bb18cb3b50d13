"""Query the canonical tables that a running ingest has written so far."""

from __future__ import annotations

import re
from collections.abc import Collection
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

import duckdb

from tbd_trace.model.canonical_tables import event_tables
from tbd_trace.runtime.duckdb_connection import release, scratch_connection
from tbd_trace.sqltext import parquet_relation
from tbd_trace.store.tables import table_files

Rows = list[tuple[Any, ...]]
_WORD = re.compile(r"\w+")


class IngestTables:
    """Runs queries in a separate thread and database, while the ingest writes more tables.

    Used as a context manager.
    """

    def __init__(self, staging: Path) -> None:
        self._staging = staging
        self._thread = ThreadPoolExecutor(1)
        self._begun: dict[str, Future[Rows]] = {}
        self._database: duckdb.DuckDBPyConnection | None = None  # of all questions

    def begin(self, question: str, tables: Collection[str]) -> None:
        """Start a query.

        Args:
            tables: canonical tables that are complete, at least the ones that it reads.
        """
        self._begun[question] = self._thread.submit(self._answer, question, list(tables))

    def ask(self, question: str) -> Rows:
        """Return the rows of a query, once all tables are complete.

        Raises:
            duckdb.Error: a file is damaged.
        """
        if question not in self._begun:
            self.begin(question, event_tables())
        return self._begun[question].result()

    def _answer(self, question: str, tables: Collection[str]) -> Rows:
        if self._database is None:
            self._database = scratch_connection(self._staging / "written.spill")
        with self._database.cursor() as connection:
            for table in set(_WORD.findall(question)).intersection(tables):
                rows = parquet_relation(table_files(self._staging, table))
                connection.execute(f"CREATE TEMP VIEW {table} AS {rows}")
            return connection.execute(question).fetchall()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.shutdown(cancel_futures=True)
        if self._database is not None:
            release(self._database)
