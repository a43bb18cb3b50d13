"""The result of ``why`` as a Python object, JSON and HTML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from tbd_trace.why.judgement import Judgement
from tbd_trace.why.screen import text

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
        return text(self.judgements)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


def of_process(frame: pl.DataFrame, one: Judgement) -> pl.DataFrame:
    """Return the rows about a judged process."""
    import polars as pl  # noqa: PLC0415 - its import takes time

    return frame.filter(pl.col("trace_id") == one.trace_id, pl.col("pid").eq_missing(one.pid))
