"""Results of ``why`` and ``whatif``, as Python objects, JSON and HTML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from tbd_trace.why.judgement import Judgement

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, slots=True)
class Why:
    """Why training is slow: a judgement of each process, the one with the longest steps first."""

    judgements: Sequence[Judgement]

    @property
    def slowest(self) -> Judgement:
        """The judgement of the process with the longest steps."""
        return self.judgements[0]

    def to_dict(self) -> dict[str, Any]:
        """Return the judgement of the slowest process; others are listed under ``others``."""
        others = [
            {
                "trace_id": one.trace_id,
                "pid": one.pid,
                "steps": one.steps,
                "step_ns": one.step_ns,
                "cause": one.causes[0].cause,
                "share_pct": one.causes[0].share_pct,
            }
            for one in self.judgements[1:]
        ]
        return self.slowest.to_dict() | {"others": others}

    def __repr__(self) -> str:
        one, others = self.slowest, len(self.judgements) - 1
        more = f", {others} more" if others else ""
        largest = one.causes[0]
        return f"<Why of {one.trace}: {largest.title} {largest.share_pct:.0f} %{more}>"

    def __str__(self) -> str:
        from tbd_trace.why.screen import text  # noqa: PLC0415 - the screen imports this module

        return text(self)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


def of_process(frame: pl.DataFrame, one: Judgement) -> pl.DataFrame:
    """Return the rows about a judged process."""
    import polars as pl  # noqa: PLC0415 - its import takes time

    return frame.filter(pl.col("trace_id") == one.trace_id, pl.col("pid").eq_missing(one.pid))


@dataclass(frozen=True, slots=True)
class WhatIf:
    """Duration of a step after some changes, in ns."""

    change: str
    trace_id: str
    pid: int | None
    now_step_ns: float
    step_ns: float
    gain_pct: float
    best_step_ns: float
    likely_step_ns: float | None
    worst_step_ns: float
    validated_by: str | None
    evidence: str
    top_cause: str
    top_share_pct: float
    notes: list[str]

    def to_dict(self) -> dict[str, Any]:
        """Return the prediction as plain values; unknown ones are None."""
        return asdict(self)
