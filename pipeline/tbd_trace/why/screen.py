"""The answers of ``why`` and ``whatif`` as text."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from tbd_trace.why.judgement import Judgement
from tbd_trace.why.result import WhatIf, Why

_WIDTH = 100
_LABEL = 11
_KERNELS_SHOWN = 3
_LEAST_PCT = 0.1


def ms(ns: float | None) -> str:
    """Format a time in ms, with four digits."""
    if ns is None:
        return "unknown"
    number = ns / 1e6
    return f"{number:.1f} ms" if number >= 100 else f"{number:.4g} ms"


def times(before: float, after: float) -> str:
    """Format a gain as a factor."""
    return f"×{before / after:.2f}" if after > 0 else "×∞"


def text(why: Why, top: int = 3, *, everything: bool = False) -> str:
    """Format the judgement of the slowest process, and a line about each other one.

    Args:
        top: number of causes; the GPU's kernels are one.
        everything: True lists all causes, kernels by kind.
    """
    one = why.slowest
    lines = [heading(one), ""]
    lines += _causes(one, top, everything=everything)
    lines += labelled("Sampled", [one.sampled] if one.sampled else [])
    for label, sentence in change(one):
        lines += labelled(label, [sentence])
    lines += labelled("Covers", one.covers)
    lines += labelled("Not known", one.not_known)
    lines += _others(why.judgements[1:])
    return "\n".join(lines) + "\n"


def heading(one: Judgement) -> str:
    """Compare the mean step with the time in which the GPU works."""
    if one.step_ns is None:
        return f"{one.trace}: no steps found; shares of {ms(one.elapsed_ns)}"
    spread = (
        f"median {_plain(one.median_step_ns)}, {_plain(one.p5_step_ns)} … {_plain(one.p95_step_ns)}"
    )
    noun = "steps" if one.trains else "repeats"
    steps = f"{one.steps} {noun} of {ms(one.step_ns)} (mean; {spread})"
    if one.gpu_step_ns is None:
        return f"{steps}; no GPU operations"
    share = 100 * one.gpu_step_ns / one.step_ns
    return f"{steps}; the GPU works {ms(one.gpu_step_ns)} of each ({share:.0f} %)"


def _plain(ns: float | None) -> str:
    return ms(ns).removesuffix(" ms")


def _causes(one: Judgement, top: int, *, everything: bool) -> list[str]:
    rows = []
    kernels = [cause for cause in one.causes if cause.cause.startswith("gpu_")]
    for cause in one.causes:
        if everything or not cause.cause.startswith("gpu_"):
            rows.append((cause.share_pct, cause.title, cause.evidence))
    if kernels and not everything:
        parts = [f"{c.title.removeprefix('GPU ')} {c.share_pct:.1f}" for c in kernels]
        more = " …" if len(parts) > _KERNELS_SHOWN else ""
        total = sum(cause.share_pct for cause in kernels)
        rows.append((total, "GPU kernels", ", ".join(parts[:_KERNELS_SHOWN]) + more))
    rows.sort(key=lambda row: -row[0])
    shown = [row for row in rows if row[0] >= _LEAST_PCT][: None if everything else top]
    width = max((len(title) for _, title, _ in shown), default=0)
    columns = [(f"{share:5.1f} %  {title:{width}}  ", text) for share, title, text in shown]
    indent = len(columns[0][0]) if columns else 0
    return labelled("Why", [start + text for start, text in columns], indent)


def change(one: Judgement) -> list[tuple[str, str]]:
    """Return the change that gains most, its gain and the causes after it, each with its label."""
    cause = next((cause for cause in one.causes if cause.cause == one.change), None)
    if cause is None:
        return []
    parts = [("Change", cause.advice or "")]
    now = one.judged_step_ns
    if cause.best_step_ns is None or now is None:
        return [*parts, ("Gain", "not known")]
    gain = f"at most {times(now, cause.best_step_ns)} ({ms(cause.best_step_ns)})"
    if cause.likely_step_ns is not None:
        gain += f", likely {times(now, cause.likely_step_ns)} ({ms(cause.likely_step_ns)})"
    if cause.worst_step_ns is not None and cause.worst_step_ns > now * 1.001:
        gain += f", at worst {times(now, cause.worst_step_ns)}"
    error = one.replay_error_pct
    parts.append(("Gain", gain + (f"; replay error {error:+.1f} %" if error is not None else "")))
    if one.then:
        left = ", ".join(f"{c.title} {c.share_pct:.0f} %" for c in one.then[:_KERNELS_SHOWN])
        parts.append(("Then", f"{left} (replayed)"))
    return parts


def labelled(label: str, entries: Sequence[str], indent: int = 0) -> list[str]:
    """Wrap entries into lines, the first of which begins with the label."""
    lines = []
    for entry in entries:
        lines += textwrap.wrap(
            entry, _WIDTH - _LABEL, subsequent_indent=" " * indent, break_on_hyphens=False
        )
    names = [label] + [""] * len(lines)
    return [f"{name:{_LABEL}}{line}" for name, line in zip(names, lines, strict=False)]


def _others(others: Sequence[Judgement]) -> list[str]:
    return labelled(
        "Others",
        [
            f"{one.trace} pid {one.pid}: {one.steps} steps of {ms(one.step_ns)}, "
            f"{one.causes[0].title} {one.causes[0].share_pct:.1f} %"
            for one in others
        ],
    )


def markdown(why: Why, *, everything: bool = False) -> str:
    """Format the causes of the slowest process as a Markdown table."""
    one = why.slowest
    now = one.judged_step_ns
    lines = [f"{heading(one)}", "", "| cause | share | at most | evidence | advice |"]
    lines.append("|---|---:|---:|---|---|")
    for cause in one.causes:
        if everything or cause.share_pct >= 1:
            best = cause.best_step_ns
            gain = times(now, best) if now is not None and best is not None else ""
            lines.append(
                f"| {cause.title} | {cause.share_pct:.1f} % | {gain} | {cause.evidence} "
                f"| {cause.advice or ''} |"
            )
    return "\n".join(lines) + "\n"


def prediction(found: WhatIf) -> str:
    """Format a prediction."""
    likely = "at most" if found.likely_step_ns is None else "likely"
    lines = [
        f"{found.change}: {likely} {times(found.now_step_ns, found.step_ns)}, from "
        f"{ms(found.now_step_ns)} to {ms(found.step_ns)} per step "
        f"({ms(found.best_step_ns)} … {ms(found.worst_step_ns)})",
        f"then: {found.top_cause}, {found.top_share_pct:.0f} % of the step",
        f"{found.evidence}: {found.validated_by or 'no measured pair supports this prediction'}",
        *found.notes,
    ]
    return "\n".join(lines) + "\n"
