"""The answer of ``tbd-trace hang`` as one screen."""

from __future__ import annotations

from tbd_trace.analysis.hang.answer import Hang
from tbd_trace.analysis.hang.job import listed
from tbd_trace.why.layout import MOST_WIDTH, WIDTH, labelled

_LEAST_WIDTH = WIDTH


def hang_text(answer: Hang, width: int = WIDTH) -> str:
    """Return who, what, where, who waits, since when, and what to do."""
    verdict = answer.verdict
    width = min(max(width, _LEAST_WIDTH), MOST_WIDTH)
    sections = [
        ("Who", [_who(answer)]),
        ("What", [answer.collective or "unknown"]),
        ("Where", [str(verdict.place) if verdict.place else _without_line(answer)]),
        ("Waiting", [listed(verdict.waiting) if verdict.waiting else "no rank"]),
        ("Since", [f"{answer.since} UTC" if answer.since else "unknown"]),
        ("Evidence", [verdict.evidence]),
        ("Do next", [verdict.action]),
        ("Logs", [f"{line.file}: {line.text}" for line in answer.logs]),
    ]
    if verdict.rule == "healthy":
        sections = [section for section in sections if section[0] in ("Who", "Evidence", "Do next")]
    lines = [_about(answer), ""]
    for label, texts in sections:
        lines += labelled(label, texts, width=width) if texts else []
    return "\n".join(lines) + "\n"


def _about(answer: Hang) -> str:
    ranks = answer.job.ranks
    dumps = sum(known.has_records for known in ranks.values())
    return f"{answer.job.name} · {dumps} of {len(ranks)} ranks with records"


def _who(answer: Hang) -> str:
    verdict = answer.verdict
    if verdict.ranks:
        return f"{listed(verdict.ranks)} {'hangs' if len(verdict.ranks) == 1 else 'hang'} the job"
    return "no hang" if verdict.rule == "healthy" else "unknown"


def _without_line(answer: Hang) -> str:
    has_lines = any(call.place for call in answer.job.calls)
    return "unknown" if has_lines else "unknown: the dumps have no stacks, as in JSON"
