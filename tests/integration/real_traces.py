"""Real traces in a database: each file is ingested when a test first asks about it."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path

import polars as pl

from corpus import corpus_file
from tbd_trace.query import Catalogue, execute, sql
from tbd_trace.store import Database


class Traces:
    """The real traces, named relative to the corpus; answers about them are kept.

    Args:
        directory: where the database is made.
    """

    def __init__(self, directory: Path) -> None:
        self.database = Database(directory / "traces.duckdb")
        self._catalogue = Catalogue()
        self._ids: dict[str, str] = {}
        self._answers: dict[tuple[str, str, tuple[tuple[str, str], ...]], pl.DataFrame] = {}

    def id(self, name: str) -> str:
        """Return the trace id of a file, or skip where the corpus lacks it."""
        if name not in self._ids:
            self._ids[name] = self.database.ingest([corpus_file(name)])[0].trace_id
        return self._ids[name]

    def ask(
        self, name: str, query: str, parameters: Mapping[str, str] | None = None
    ) -> pl.DataFrame:
        """Return a metric query's answer about one file."""
        key = (name, query, tuple(sorted((parameters or {}).items())))
        if key not in self._answers:
            result = execute(self.database, self._catalogue.get(query), [self.id(name)], parameters)
            self._answers[key] = result.frame
        return self._answers[key]

    def sql(self, name: str, statement: str) -> pl.DataFrame:
        """Return the rows of a SQL statement about one file."""
        return sql(self.database, statement, [self.id(name)])


def oracle_rows(name: str, skip_lines: int = 0) -> list[dict[str, str]]:
    """Return the rows of a CSV file that another tool wrote about a real trace."""
    with corpus_file(f"oracle/{name}").open(newline="") as file:
        for _ in range(skip_lines):
            next(file)
        return list(csv.DictReader(file))
