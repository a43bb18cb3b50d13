"""The outcome of rules as an object for Python and notebooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from tbd_trace.analysis.checks import text
from tbd_trace.analysis.checks.evaluation import evaluate
from tbd_trace.store.selection import Selection

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, slots=True, repr=False)
class Findings:
    """Outcome of rules on traces."""

    frame: pl.DataFrame  # a row per rule and trace, as of ``tbd-trace check --format csv``
    names: Mapping[str, str]  # names of the checked traces by id

    def __repr__(self) -> str:
        return f"<Findings: {text.summary(self.frame)}>"

    def __str__(self) -> str:
        return text.render(self.frame, self.names)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


def check(
    traces: Selection,
    rules: Sequence[str] | None = None,
    parameters: Mapping[str, str] | None = None,
) -> Findings:
    """Evaluate rules; arguments and errors as of :func:`evaluation.evaluate`."""
    frame = evaluate(traces, rules, parameters)
    names = dict(traces.database.traces().select("trace_id", "name").rows())
    # Findings of sweeps and runs have no trace id.
    checked = frame["trace_id"].drop_nulls().to_list()
    return Findings(frame, {trace_id: names[trace_id] for trace_id in checked})
