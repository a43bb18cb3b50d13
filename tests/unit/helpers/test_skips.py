"""Tests that must not skip fail."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import skips
from corpus import ROOT

TOOLS, CORPUS = "TBD_TRACE_TOOLS_REQUIRED", "TBD_TRACE_CORPUS_REQUIRED"


@pytest.mark.parametrize(
    ("reason", "required"),
    [
        ("nsys is not installed", {TOOLS}),
        ("Skipped: could not import 'torch': No module named 'torch'", {TOOLS}),
        ("TBD_TRACE_MXNET_PYTHON names no interpreter with MXNet", {TOOLS}),
        ("no real traces at x (set TBD_TRACE_CORPUS)", {CORPUS}),
        ("no reference tables at x", {CORPUS}),
        ("no API calls in this file", set()),
    ],
)
def test_requirements(reason: str, required: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (TOOLS, CORPUS):
        monkeypatch.delenv(TOOLS, raising=False)
        monkeypatch.delenv(CORPUS, raising=False)
        assert not skips.must_not(reason)
        monkeypatch.setenv(name, "1")
        assert skips.must_not(reason) is (name in required)


def test_tests_and_modules_that_must_not_skip_fail(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())
    (tmp_path / "test_some.py").write_text(
        "import pytest\n"
        "@pytest.mark.skip(reason='nsys is not installed')\ndef test_one(): pass\n"
        "@pytest.mark.skip(reason='no API calls')\ndef test_other(): pass\n"
    )
    (tmp_path / "test_module.py").write_text(
        "import pytest\npytest.importorskip('of_no_package')\ndef test_one(): pass\n"
    )
    paths = os.pathsep.join(path for path in sys.path if path)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
         "--continue-on-collection-errors", tmp_path],
        cwd=tmp_path, env={**os.environ, TOOLS: "1", "PYTHONPATH": paths}, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert "1 skipped, 2 errors" in done.stdout
