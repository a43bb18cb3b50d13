"""One database of real traces, shared by all tests of a session."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import polars as pl
import pytest

from corpus import CORPUS
from tbd_trace.query import Catalogue, run, sql
from tbd_trace.store import Database


class Traces:
    """The real traces, each ingested when a test first asks for it; answers are kept."""

    def __init__(self, directory: Path) -> None:
        self.database = Database(directory / "traces.duckdb")
        self._catalogue = Catalogue()
        self._ids: dict[str, str] = {}
        self._answers: dict[tuple[str, str, tuple[tuple[str, str], ...]], pl.DataFrame] = {}

    def id(self, name: str) -> str:
        """Return the trace id of a file, named relative to the corpus."""
        if name not in self._ids:
            path = CORPUS / name
            if not path.is_file():
                pytest.skip(f"no real trace {path} (set TBD_TRACE_CORPUS)")
            self._ids[name] = self.database.ingest([path])[0].trace_id
        return self._ids[name]

    def ask(
        self, name: str, query: str, parameters: Mapping[str, str] | None = None
    ) -> pl.DataFrame:
        """Return a metric query's answer about one file."""
        key = (name, query, tuple(sorted((parameters or {}).items())))
        if key not in self._answers:
            result = run(self.database, self._catalogue.get(query), [self.id(name)], parameters)
            self._answers[key] = result.frame
        return self._answers[key]

    def sql(self, name: str, statement: str) -> pl.DataFrame:
        """Return the rows of a SQL statement about one file."""
        return sql(self.database, statement, [self.id(name)])


@pytest.fixture(scope="session")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Traces:
    """Return the real traces in a database of their own, which parallel workers share."""
    base = tmp_path_factory.getbasetemp()
    # pytest-xdist gives each worker a directory inside the session's.
    shared = base.parent if base.name.startswith("popen-") else base
    return Traces(shared)
