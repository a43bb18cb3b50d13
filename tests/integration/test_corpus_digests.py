"""Regression test of the canonical tables of real traces."""

from __future__ import annotations

from pathlib import Path

import pytest

from corpus import corpus_files, relative
from corpus_digests import committed, digests, is_digested
from fast import one_in
from real_traces import Traces

RENEW = "run tests/integration/corpus_digests.py if the change is intended"
FILES = corpus_files("**/*", where=is_digested, name=lambda path: path.name[-60:])


@pytest.mark.parametrize("path", one_in(4, FILES, then_one_in=24))
def test_tables_are_the_same(traces: Traces, path: Path) -> None:
    name = relative(path)
    found, expected = digests(traces, path), committed().get(name, {})
    changed = [table for table in found | expected if found.get(table) != expected.get(table)]
    assert not changed, f"{name}: other rows in {changed}; {RENEW}"
