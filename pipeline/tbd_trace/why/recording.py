"""How to record what a trace lacks, with the profiler that recorded it."""

from __future__ import annotations

import csv
from functools import cache

from tbd_trace import resources


@cache
def _actions() -> dict[tuple[str, str], str]:
    with (resources.data() / "recording_actions.csv").open(encoding="utf-8", newline="") as file:
        return {(row["tool"], row["what"]): row["action"] for row in csv.DictReader(file)}


def action(tool: str, what: str) -> str:
    """Return how to record what a trace lacks.

    Args:
        tool: profiler of the trace, as in ``trace.tool``; for one that the table lacks, the action
            of nsys is returned.
        what: a value of the column ``what`` of recording_actions.csv.
    """
    return _actions().get((tool, what)) or _actions()["nsys", what]
