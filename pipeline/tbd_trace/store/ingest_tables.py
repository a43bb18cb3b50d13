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
    """Runs queries on written tables, those begun early while the ingest writes more tables.

    Used as a context manager.

    Args:
        database: the one of the ingest, for questions that were not begun. Opening and closing
            another takes 30 ms.
    """

    def __init__(self, staging: Path, database: duckdb.DuckDBPyConnection) -> None:
        self._staging = staging
        self._database = database
        self._thread = ThreadPoolExecutor(1)
        self._begun: dict[str, Future[Rows]] = {}
        self._beside: duckdb.DuckDBPyConnection | None = None  # of all questions that were begun

    def begin(self, question: str, tables: Collection[str]) -> None:
        """Start a query in another thread and database.

        Args:
            tables: canonical tables that are complete, at least the ones that it reads.
        """
        self._begun[question] = self._thread.submit(self._answer_beside, question, list(tables))

    def ask(self, question: str) -> Rows:
        """Return the rows of a query, once all tables are complete.

        Raises:
            duckdb.Error: a file is damaged.
        """
        if question in self._begun:
            return self._begun[question].result()
        return self._answer(self._database, question, event_tables())

    def _answer_beside(self, question: str, tables: Collection[str]) -> Rows:
        if self._beside is None:
            self._beside = scratch_connection(self._staging / "written.spill")
        return self._answer(self._beside, question, tables)

    def _answer(
        self, database: duckdb.DuckDBPyConnection, question: str, tables: Collection[str]
    ) -> Rows:
        with database.cursor() as connection:
            connection.execute("RESET disabled_optimizers")  # which readers of streams set
            for table in set(_WORD.findall(question)).intersection(tables):
                rows = parquet_relation(table_files(self._staging, table))
                connection.execute(f"CREATE TEMP VIEW {table} AS {rows}")
            return connection.execute(question).fetchall()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.shutdown(cancel_futures=True)
        if self._beside is not None:
            release(self._beside)
