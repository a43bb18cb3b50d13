"""Derive the verdict of a comparison: one word, and a sentence with the numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from tbd_trace.analysis.diff.rank_sentences import stragglers
from tbd_trace.analysis.diff.work import SameWork, Work, compared_work, differences
from tbd_trace.present.values import scaled

if TYPE_CHECKING:
    import polars as pl

_REASONS_SHOWN = 3
_PARTS = {
    "compute_pct": "compute",
    "exposed_communication_pct": "exposed communication",
    "exposed_copy_pct": "exposed copies",
    "idle_pct": "idle",
}


class Word(StrEnum):
    """Verdict on B."""

    FASTER = "faster"
    SLOWER = "slower"
    NO_CHANGE = "no change beyond noise"
    NOT_COMPARABLE = "not comparable"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Verdict on the iteration time of B."""

    word: Word
    sentence: str  # the numbers behind it
    # Change of the iteration time in percent of A; None if not comparable.
    change_pct: float | None = None
    low_pct: float | None = None  # lower end of its interval
    high_pct: float | None = None  # upper end of its interval
    confidence_pct: float | None = None  # confidence of the interval
    noise_pct: float | None = None
    caveats: tuple[str, ...] = ()  # sentences that limit the verdict


def verdict_on(
    frames: Mapping[str, pl.DataFrame], work: Work | None = None, *, same: bool = False
) -> Verdict:
    """Derive the verdict from the results of the queries.

    Args:
        work: the work of a step of B against that of A; None if it was not compared.
        same: True if the files of both sides have the same content.
    """
    verdict = _on_time(frames, same=same)
    sentences = [
        verdict.sentence, _per_unit(verdict, work), *stragglers(frames), _memory_peak(frames)
    ]  # fmt: skip
    caveats = verdict.caveats
    if work is not None and work.verdict is SameWork.SAME and work.beside:
        caveats = (f"At the same work they differ in {differences(work.beside)}.", *caveats)
    return replace(verdict, sentence=" ".join(filter(None, sentences)), caveats=caveats)


def work_of(frames: Mapping[str, pl.DataFrame], *, same: bool = False) -> Work:
    """Compare the work of a step of both sides, from the results of the queries."""
    if same:
        return Work(SameWork.SAME)
    rows = {row["field"]: row for row in frames["comparability"].to_dicts()}
    is_stated = "model" in rows and not _reasons(frames["comparability"])
    return compared_work(frames["work"].to_dicts(), is_stated=is_stated)


def _per_unit(verdict: Verdict, work: Work | None) -> str:
    # The change for each sample or row, where their number explains the other work.
    if work is None or verdict.change_pct is None or work.units_ratio is None:
        return ""
    change = 100 * ((1 + verdict.change_pct / 100) / work.units_ratio - 1)
    return f"For each {work.unit} the change is {change:+.2f} %."


def _on_time(frames: Mapping[str, pl.DataFrame], *, same: bool) -> Verdict:
    if same:
        sentence = "A and B are the same trace, file for file: there is no difference to find."
        return Verdict(Word.NO_CHANGE, sentence, *(0.0, 0.0, 0.0, 95.0, 0.0))
    caveats = _caveats(frames)
    if reasons := _reasons(frames["comparability"]):
        return Verdict(Word.NOT_COMPARABLE, f"{_joined(reasons)}.", caveats=caveats)
    row = _headline(frames["iterations"])
    if row is None:
        return _without_iterations(frames["kernels"], caveats)
    if row["verdict"] is None:
        counted = f"{row['n_a']} in A, {row['n_b']} in B"
        return Verdict(Word.NOT_COMPARABLE, f"{row['reason']} ({counted}).", caveats=caveats)
    return Verdict(
        word=Word(row["verdict"]),
        sentence=_sentence(row, frames["utilization"]),
        change_pct=row["change_pct"],
        low_pct=row["low_pct"],
        high_pct=row["high_pct"],
        confidence_pct=row["confidence_pct"],
        noise_pct=row["noise_pct"],
        caveats=caveats,
    )


def _memory_peak(frames: Mapping[str, pl.DataFrame]) -> str:
    # The memory space with the highest peak in A represents several.
    rows = frames["memory"].to_dicts() if "memory" in frames else []
    peaks = [row for row in rows if row["measure"] == "peak requested"]
    if not peaks:
        return ""
    row = max(peaks, key=lambda peak: peak["a_bytes"])
    change = "" if row["change_pct"] is None else f" ({row['change_pct']:+.2f} %)"
    which = f"highest of {len(peaks)} memory peaks" if len(peaks) > 1 else "memory peak"
    a, b = scaled(row["a_bytes"], "byte"), scaled(row["b_bytes"], "byte")
    return f"The {which} is {b} in B and {a} in A{change}."


def time(ns: float, *, signed: bool = False) -> str:
    """Format a time with a suitable unit, such as ``+1.913 ms``."""
    return scaled(ns, "ns", "+" if signed else "")


def _headline(iterations: pl.DataFrame) -> dict[str, Any] | None:
    # The rank is null in rows of all processes together. The period, from start to start, includes
    # the time between iterations and is preferred to the time on the host.
    rows = [row for row in iterations.to_dicts() if row["rank"] is None]
    by_measure = {row["measure"]: row for row in rows if row["n_a"] and row["n_b"]}
    for measure in ("period_ns", "host_ns"):
        if measure in by_measure:
            return by_measure[measure]
    return rows[0] if rows else None


def _reasons(comparability: pl.DataFrame) -> list[str]:
    return [
        f"{row['field']} is {row['a']} in A, but {row['b']} in B"
        for row in comparability.to_dicts()
        if row["matters"] == "not comparable"
    ]


def _sentence(row: Mapping[str, Any], utilization: pl.DataFrame) -> str:
    text = (
        f"an iteration takes {time(row['mean_b_ns'])} in B and {time(row['mean_a_ns'])} in A "
        f"(means of {row['n_b']} and {row['n_a']}, {_mean_change_pct(row):+.2f} %); iteration by "
        f"iteration the change is {row['change_pct']:+.2f} %, {_interval(row)} "
        f"{row['low_pct']:+.2f} to {row['high_pct']:+.2f} %, noise floor {row['noise_pct']:.2f} %"
    )
    parts = _parts(utilization)
    return f"{text}. Mean change per iteration on a GPU: {parts}." if parts else f"{text}."


def _interval(row: Mapping[str, Any]) -> str:
    # The interval of few iterations spans all ratios; its confidence depends on their number.
    return f"{row['confidence_pct']:.3g} % interval"


def _mean_change_pct(row: Mapping[str, Any]) -> float:
    return float(100 * (row["mean_b_ns"] / row["mean_a_ns"] - 1))


def _parts(utilization: pl.DataFrame) -> str:
    # Mean over GPUs, the largest change first.
    changes: dict[str, list[float]] = {name: [] for name in _PARTS}
    for row in utilization.to_dicts():
        if row["measure"] in changes and None not in (row["a_ns"], row["b_ns"]):
            changes[row["measure"]].append(row["b_ns"] - row["a_ns"])
    means = [
        (_PARTS[name], sum(gpu_changes) / len(gpu_changes))
        for name, gpu_changes in changes.items()
        if gpu_changes
    ]
    ordered = sorted(means, key=lambda mean: -abs(mean[1]))
    return ", ".join(f"{name} {time(mean, signed=True)}" for name, mean in ordered)


def _without_iterations(kernels: pl.DataFrame, caveats: tuple[str, ...]) -> Verdict:
    # Without iterations, only equal kernels and times allow a verdict: different times may be due
    # to different numbers of iterations.
    a_ns, b_ns = int(kernels["a_ns"].sum() or 0), int(kernels["b_ns"].sum() or 0)
    a_calls, b_calls = kernels["a_calls"].sum() or 0, kernels["b_calls"].sum() or 0
    kernel_times = (
        f"{b_calls:,.0f} kernels took {time(b_ns)} in B, {a_calls:,.0f} took {time(a_ns)} in A"
    )
    unchanged = all(
        row["change_ns"] == 0 and row["a_calls"] == row["b_calls"] for row in kernels.to_dicts()
    )
    if kernels.height and unchanged:
        return Verdict(
            Word.NO_CHANGE,
            f"neither side has iterations; the same kernels took the same time ({kernel_times}).",
            *(0.0, 0.0, 0.0, 95.0, 0.0),
            caveats=caveats,
        )
    sentence = "without iterations on both sides, it is unknown if both did the same work"
    return Verdict(
        Word.NOT_COMPARABLE,
        f"{sentence}; {kernel_times}." if kernels.height else f"{sentence}.",
        caveats=caveats,
    )


def _caveats(frames: Mapping[str, pl.DataFrame]) -> tuple[str, ...]:
    rows = {row["field"]: row for row in frames["comparability"].to_dicts()}
    caveats = [
        f"{row['field']} is {row['a'] or 'not known'} in A, {row['b'] or 'not known'} in B."
        for row in rows.values()
        if row["matters"] == "uncertain"
    ]
    if explaining := [
        f"{row['field']} ({row['a'] or 'not known'} in A, {row['b'] or 'not known'} in B)"
        for row in rows.values()
        if row["matters"] == "may explain"
    ]:
        caveats.append(f"Besides their speed, they differ in {_joined(explaining)}.")
    if _is_about_iterations(rows, "anchor kernel"):
        caveats.append(
            "Iterations are detected by a repeating kernel: one may be a block of a model, not a "
            "training step. Mark the steps with NVTX ranges to be sure."
        )
    if _is_about_iterations(rows, "all iterations"):
        caveats.append(
            "No steady state follows the warm-up on a side, so all of its iterations count."
        )
    row = _headline(frames["iterations"])
    if row and row["verdict"] and abs(_mean_change_pct(row) - row["change_pct"]) > row["noise_pct"]:
        caveats.append(
            f"The means change by {_mean_change_pct(row):+.2f} %, most iterations by "
            f"{row['change_pct']:+.2f} %: stalls differ (tbd-trace query iteration_summary)."
        )
    if not frames["iterations"].is_empty():
        caveats.append("One run per side does not show how much runs differ from each other.")
    return tuple(caveats)


def _is_about_iterations(rows: Mapping[str, Mapping[str, Any]], value: str) -> bool:
    # The fields that describe iterations, such as their detection, begin with this word.
    return any(
        value in f"{row['a']}, {row['b']}"
        for field, row in rows.items()
        if field.startswith("iterations ")
    )


def _joined(reasons: list[str]) -> str:
    more = len(reasons) - _REASONS_SHOWN
    shown = reasons[:_REASONS_SHOWN] + ([f"and {more} more"] if more > 0 else [])
    return "; ".join(shown)
