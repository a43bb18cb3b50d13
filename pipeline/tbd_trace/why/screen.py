"""The answers of ``why`` and ``whatif`` as text."""

from __future__ import annotations

from collections.abc import Sequence

from tbd_trace.markdown import row
from tbd_trace.why.diagnosis import Diagnosis
from tbd_trace.why.layout import LEAST_PCT, PARTS_SHOWN, WIDTH, closer, labelled, rows_of_shares
from tbd_trace.why.layout import percent as _pct
from tbd_trace.why.predictions import WhatIf
from tbd_trace.why.ranking import LARGE_CAUSE_PCT, Cause

_SHORTER = 0.8  # part of the time of a cause that a change shortens


def ms(ns: float | None) -> str:
    """Format a time in ms, with four digits."""
    if ns is None:
        return "unknown"
    number = ns / 1e6
    return f"{number:.1f} ms" if number >= 100 else f"{number:.4g} ms"


def times(before: float, after: float) -> str:
    """Format a gain as a factor."""
    return f"×{before / after:.2f}" if after > 0 else "×∞"


def text(
    diagnoses: Sequence[Diagnosis],
    top: int = 3,
    *,
    everything: bool = False,
    width: int = WIDTH,
    files: Sequence[str] = (),
    commands: Sequence[str] = (),
) -> str:
    """Format the diagnosis of the slowest process, and a line about each other one.

    Args:
        diagnoses: of all processes, the slowest first.
        top: number of causes; the GPU's kernels are one.
        everything: True lists all causes, kernels by kind.
        width: characters of a line.
        files: the arguments that name the traces, for the commands that show more.
        commands: other commands to go on with.
    """
    slowest, *others = diagnoses
    lines = labelled("", [about(slowest), heading(slowest)], width=width, label_width=0)
    lines += ["", "Where a step goes" if slowest.step_ns else "Where the time goes"]
    lines += _causes(slowest, top, everything=everything, width=width)
    lines.append("")
    for label, sentence in sentences(slowest):
        lines += labelled(label, [sentence], width=width)
    lines += labelled("Not known", slowest.not_known, width=width)
    lines += _others(others, width)
    lines += closer(files, commands, width)
    return "\n".join(lines) + "\n"


def about(diagnosis: Diagnosis) -> str:
    """Name the trace, its profiler, its GPU, its batch size and its precision."""
    return " · ".join([diagnosis.trace, *diagnosis.about])


def heading(diagnosis: Diagnosis) -> str:
    """State the steps used, the mean step, and the share of it in which the GPU works."""
    if diagnosis.step_ns is None:
        busy = diagnosis.busy_pct
        works = f"the GPU works {_pct(busy)} of it" if busy is not None else "no GPU operations"
        return f"no steps found; shares of {ms(diagnosis.elapsed_ns)}; {works}"
    spread = (
        f" ({_plain(diagnosis.p5_step_ns)} … {_plain(diagnosis.p95_step_ns)})"
        if diagnosis.steps > 1
        else ""
    )
    steps = f"{diagnosis.counted}: {ms(diagnosis.step_ns)} a step{spread}"
    if diagnosis.busy_pct is None:
        return f"{steps}; no GPU operations"
    return f"{steps}; the GPU works {_pct(diagnosis.busy_pct)} of it"


def sentences(diagnosis: Diagnosis) -> list[tuple[str, str]]:
    """Return what to try, what to expect and what to know, each with its label."""
    entries = [
        (label, sentence)
        for label, sentence in (("Sampled", diagnosis.sampled), ("Overlap", diagnosis.overlap))
        if sentence
    ]
    entries += change(diagnosis)
    if unsolved := _without_remedy(diagnosis):
        entries.append(("No remedy", unsolved))
    if diagnosis.warm_up:
        entries.append(("Warm-up", diagnosis.warm_up))
    if diagnosis.profiler_cost:
        entries.append(("Profiler", diagnosis.profiler_cost))
    if diagnosis.memory:
        entries.append(("Memory", diagnosis.memory))
    return entries + [("Covers", sentence) for sentence in diagnosis.covers]


def _without_remedy(diagnosis: Diagnosis) -> str:
    # Large causes for which no change is known, and that the change to try first does not shorten.
    left = {cause.cause: cause.ns_per_step or 0.0 for cause in diagnosis.then}
    large = [
        f"{cause.title} {_pct(cause.share_pct)}"
        for cause in diagnosis.causes
        if cause.share_pct >= LARGE_CAUSE_PCT
        and not (cause.advice or cause.cause == "unknown")
        # A change with an unknown gain may help.
        and not (cause.remedy and cause.likely_step_ns is None)
        and (not left or left.get(cause.cause, 0.0) > _SHORTER * (cause.ns_per_step or 0.0))
    ]
    return f"{', '.join(large)}: no change is known that shortens the step" if large else ""


def _plain(ns: float | None) -> str:
    return ms(ns).removesuffix(" ms")


def _short(ns: float) -> str:
    # ms with about three digits, for columns
    number = ns / 1e6
    digits = 0 if number >= 100 else 1 if number >= 10 else 2 if number >= 1 else 3
    return f"{number:.{digits}f}"


def _causes(diagnosis: Diagnosis, top: int, *, everything: bool, width: int) -> list[str]:
    # Rows of time, share, cause and evidence, the largest first; the last row is the rest.
    kernels = [cause for cause in diagnosis.causes if cause.cause.startswith("gpu_")]
    rows = [
        (cause.share_pct, cause.title, cause.evidence)
        for cause in diagnosis.causes
        if everything or not cause.cause.startswith("gpu_")
    ]
    unit = (diagnosis.step_ns or diagnosis.elapsed_ns) / 100  # ns of a percent
    if kernels and not everything:
        total = sum(cause.share_pct for cause in kernels)
        named = [(cause.title.removeprefix("GPU "), cause.share_pct) for cause in kernels]
        rows.append((total, "GPU kernels", _parts(named, unit)))
    rows.sort(key=lambda row: -row[0])
    shown = rows if everything else [row for row in rows[:top] if row[0] >= LEAST_PCT]
    printed = [round(share, 1) for share, _, _ in shown]
    if rest := rows[len(shown) :]:
        named = [(title, share) for share, title, _ in rest]
        shown = [*shown, (sum(share for _, share in named), "rest", _parts(named, unit))]
        printed.append(max(100 - sum(printed), 0.0))  # the printed shares sum to 100
    table = [
        (f"{_short(share * unit):>7} ms", pct, title, evidence)
        for pct, (share, title, evidence) in zip(printed, shown, strict=True)
    ]
    return rows_of_shares(table, width)


def _parts(named: Sequence[tuple[str, float]], unit: float) -> str:
    # The largest of some causes, in ms.
    parts = [f"{title} {_short(share * unit)}" for title, share in named if share > 0]
    return ", ".join(parts[:PARTS_SHOWN]) + (" …" if len(parts) > PARTS_SHOWN else "")


def change(diagnosis: Diagnosis) -> list[tuple[str, str]]:
    """Return the change that gains most, its gain and the causes after it, each with its label."""
    cause = next((cause for cause in diagnosis.causes if cause.cause == diagnosis.change), None)
    if cause is None:
        if diagnosis.step_ns is None or diagnosis.busy_pct is None:
            return []
        works = f"the GPU works {_pct(diagnosis.busy_pct)} of a step"
        return [("Try first", f"no known change pays; {works}")]
    parts = [("Try first", cause.advice or "")]
    now = diagnosis.judged_step_ns
    if cause.likely_step_ns is None or now is None:
        return [*parts, ("Expect", "the gain is not known")]
    parts.append(("Expect", _expected(now, cause)))
    if diagnosis.then:
        left = ", ".join(f"{c.title} {_pct(c.share_pct)}" for c in diagnosis.then[:PARTS_SHOWN])
        parts.append(("After that", f"{left} (replayed)"))
    return parts


def _expected(now: float, cause: Cause) -> str:
    best, likely, worst = cause.best_step_ns, cause.likely_step_ns, cause.worst_step_ns
    assert likely is not None
    return f"{ms(likely)}, {times(now, likely)} ({_plain(best)} … {_plain(worst)} in 8 of 10 cases)"


def _others(others: Sequence[Diagnosis], width: int) -> list[str]:
    return labelled(
        "Others",
        [
            f"{other.trace} pid {other.pid}: {other.counted}, "
            f"{ms(other.step_ns or other.elapsed_ns)}{' a step' if other.step_ns else ' in all'}; "
            f"{other.causes[0].title} "
            f"{_pct(other.causes[0].share_pct)}"
            for other in others
        ],
        width=width,
    )


def markdown(diagnosis: Diagnosis, *, everything: bool = False) -> str:
    """Format the causes of a process as a Markdown table."""
    now = diagnosis.judged_step_ns
    lines = [about(diagnosis), "", heading(diagnosis), ""]
    lines.append("| cause | share | likely | evidence | advice |")
    lines.append("|---|---:|---:|---|---|")
    for cause in diagnosis.causes:
        if everything or cause.share_pct >= 1:
            then = cause.likely_step_ns
            gain = times(now, then) if now is not None and then is not None else ""
            share = f"{cause.share_pct:.1f} %"
            lines.append(row([cause.title, share, gain, cause.evidence, cause.advice or ""]))
    lines += ["", *(f"- {label}: {sentence}" for label, sentence in sentences(diagnosis))]
    return "\n".join(lines) + "\n"


def prediction(result: WhatIf) -> str:
    """Format a prediction."""
    lines = [
        f"{result.change}: likely {times(result.now_step_ns, result.step_ns)}, from "
        f"{ms(result.now_step_ns)} to {ms(result.step_ns)} per step "
        f"({_plain(result.best_step_ns)} … {ms(result.worst_step_ns)} in 8 of 10 cases)",
        f"then: {result.top_cause}, {result.top_share_pct:.0f} % of the step",
        f"{result.evidence}: {result.validated_by or 'no measured pair supports this prediction'}",
        *result.notes,
    ]
    return "\n".join(lines) + "\n"
