"""Run the queries of a report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import polars as pl

from tbd_trace.errors import CannotAnswerError
from tbd_trace.query import Catalogue, Query
from tbd_trace.query.shared_session import SharedSession


@dataclass(frozen=True, slots=True)
class Answer:
    """Result of a query of a report."""

    query: Query
    parameters: Mapping[str, str]
    frame: pl.DataFrame  # the rows; none if the traces lack the required data
    notes: list[str] = field(default_factory=list)
    reason: str = ""  # the missing data and how to collect them; empty if there is a result

    @property
    def label(self) -> str:
        return " ".join([self.query.name, *(f"{k}={v}" for k, v in self.parameters.items())])

    @property
    def command(self) -> str:
        settings = [f"--set {name}={value}" for name, value in self.parameters.items()]
        return " ".join(["tbd-trace query", self.query.name, *settings])

    @property
    def units(self) -> dict[str, str | None]:
        return {name: column.unit for name, column in self.query.columns.items()}

    @property
    def docs(self) -> dict[str, str]:
        return {name: column.doc for name, column in self.query.columns.items()}


class QueryRunner:
    """Runs each query once per set of parameters.

    Args:
        only: name of a single trace, which is then omitted from reasons and notes.
    """

    def __init__(self, session: SharedSession, only: str = "") -> None:
        self._session = session
        self._prefix = f"{only}: "
        self._catalogue = Catalogue()
        self._answers: dict[tuple[str, tuple[tuple[str, str], ...]], Answer] = {}

    def run(self, name: str, /, **parameters: str) -> Answer:
        key = (name, tuple(sorted(parameters.items())))
        if key not in self._answers:
            self._answers[key] = self._run_uncached(name, parameters)
        return self._answers[key]

    def _run_uncached(self, name: str, parameters: Mapping[str, str]) -> Answer:
        query = self._catalogue.get(name)
        try:
            result = self._session.run(query, parameters)
        except CannotAnswerError as error:
            reason = str(error).removeprefix(self._prefix)
            return Answer(query, parameters, pl.DataFrame(), reason=reason)
        notes = [note.removeprefix(self._prefix) for note in result.notes]
        return Answer(query, parameters, result.frame, notes)
