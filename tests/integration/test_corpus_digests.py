"""Regression test of the canonical tables of real traces."""

from __future__ import annotations

from pathlib import Path

import pytest

from corpus import CORPUS, corpus_files
from corpus_digests import committed, digests, files
from fast import one_in

RENEW = "run tests/integration/corpus_digests.py if the change is intended"
FILES = [pytest.param(path, id=path.name[-60:]) for path in files()] or corpus_files("none")


@pytest.mark.parametrize("path", one_in(4, FILES, then_one_in=6))
def test_tables_are_the_same(path: Path, tmp_path: Path) -> None:
    name = path.relative_to(CORPUS).as_posix()
    found, expected = digests(path, tmp_path), committed().get(name, {})
    changed = [table for table in found | expected if found.get(table) != expected.get(table)]
    assert not changed, f"{name}: other rows in {changed}; {RENEW}"
