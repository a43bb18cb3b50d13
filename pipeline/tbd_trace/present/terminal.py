"""What a terminal shows: the layout of a table, and texts without control characters."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Style:
    """Layout of a table."""

    width: int | None = None  # width in terminal cells; None does not shorten anything
    colour: bool = False  # use escape sequences for colour
    records: bool = False  # one line per field, as is always done for a single row
    plain: bool = False  # one line per row without rules, as for a pipe


def printable(text: str) -> str:
    """Escape control characters of a text."""
    # Names and messages of a trace are untrusted: escape sequences could control the terminal.
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )
