"""State in a few words whether B is faster, and whether it does the same work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tbd_trace.analysis.diff.verdict import Verdict, Word
from tbd_trace.analysis.diff.work import Difference, SameWork, Work

_SHOWN = 5
_MOST_DIGITS = 999_999  # larger amounts are stated as factors


def headline(verdict: Verdict, work: Work) -> str:
    """Return the verdict on time and on work, such as ``faster at the same work``."""
    word = str(verdict.word)
    if verdict.word is Word.NOT_COMPARABLE:
        return word
    no_change = verdict.word is Word.NO_CHANGE
    match work.verdict:
        case SameWork.SAME:
            return f"{word}, at the same work" if no_change else f"{word} at the same work"
        case SameWork.LESS:
            return f"{word}, but less work: {differences(work.differs)}"
        case SameWork.MORE:
            return f"{word}, with more work: {differences(work.differs)}"
        case SameWork.OTHER:
            return f"{word}, with other hardware: {differences(work.differs)}"
        case _:
            return f"{word}; work unknown ({work.reason})"


def differences(differs: Sequence[Difference]) -> str:
    """Return what differs in words: values where they are short, else factors."""
    parts = [_difference(*difference) for difference in differs[:_SHOWN]]
    more = len(differs) - _SHOWN
    return ", ".join(parts) + (f" and {more} more" if more > 0 else "")


def _difference(what: str, a: Any, b: Any) -> str:
    if isinstance(a, str) or isinstance(b, str):
        return f"{what} {a or 'unknown'} → {b or 'unknown'}"
    if not b:
        return f"no {what}"
    if not a:
        return f"{what} in B only"
    if a == int(a) and b == int(b) and max(a, b) <= _MOST_DIGITS:
        return f"{what} {int(a):,} → {int(b):,}"
    return f"{what} × {b / a:.2f}"
