"""Summarize private data found in files and tables, with masked examples."""

from __future__ import annotations

import re
from dataclasses import dataclass

import polars as pl

from tbd_trace.redact.tables import KINDS
from tbd_trace.redact.text import ReportFinding

FILE_KINDS = KINDS | {
    "environment": "environment variables",
    "command-lines": "programs that ran, and their arguments",
    "output": "output of the profiled programs",
    "processes": "other programs that ran on the machine",
    "not searched": "a file in a format that tbd-trace cannot search",
}
"""Kinds of private data in profiler files; those not in ``KINDS`` never reach a database."""

SCHEMA = {"kind": pl.String, "where": pl.String, "count": pl.Int64, "example": pl.String}
# Readable characters of an example, and at most a third of it: enough to recognise the value, too
# few to use a password or token.
_EXAMPLE_LENGTH = 8
_ASSIGNMENT = re.compile(r"([-\w.\"']+\s*[=:]\s*)(.+)", re.DOTALL)
_REDACTED = re.compile(r"\s*(?:<redacted>|\[redacted\]|\*+)?\s*", re.IGNORECASE)


@dataclass(slots=True)
class _Leak:
    count: int
    example: str


class LeakReport:
    """Private values found, grouped by kind and location."""

    def __init__(self) -> None:
        self._leaks: dict[tuple[str, str], _Leak] = {}

    def add(self, kind: str, where: str, value: str, count: int = 1) -> None:
        """Add a private value; ignore empty and already redacted ones.

        Args:
            kind: a key of :data:`FILE_KINDS`.
            where: table and column, field, or file.
            value: the value; the report shows its masked beginning.
        """
        if not is_empty_or_redacted(value):
            self.add_masked(kind, where, mask(kind, value), count)

    def reporter(self, where: str) -> ReportFinding:
        return lambda kind, value: self.add(kind, where, value)

    def add_masked(self, kind: str, where: str, example: str, count: int) -> None:
        # The first example of a kind and location stays.
        leak = self._leaks.setdefault((kind, where), _Leak(0, example))
        leak.count += count

    def include(self, file: str, frame: pl.DataFrame) -> None:
        """Add the findings of a file inside a directory or archive."""
        for row in frame.to_dicts():
            self.add_masked(row["kind"], f"{file}: {row['where']}", row["example"], row["count"])

    def frame(self) -> pl.DataFrame:
        """Return one row per kind and location: kind, where, count, example."""
        order = list(FILE_KINDS)
        rows = sorted(
            ((*key, leak.count, leak.example) for key, leak in self._leaks.items()),
            key=lambda row: (order.index(row[0]), row[1]),
        )
        return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def is_empty_or_redacted(value: str) -> bool:
    """Return True if a value is empty or a redaction mark such as ``***``."""
    return _REDACTED.fullmatch(value) is not None


def mask(kind: str, value: str) -> str:
    """Return the beginning of a private value, after the name if it is an assignment."""
    line = " ".join(value.split())
    assignment = _ASSIGNMENT.fullmatch(line)
    if assignment and kind in ("secrets", "environment"):
        return assignment[1] + _begin(assignment[2])
    return _begin(line)


def _begin(text: str) -> str:
    return text[: min(_EXAMPLE_LENGTH, len(text) // 3)] + "…"
