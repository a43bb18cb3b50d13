"""Compare two runs: their differences, whether one is faster, and at the same work."""

from tbd_trace.analysis.diff.comparison import compare
from tbd_trace.analysis.diff.result import Comparison, Side
from tbd_trace.analysis.diff.verdict import Verdict, Word
from tbd_trace.analysis.diff.work import SameWork, Work

__all__ = ["Comparison", "SameWork", "Side", "Verdict", "Word", "Work", "compare"]
