"""Compute a comparison once in a test of several output formats."""

from __future__ import annotations

from typing import Any

import pytest

from tbd_trace.analysis import diff


def compare_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all calls of ``compare`` in a test return the result of the first one."""
    compare = diff.compare
    found: list[diff.Comparison] = []

    def first(*sides: Any, **options: Any) -> diff.Comparison:
        if not found:
            found.append(compare(*sides, **options))
        return found[0]

    monkeypatch.setattr(diff, "compare", first)
