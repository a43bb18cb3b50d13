"""How to record what a trace lacks, in the words of the profiler that recorded it.

``data/recording_actions.csv`` has the actions. Texts about missing data name them in braces, as in
``needs kernels; {timeline}``, so that no trace hears of the profiler of another vendor.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache

from tbd_trace import resources

_NAMED = re.compile(r"\{([a-z_]+)\}")
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
    found = _actions().get((tool or _UNASKED, what))
    return _actions()[_OTHER, what] if found is None else found


def in_words_of(text: str, tool: str = "") -> str:
    """Replace the names of actions in braces by those of a profiler; see :func:`action`."""
    return _NAMED.sub(lambda named: action(tool, named[1]), text)


def in_words_of_each(tools: Iterable[str], say: Callable[[str], str]) -> str:
    """Join the texts for several profilers: the first in full, the others without its reason.

    Args:
        say: returns a text for a tool; reason and action are separated by a semicolon.
    """
    texts: dict[str, list[str]] = {}
    for tool in tools:
        texts.setdefault(say(tool), []).append(tool)
    if not texts:
        return say("")
    (first, _), *others = texts.items()
    reason = first.partition("; ")[0]
    rest = [
        f"for {' and '.join(named)}: {text.removeprefix(reason).removeprefix('; ')}"
        for text, named in others
    ]
    return "; ".join([first, *rest])
