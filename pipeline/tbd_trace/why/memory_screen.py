"""The verdict on memory as text and Markdown, in the form of the verdict on time."""

from __future__ import annotations

from collections.abc import Sequence

from tbd_trace.markdown import row
from tbd_trace.why.layout import LEAST_PCT, PARTS_SHOWN, WIDTH, closer, labelled, rows_of_shares
from tbd_trace.why.memory_diagnosis import MemoryChange, MemoryDiagnosis, Part
from tbd_trace.why.memory_words import asked, failure, place, size

_PHASES = {
    "forward": "in the forward pass",
    "backward": "in the backward pass",
    "recompute": "in the backward pass",
    "optimizer": "in the optimizer step",
    "setup": "in the set-up",
}
_OTHERS_SHOWN = 3  # changes beside the first


def text(
    diagnoses: Sequence[MemoryDiagnosis],
    top: int = 4,
    *,
    everything: bool = False,
    width: int = WIDTH,
    files: Sequence[str] = (),
    commands: Sequence[str] = (),
) -> str:
    """Format the first diagnosis, and a line about each other device.

    Args:
        diagnoses: of all devices and allocators, the one that matters most first.
        top: number of classes.
        everything: True lists all classes, and all changes.
        width: characters of a line.
        files: the arguments that name the traces, for the commands that show more.
        commands: other commands to go on with.
    """
    first, *others = diagnoses
    lines = labelled("", [about(first), heading(first)], width=width, label_width=0)
    moment = "peak" if first.base.moment == "peak" else "memory"
    lines += ["", f"What holds the {moment}"]
    lines += rows_of_shares(_rows(first, top, everything=everything), width)
    lines.append("")
    for label, sentence in sentences(first, everything=everything):
        lines += labelled(label, [sentence], width=width)
    lines += labelled("Not known", first.not_known, width=width)
    lines += labelled("Others", [_other(other, first) for other in others], width=width)
    lines += closer(files, commands, width)
    return "\n".join(lines) + "\n"


def about(diagnosis: MemoryDiagnosis) -> str:
    """Name the trace, its recorder, and the device."""
    return " · ".join([diagnosis.trace, *diagnosis.about, _where(diagnosis)])


def heading(diagnosis: MemoryDiagnosis) -> str:
    """State the failed request, and the live and held bytes at the peak."""
    base = diagnosis.base
    held = f", {size(base.held_bytes)} held" if base.held_bytes is not None else ""
    if base.moment == "plan":
        state = f"{size(base.live_bytes)} planned by the compiler"
    elif base.moment == "end":
        state = f"peak not recorded; {size(base.live_bytes)} live{held} at the end"
    else:
        phase = f" {_PHASES[base.phase]}" if base.phase in _PHASES else ""
        after = "before the first event" if base.sequence == -1 else f"at event {base.sequence:,}"
        state = f"peak {size(base.live_bytes)} live{held}, {after}{phase}"
    if diagnosis.failed is None:
        return state
    return f"Out of memory on {place(diagnosis.device_id)}: {asked(diagnosis.failed)}; {state}"


def sentences(diagnosis: MemoryDiagnosis, *, everything: bool = False) -> list[tuple[str, str]]:
    """Return the failure, what to try and what to know, each with its label."""
    entries = []
    if diagnosis.failed is not None:
        entries.append(("Failed", failure(diagnosis.failed, diagnosis.device_id)))
    if diagnosis.devices:
        entries.append(("Devices", diagnosis.devices))
    if diagnosis.fragmentation:
        entries.append(("Fragments", diagnosis.fragmentation))
    entries += _tries(diagnosis, everything=everything)
    return entries + [("Covers", sentence) for sentence in diagnosis.covers]


def _tries(diagnosis: MemoryDiagnosis, *, everything: bool) -> list[tuple[str, str]]:
    if diagnosis.try_first is None:
        found = "no change of the list saves 3 % by the numbers of this file"
        return [("Try first", found)] if diagnosis.base.moment != "plan" else []
    first, *others = diagnosis.changes
    enough = {None: "", True: "; enough for the request", False: "; not enough for the request"}
    entries = [
        ("Try first", first.advice),
        ("Expect", expected(first) + enough[first.suffices]),
        ("How", first.how),
    ]
    shown = others if everything else others[:_OTHERS_SHOWN]
    return entries + [("Or", f"{change.title}: {expected(change)}") for change in shown]


def expected(change: MemoryChange) -> str:
    """Format the bytes after a change: the likely ones, the saving, and the interval."""
    saved = change.now_bytes - change.likely_bytes
    text = f"{size(change.likely_bytes)} {change.measure}, {size(saved)} less"
    if change.best_bytes == change.worst_bytes:
        return text
    return f"{text} ({size(change.best_bytes)} … {size(change.worst_bytes)})"


def _rows(
    diagnosis: MemoryDiagnosis, top: int, *, everything: bool
) -> list[tuple[str, float, str, str]]:
    parts = diagnosis.causes
    shown = parts if everything else [part for part in parts[:top] if part.share_pct >= LEAST_PCT]
    rows = [(_amount(part.bytes), round(part.share_pct, 1), part.title, part.evidence)
            for part in shown]  # fmt: skip
    if rest := parts[len(shown) :]:
        left = max(100 - sum(share for _, share, _, _ in rows), 0.0)  # printed shares sum to 100
        rows.append((_amount(sum(part.bytes for part in rest)), left, "rest", _listed(rest)))
    return rows


def _amount(number: int) -> str:
    return f"{size(number):>10}"


def _listed(parts: Sequence[Part]) -> str:
    named = [f"{part.title} {size(part.bytes)}" for part in parts[:PARTS_SHOWN]]
    return ", ".join(named) + (" …" if len(parts) > PARTS_SHOWN else "")


def _other(other: MemoryDiagnosis, first: MemoryDiagnosis) -> str:
    largest = other.causes[0] if other.causes else None
    named = f"; {largest.title} {largest.share_pct:.1f} %" if largest else ""
    trace = "" if other.trace_id == first.trace_id else f"{other.trace} "
    return f"{trace}{_where(other)}: {heading(other)}{named}"


def _where(diagnosis: MemoryDiagnosis) -> str:
    if diagnosis.base.moment == "plan":
        return diagnosis.memory_kind or "plan"
    kind = f", {diagnosis.memory_kind}" if diagnosis.memory_kind else ""
    return f"{place(diagnosis.device_id)}{kind}"


def markdown(diagnosis: MemoryDiagnosis, *, everything: bool = False) -> str:
    """Format what holds the memory of a device as a Markdown table."""
    lines = [about(diagnosis), "", heading(diagnosis), ""]
    lines += ["| class | share | bytes | evidence |", "|---|---:|---:|---|"]
    for part in diagnosis.causes:
        if everything or part.share_pct >= LEAST_PCT:
            share = f"{part.share_pct:.1f} %"
            lines.append(row([part.title, share, size(part.bytes), part.evidence]))
    known = [f"- {label}: {sentence}" for label, sentence in sentences(diagnosis)]
    return "\n".join([*lines, "", *known]) + "\n"
