"""Section of a report with the results of ``tbd-trace check``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import polars as pl

from tbd_trace.analysis.checks import evaluate_on, select
from tbd_trace.analysis.checks.evaluation import SEVERITIES
from tbd_trace.analysis.report.page import Block, Finding, Findings, Note, Section, Table
from tbd_trace.errors import CannotAnswerError
from tbd_trace.present.values import scale
from tbd_trace.query.header import CHECK_COLUMNS
from tbd_trace.query.shared_session import SharedSession

_QUERY = "tbd-trace check"
_WORDS = {"finding": "with findings", "not evaluable": "not evaluable", "pass": "passed"}
_SHOWN = ("rule", "title", "verdict", "trace_id", "reason", "advice")


def findings(session: SharedSession, trace_names: Mapping[str, str]) -> Section:
    """Evaluate all rules and return their section."""
    title = "Findings"
    intro = (
        "Problems found by the rules of `tbd-trace check`, with changes to try. "
        "A rule without the required data is not evaluable; it does not pass."
    )
    try:
        frame = evaluate_on(session, select(None))
    except CannotAnswerError as error:
        return Section("findings", title, intro, [Note(str(error), "missing")])
    finding_rows = frame.filter(pl.col("verdict") == "finding").to_dicts()
    entries = [_finding(row, trace_names) for row in finding_rows]
    blocks: list[Block] = [Findings(entries) if entries else Note(f"No finding: {_counts(frame)}.")]
    docs = {name: column.doc for name, column in CHECK_COLUMNS.items()}
    blocks.append(
        Table(
            frame,
            query=_QUERY,
            filterable=True,
            caption=f"All rules: {_counts(frame)}",
            docs=docs,
            columns=_SHOWN if len(trace_names) > 1 else [c for c in _SHOWN if c != "trace_id"],
        )
    )
    severities = Counter(entry.severity for entry in entries)
    count = ", ".join(
        f"{severities[name]} {name}" for name in reversed(SEVERITIES) if severities[name]
    )
    return Section("findings", title, intro, blocks, count=count)


def _finding(row: Mapping[str, object], trace_names: Mapping[str, str]) -> Finding:
    trace = trace_names.get(str(row["trace_id"]), "") if len(trace_names) > 1 else ""
    evidence = [str(row["rule"]), str(row["evidence"] or ""), _measured(row), trace]
    return Finding(
        title=str(row["title"]),
        severity=str(row["severity"]),
        reason=str(row["reason"]),
        advice=str(row["advice"] or ""),
        evidence="; ".join(filter(None, evidence)),
    )


def _measured(row: Mapping[str, object]) -> str:
    # Value and threshold in the same unit.
    value, threshold = row["value"], row["threshold"]
    if not isinstance(value, float) or not isinstance(threshold, float):
        return ""
    divisor, unit = scale(max(abs(value), abs(threshold)), str(row["unit"] or ""))
    return f"{value / divisor:.3g} against {threshold / divisor:.3g} {unit}".strip()


def _counts(frame: pl.DataFrame) -> str:
    counts = dict(frame["verdict"].value_counts().iter_rows())
    return ", ".join(f"{counts[name]} {words}" for name, words in _WORDS.items() if name in counts)
