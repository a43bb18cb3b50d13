"""Sentences of a comparison about the ranks of two jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tbd_trace.present.values import capitalized, scaled

if TYPE_CHECKING:
    import polars as pl


def stragglers(frames: Mapping[str, pl.DataFrame]) -> list[str]:
    """Return what changed between the ranks of jobs: exposed communication and the last rank."""
    rows = frames["ranks"].to_dicts() if "ranks" in frames else []
    return [*_communication(rows), *_last(rows)]


def _communication(rows: list[dict[str, Any]]) -> list[str]:
    for measure in ("exposed communication", "communication"):
        known = [r for r in rows if r["measure"] == measure and r["change_ns"] is not None]
        if known:
            a, b = (sum(row[name] for row in known) / len(known) for name in ("a_ns", "b_ns"))
            per = known[0]["per_a"]
            ranks = "" if len(known) == 1 else f", mean of {len(known)} ranks"
            what = capitalized(measure)
            return [
                f"{what} takes {scaled(b, 'ns')} per {per} in B and {scaled(a, 'ns')} in A{ranks}."
            ]
    return []


def _last(rows: list[dict[str, Any]]) -> list[str]:
    caused = [row for row in rows if row["measure"] == "wait caused"]
    b, a = (_stragglers_of_side(caused, side) for side in ("b", "a"))
    return [f"In B {b}; in A {a}."] if a and b else []


def _stragglers_of_side(rows: list[dict[str, Any]], side: str) -> str:
    known = [row for row in rows if row[f"{side}_verdict"] is not None]
    if not known:
        return ""
    worst = max(known, key=lambda row: row[f"{side}_last_pct"])
    if worst[f"{side}_verdict"] == "same rank":
        return f"rank {worst['rank']} is last in {worst[f'{side}_last_pct']:.3g} % of collectives"
    return {"rotating": "no rank is a straggler"}.get(
        worst[f"{side}_verdict"], "stragglers are unknown"
    )
