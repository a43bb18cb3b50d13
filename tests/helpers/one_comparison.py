"""Comparisons of a test that computes the same one again and again, computed once."""

from __future__ import annotations

from typing import Any

import pytest

from tbd_trace.analysis import diff


def compare_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make all calls of ``compare`` return what the first one does: a test of several forms."""
    compare = diff.compare
    found: list[diff.Comparison] = []

    def first(*sides: Any, **options: Any) -> diff.Comparison:
        if not found:
            found.append(compare(*sides, **options))
        return found[0]

    monkeypatch.setattr(diff, "compare", first)
