"""The result of ``why`` as a Python object, JSON and HTML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from tbd_trace.why.diagnosis import Diagnosis
from tbd_trace.why.screen import markdown, text

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, slots=True)
class Why:
    """Why training is slow: a diagnosis of each process, the one with the longest steps first."""

    diagnoses: Sequence[Diagnosis]
    whole = "the steps"  # what shares are parts of

    @property
    def slowest(self) -> Diagnosis:
        """The diagnosis of the process with the longest steps."""
        return self.diagnoses[0]

    def to_dict(self) -> dict[str, Any]:
        """Return the diagnosis of the slowest process; others are listed under ``others``."""
        others = [
            {
                "trace_id": other.trace_id,
                "pid": other.pid,
                "steps": other.steps,
                "step_ns": other.step_ns,
                "cause": other.causes[0].cause,
                "share_pct": other.causes[0].share_pct,
            }
            for other in self.diagnoses[1:]
        ]
        return self.slowest.to_dict() | {"others": others}

    def text(self, top: int = 3, **options: Any) -> str:
        """Return the screen; options as in :func:`tbd_trace.why.screen.text`."""
        return text(self.diagnoses, top, **options)

    def markdown(self, *, everything: bool = False) -> str:
        """Return the causes of the slowest process as a Markdown table."""
        return markdown(self.slowest, everything=everything)

    def __repr__(self) -> str:
        slowest, others = self.slowest, len(self.diagnoses) - 1
        more = f", {others} more" if others else ""
        largest = slowest.causes[0]
        return f"<Why of {slowest.trace}: {largest.title} {largest.share_pct:.0f} %{more}>"

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


def rows_of_process(frame: pl.DataFrame, diagnosis: Diagnosis) -> pl.DataFrame:
    """Return the rows about the process of a diagnosis."""
    import polars as pl  # noqa: PLC0415 - its import takes time

    return frame.filter(
        pl.col("trace_id") == diagnosis.trace_id, pl.col("pid").eq_missing(diagnosis.pid)
    )
