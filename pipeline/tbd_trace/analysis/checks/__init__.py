"""Evaluate the rules of ``queries/checks`` on traces, sweeps and runs."""

from __future__ import annotations

from tbd_trace.analysis.checks.evaluation import SEVERITIES, evaluate, evaluate_on, findings_from
from tbd_trace.analysis.checks.rules import select

__all__ = ["SEVERITIES", "evaluate", "evaluate_on", "findings_from", "select"]
