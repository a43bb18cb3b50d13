"""Which skips fail: those without a reason, and those for want of what must be there.

A test without its requirement checks nothing. With ``TBD_TRACE_TOOLS_REQUIRED`` no test skips for
want of a program, a package or an interpreter, with ``TBD_TRACE_CORPUS_REQUIRED`` none for want of
real traces. ``.ci/run`` sets both.
"""

from __future__ import annotations

import os
import re

import pytest

from requirements import REQUIREMENTS, TOOLS

_NAME = re.compile(r"needs (\w+): ")
_PACKAGE = re.compile(r"could not import '[\w.]+'")  # of pytest.importorskip
_NO_REASONS = ("", "unconditional skip")  # the latter is pytest's own, of a bare mark


def fail_if_not_allowed(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Turn the report of a skip that must not be into that of a failure."""
    if not report.skipped or not isinstance(report.longrepr, tuple):
        return  # the latter is an expected failure
    path, line, text = report.longrepr
    reason = text.removeprefix("Skipped").removeprefix(":").strip()
    if problem := "this skip has no reason" if reason in _NO_REASONS else must_not(reason):
        report.outcome = "failed"
        report.longrepr = f"{path}:{line}: {problem}"


def must_not(reason: str) -> str:
    """Return why a test must not skip for a reason; an empty text if it may."""
    variable = _variable(reason)
    return f"{variable} is set, but {reason}" if variable and variable in os.environ else ""


def _variable(reason: str) -> str | None:
    if _PACKAGE.match(reason):
        return TOOLS
    name = _NAME.match(reason)
    return REQUIREMENTS[name[1]].variable if name and name[1] in REQUIREMENTS else None
