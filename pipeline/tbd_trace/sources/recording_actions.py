"""How to record what a trace lacks, by profiler: the rows of ``data/recording_actions.csv``."""

from __future__ import annotations

from functools import cache

from tbd_trace import resources

_OTHER = "other"  # tool of the actions that name no profiler
_UNASKED = "nsys"  # speaks where no trace is asked, as in the reference


@cache
def _actions() -> dict[tuple[str, str], str]:
    rows = resources.data_rows("recording_actions")
    return {(row["tool"], row["what"]): row["action"] for row in rows}


def action(tool: str, what: str) -> str:
    """Return how to record what a trace lacks.

    Args:
        tool: profiler of the trace, as in ``trace.tool``; empty without a trace.
        what: a value of the column ``what`` of recording_actions.csv.
    """
    text = _actions().get((tool or _UNASKED, what))
    return _actions()[_OTHER, what] if text is None else text
