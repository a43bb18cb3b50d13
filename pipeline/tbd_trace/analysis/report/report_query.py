"""Asking queries for a report: an answer, or why there is none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import polars as pl

from tbd_trace.errors import CannotAnswerError
from tbd_trace.query import Catalogue, Query
from tbd_trace.query.shared_session import SharedSession


@dataclass(frozen=True, slots=True)
class Answer:
    """What a query says about the traces of a report.

    Attributes:
        query: the query.
        parameters: the parameters that were set.
        frame: the rows; none where there is no answer.
        notes: what a reader of the rows should know.
        reason: why there is no answer, and what to collect; empty where there is one.
    """

    query: Query
    parameters: Mapping[str, str]
    frame: pl.DataFrame
    notes: list[str] = field(default_factory=list)
    reason: str = ""

    @property
    def label(self) -> str:
        """The query and its parameters, as a page names them."""
        return " ".join([self.query.name, *(f"{k}={v}" for k, v in self.parameters.items())])

    @property
    def command(self) -> str:
        """The command that gives the rows."""
        settings = [f"--set {name}={value}" for name, value in self.parameters.items()]
        return " ".join(["tbd-trace query", self.query.name, *settings])

    @property
    def units(self) -> dict[str, str | None]:
        """Unit per column."""
        return {name: column.unit for name, column in self.query.columns.items()}

    @property
    def docs(self) -> dict[str, str]:
        """Meaning per column."""
        return {name: column.doc for name, column in self.query.columns.items()}


class Interview:
    """Asks each question once.

    Args:
        conversation: where the traces are asked.
        only: name of the trace where there is one, which reasons and notes then need not name.
    """

    def __init__(self, conversation: SharedSession, only: str = "") -> None:
        self._conversation = conversation
        self._said_before = f"{only}: "
        self._catalogue = Catalogue()
        self._answers: dict[tuple[str, tuple[tuple[str, str], ...]], Answer] = {}

    def ask(self, name: str, /, **parameters: str) -> Answer:
        """Return the answer of a query that ships with the package."""
        key = (name, tuple(sorted(parameters.items())))
        if key not in self._answers:
            self._answers[key] = self._asked(name, parameters)
        return self._answers[key]

    def _asked(self, name: str, parameters: Mapping[str, str]) -> Answer:
        query = self._catalogue.get(name)
        try:
            result = self._conversation.run(query, parameters)
        except CannotAnswerError as error:
            reason = str(error).removeprefix(self._said_before)
            return Answer(query, parameters, pl.DataFrame(), reason=reason)
        notes = [note.removeprefix(self._said_before) for note in result.notes]
        return Answer(query, parameters, result.frame, notes)
