"""State in a few words whether B is faster, and whether it does the same work."""

from __future__ import annotations

from tbd_trace.analysis.diff.verdict import Verdict, Word
from tbd_trace.analysis.diff.work import SameWork, Work, differences


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
