"""Texts about missing data, in the words of the profiler that recorded a trace.

They name the actions of :mod:`tbd_trace.sources.recording_actions` in braces, as in
``needs kernels; {timeline}``, so that no trace hears of the profiler of another vendor.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from tbd_trace.sources.recording_actions import action

_NAMED = re.compile(r"\{([a-z_]+)\}")


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
