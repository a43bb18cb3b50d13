"""Compare two runs: their differences, and whether one is faster beyond noise."""

from tbd_trace.analysis.diff.comparison import compare
from tbd_trace.analysis.diff.result import Comparison, Side
from tbd_trace.analysis.diff.verdict import Verdict, Word

__all__ = ["Comparison", "Side", "Verdict", "Word", "compare"]
