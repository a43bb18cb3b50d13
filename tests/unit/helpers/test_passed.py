"""A second run of pytest leaves out what passed in the first."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from corpus import ROOT

SOURCE = """
import pytest
from hypothesis import given, strategies as st

def test_passes(): pass
@pytest.mark.skip(reason="no nsys")
def test_skips(): pass
@pytest.fixture
def broken():
    yield
    raise ValueError
def test_fails_at_its_end(broken): pass
@pytest.mark.parametrize("text", ["a b\\n", "[x]", "é"])
def test_ids(text): pass
@given(st.integers())
def test_property(number): pass
"""


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["0", pytest.param("1", marks=pytest.mark.nightly)])
def test_what_passed_is_left_out(tmp_path: Path, workers: str) -> None:
    (tmp_path / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())
    (tmp_path / "test_some.py").write_text(SOURCE)

    def run(*options: str | Path) -> str:
        paths = os.pathsep.join(path for path in sys.path if path)
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", workers]
        return subprocess.run(
            [*command, *options, tmp_path], cwd=tmp_path, capture_output=True, text=True,
            env={**os.environ, "PYTHONPATH": paths}, check=False,
        ).stdout  # fmt: skip

    assert "6 passed, 1 skipped, 1 error" in run("--passed-to", tmp_path / "ids")
    # The property test again, the one that failed at its end, and the one that was skipped.
    again = run("--except-passed", tmp_path / "ids")
    assert "2 passed, 1 skipped" in again
    assert "1 error" in again
