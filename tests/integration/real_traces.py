"""Real traces in a database: each file is ingested when a test first asks about it."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path

import polars as pl

from corpus import corpus_file, corpus_files
from fast import one_in
from tbd_trace.query import Catalogue, prepare
from tbd_trace.query.catalogue import names_used
from tbd_trace.query.shared_session import SharedSession
from tbd_trace.query.statements import fetch_rows
from tbd_trace.store import Database

_OTHERS = ("rocprof", "linear_et", "siwaarbn")  # of other profilers, or refused
# Traces of torch.profiler; tests of the same ones ingest them once.
KINETO = one_in(
    6,
    corpus_files("kineto/*", where=lambda path: not any(word in path.name for word in _OTHERS)),
    then_one_in=6,
)


class Traces:
    """The real traces, named relative to the corpus; answers about them are kept.

    Questions about the same file that follow each other share a connection with the relations that
    they derive. Tests with ``parametrize(…, scope="module")`` run file by file.

    Args:
        directory: where the database is made.
    """

    def __init__(self, directory: Path) -> None:
        self.database = Database(directory / "traces.duckdb")
        self._catalogue = Catalogue()
        self._asked: str | None = None  # the file that the session is about
        self._session: SharedSession | None = None
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
            result = self._session_about(name).run(self._catalogue.get(query), parameters)
            self._answers[key] = result.frame
        return self._answers[key]

    def sql(self, name: str, statement: str) -> pl.DataFrame:
        """Return the rows of a SQL statement about one file."""
        session, names = self._session_about(name), names_used(statement)
        session.renew(names, {})
        prepare(session.connection, names, session.cache)
        return fetch_rows(session.connection, statement)

    def close(self) -> None:
        """Close the connection, if there is one; the next question opens another."""
        if self._session:
            self._session.__exit__(None, None, None)
        self._asked = self._session = None

    def _session_about(self, name: str) -> SharedSession:
        if self._session is None or self._asked != name:
            trace_id = self.id(name)  # may skip
            self.close()
            self._session = SharedSession(self.database, [trace_id]).__enter__()
            self._asked = name
        return self._session


def oracle_rows(name: str, skip_lines: int = 0) -> list[dict[str, str]]:
    """Return the rows of a CSV file that another tool wrote about a real trace."""
    with corpus_file(f"oracle/{name}").open(newline="") as file:
        for _ in range(skip_lines):
            next(file)
        return list(csv.DictReader(file))
