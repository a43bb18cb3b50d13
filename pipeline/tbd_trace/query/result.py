"""The result of a query."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tbd_trace.query.header import Query, Scalar

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, slots=True, repr=False)
class Result:
    """The rows of a query, and the notes that belong to them."""

    query: Query  # the query
    frame: pl.DataFrame  # the rows, as a polars frame; units are in ``query.columns``
    # sentences about the rows, such as which traces could not answer
    notes: list[str] = field(default_factory=list)
    parameters: dict[str, Scalar] = field(default_factory=dict)  # the parameters that were set
    more: bool = False  # True if rows were omitted because ``rows`` limited the result
    # names of traces without an answer, because the process that asked them ended
    missing: list[str] = field(default_factory=list)

    def __repr__(self) -> str:
        notes = f", {len(self.notes)} notes" if self.notes else ""
        return f"<Result of {self.query.name}: {self.frame.height} rows{notes}>"

    def _repr_html_(self) -> str:
        from html import escape  # noqa: PLC0415 - notebooks only

        notes = "".join(f"<li>{escape(note)}</li>" for note in self.notes)
        listed = f"<ul>{notes}</ul>" if notes else ""
        return f"<h4>{escape(self.query.title)}</h4>{listed}{self.frame._repr_html_()}"


@dataclass(frozen=True, slots=True)
class Batch:
    """Some rows of a query; the notes are the same in all batches of a result."""

    rows: pl.DataFrame
    notes: list[str]
    missing: list[str] = field(default_factory=list)  # as of the result, in the last batch only
