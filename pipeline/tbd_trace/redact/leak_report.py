"""What is private in something, as a list that gives none of it away."""

from __future__ import annotations

import re
from dataclasses import dataclass

import polars as pl

from tbd_trace.redact.tables import KINDS
from tbd_trace.redact.text import Note

FILE_KINDS = KINDS | {
    "environment": "environment variables",
    "command-lines": "programs that ran, and their arguments",
    "output": "what programs printed",
    "processes": "programs of the machine that were not profiled",
    "not searched": "a file that tbd-trace cannot look into",
}
"""What profiler files hold: more than ever reaches a database."""

SCHEMA = {"kind": pl.String, "where": pl.String, "count": pl.Int64, "example": pl.String}
_LONGEST = 8
_ASSIGNMENT = re.compile(r"([-\w.\"']+\s*[=:]\s*)(.+)", re.DOTALL)
_REDACTED = re.compile(r"\s*(?:<redacted>|\[redacted\]|\*+)?\s*", re.IGNORECASE)


@dataclass(slots=True)
class _Finding:
    count: int
    example: str


class Findings:
    """Collects what is private, by kind and place."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], _Finding] = {}

    def add(self, kind: str, where: str, value: str, count: int = 1) -> None:
        """Add a private value; empty ones and those taken out already are none.

        Args:
            kind: one of :data:`FILE_KINDS`.
            where: table and column, field, or file.
            value: the value; a part of it is shown.
            count: how often it is there.
        """
        if not is_nothing(value):
            self.state(kind, where, masked(kind, value), count)

    def at(self, where: str) -> Note:
        """Return a function that adds what is found in one place."""
        return lambda kind, value: self.add(kind, where, value)

    def state(self, kind: str, where: str, example: str, count: int) -> None:
        """Add what is shown as it is."""
        there = self._found.setdefault((kind, where), _Finding(0, example))
        there.count += count

    def include(self, inside: str, frame: pl.DataFrame) -> None:
        """Add what was found in a file of a directory or archive."""
        for row in frame.to_dicts():
            self.state(row["kind"], f"{inside}: {row['where']}", row["example"], row["count"])

    def frame(self) -> pl.DataFrame:
        """Return a row per kind and place: kind, where, count, example."""
        order = list(FILE_KINDS)
        rows = sorted(
            ((*key, found.count, found.example) for key, found in self._found.items()),
            key=lambda row: (order.index(row[0]), row[1]),
        )
        return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def is_nothing(value: str) -> bool:
    """Tell whether a value is empty, or was taken out by somebody before."""
    return _REDACTED.fullmatch(value) is not None


def masked(kind: str, value: str) -> str:
    """Return the beginning of a private value; of an assignment also the name."""
    line = " ".join(value.split())
    assignment = _ASSIGNMENT.fullmatch(line)
    if assignment and kind in ("secrets", "environment"):
        return assignment[1] + _begin(assignment[2])
    return _begin(line)


def _begin(text: str) -> str:
    return text[: min(_LONGEST, len(text) // 3)] + "…"
