"""The canonical tables that an ingest has written, for those who ask about them before it ends."""

from __future__ import annotations

import re
from collections.abc import Collection
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

from tbd_trace.model.canonical_tables import event_tables
from tbd_trace.runtime.duckdb_connection import scratch_connection
from tbd_trace.sqltext import parquet_relation
from tbd_trace.store.tables import table_files

Rows = list[tuple[Any, ...]]
_WORD = re.compile(r"\w+")


class IngestTables:
    """Answers questions in a thread and a database of its own: meanwhile more can be written.

    It is a context manager.

    Args:
        staging: the directory in which the tables are.
    """

    def __init__(self, staging: Path) -> None:
        self._staging = staging
        self._thread = ThreadPoolExecutor(1)
        self._begun: dict[str, Future[Rows]] = {}

    def begin(self, question: str, tables: Collection[str]) -> None:
        """Begin to answer a question.

        Args:
            question: a SELECT.
            tables: canonical tables that are written, at least those that it reads.
        """
        self._begun[question] = self._thread.submit(self._answer, question, list(tables))

    def ask(self, question: str) -> Rows:
        """Return the answer to a question, now that all tables are written.

        Raises:
            duckdb.Error: a file is damaged.
        """
        if question not in self._begun:
            self.begin(question, event_tables())
        return self._begun[question].result()

    def _answer(self, question: str, tables: Collection[str]) -> Rows:
        with scratch_connection(self._staging / "written.spill") as connection:
            for table in set(_WORD.findall(question)).intersection(tables):
                rows = parquet_relation(table_files(self._staging, table))
                connection.execute(f"CREATE TEMP VIEW {table} AS {rows}")
            return connection.execute(question).fetchall()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.shutdown(cancel_futures=True)
