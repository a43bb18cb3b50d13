"""Say what to collect when a trace lacks what a query needs.

The headers of tables and derived relations hold the advice, ``recording_actions.csv`` the actions
that it names, the tools their commands.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tbd_trace.model.advice import Advice
from tbd_trace.model.canonical_tables import canonical_tables
from tbd_trace.query.catalogue import derived_names, derived_relation
from tbd_trace.query.recording import in_words_of
from tbd_trace.sources.registry import tool as registered

_COUNTED = ("metrics", "summary")  # kinds of files that have no timeline
_TIMELINE = "needs a timeline; {timeline}"


def how_to_collect(
    relations: Sequence[str],
    tool: str,
    kind: str,
    holds: Collection[str] = (),
    unread: str = "",
) -> str:
    """Return what a query lacks and how to collect it, as the end of a sentence.

    Args:
        relations: the table or derived relation without rows, or several of which one is enough.
        tool: the profiler that made the trace, empty for none.
        kind: timeline, metrics or summary, empty for several.
        holds: the canonical tables that the trace has, if known.
        unread: the note of a trace with the work of a device that is not read; empty without one.
    """
    known = [_declared(name) for name in relations]
    if kind in _COUNTED and all(advice and advice.timeline_only for advice in known):
        text = _TIMELINE
    else:
        texts = [
            f"needs {advice.gpu_work}, and {unread}"
            if unread and advice and advice.gpu_work
            else _text(name, advice, tool, kind, holds)
            for name, advice in zip(relations, known, strict=True)
        ]
        text = ", or ".join(dict.fromkeys(texts))
    text = in_words_of(text, tool)
    return f"{text} (this is a {kind} file of {tool})" if tool and kind in _COUNTED else text


def _declared(name: str) -> Advice | None:
    if name in canonical_tables():
        return canonical_tables()[name].advice
    return derived_relation(name).advice if name in derived_names() else None


def _text(name: str, advice: Advice | None, tool: str, kind: str, holds: Collection[str]) -> str:
    if advice is None:
        return f"needs {name}, which the trace lacks"
    made_by = registered(tool) if tool else None
    if kind == "timeline":
        # Collecting another timeline the same way would not help.
        if advice.gpu_work and made_by and made_by.profile_command:
            return _without_gpu_work(advice.gpu_work, made_by.profile_command, holds)
        if tool in advice.by_tool:
            return advice.by_tool[tool]
    if kind == "metrics" and advice.counters and made_by and made_by.counters_command:
        return (
            f"needs {advice.counters}, which the counters of this file do not include; "
            f"collect more of them with {made_by.counters_command}"
        )
    return advice.missing


def _without_gpu_work(missing: str, profile_command: str, holds: Collection[str]) -> str:
    declared = [advice for name in sorted(holds) if (advice := _declared(name))]
    reasons = [advice.without_kernels for advice in declared if advice.without_kernels]
    if reasons:
        return f"needs {missing}, {reasons[0]}"
    text = (
        f"needs {missing}, and the trace has none; profile the process and the part of the run "
        f"that uses a GPU, with the GPU traced ({profile_command})"
    )
    return "; ".join([text, *(advice.without_gpu for advice in declared if advice.without_gpu)])
