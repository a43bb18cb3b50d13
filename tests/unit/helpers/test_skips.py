"""Tests skip with a reason, before fixtures are set up, and fail where they must not skip."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import skips
from corpus import ROOT

TOOLS, CORPUS = "TBD_TRACE_TOOLS_REQUIRED", "TBD_TRACE_CORPUS_REQUIRED"

MADE = {
    "pytest.ini": "[pytest]\nmarkers =\n  needs\n  tool\n  slow\n",
    "test_needs.py": """import pytest

@pytest.mark.needs("nsys")
def test_one(): pass
@pytest.fixture
def broken(): raise ValueError
@pytest.mark.needs("setpriv", "nsys")
def test_two(broken): pass
@pytest.mark.needs()
def test_three(request):
    tools = [item.name for item in request.session.items if item.get_closest_marker("tool")]
    assert tools == ["test_one", "test_two", "test_four[a]"]
ncu = pytest.param("a", marks=[pytest.mark.needs("root", "ncu"), pytest.mark.skip(reason="so")])
@pytest.mark.parametrize("name", [ncu, "b"])
def test_four(name): assert name == "b"
""",
    "test_package.py": "import pytest\npytest.importorskip('of_no_package')\n",
    "test_bare.py": """import pytest
@pytest.mark.skip
def test_bare(): pass
def test_empty(): pytest.skip()
@pytest.mark.skip(reason="the file has no kernels")
def test_good(): pass
@pytest.mark.xfail
def test_expected(): assert False
""",
    "test_whole.py": "import pytest\npytest.skip(allow_module_level=True)\n",
}


@pytest.mark.parametrize(
    ("reason", "required"),
    [
        ("needs nsys: nsys not installed", {TOOLS}),
        ("could not import 'torch': No module named 'torch'", {TOOLS}),
        ("needs mxnet: TBD_TRACE_MXNET_PYTHON names no interpreter", {TOOLS}),
        ("needs demangler: no C++ runtime library", {TOOLS}),
        ("needs corpus: no real traces at x (set TBD_TRACE_CORPUS)", {CORPUS}),
        ("needs reference: x is missing", {CORPUS}),
        ("needs cases: x is missing", {CORPUS}),
        ("needs root: this user has fewer rights", set()),
        ("needs trace_processor: node not installed", set()),
        ("no API calls in this file", set()),
    ],
)
def test_requirements(reason: str, required: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (TOOLS, CORPUS):
        monkeypatch.delenv(TOOLS, raising=False)
        monkeypatch.delenv(CORPUS, raising=False)
        assert not skips.must_not(reason)
        monkeypatch.setenv(name, "1")
        assert bool(skips.must_not(reason)) is (name in required)


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return what pytest says with the project's conftest.py, tools required but none on PATH."""
    folder = tmp_path_factory.mktemp("made")
    for name, text in MADE.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text("utf-8"))
    paths = os.pathsep.join(path for path in sys.path if path)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rs",
         "--continue-on-collection-errors", folder],
        cwd=folder, env={**os.environ, TOOLS: "1", "PYTHONPATH": paths, "PATH": ""},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.stdout


@pytest.mark.slow
def test_tests_and_modules_that_must_not_skip_fail(said: str) -> None:
    assert f"test_needs.py:3: {TOOLS} is set, but needs nsys: nsys not installed" in said
    assert f"test_package.py:2: {TOOLS} is set, but could not import 'of_no_package'" in said


def test_a_skip_without_a_reason_fails(said: str) -> None:
    without = [line for line in said.splitlines() if line.endswith("this skip has no reason")]
    assert [Path(line.split(": ")[0]).name for line in without] == [
        "test_whole.py:2", "test_bare.py:2", "test_bare.py:4"
    ]  # fmt: skip
    assert "test_bare.py:5: the file has no kernels" in said


def test_needs_skip_before_fixtures_and_mark_tools(said: str) -> None:
    assert "test_needs.py:7: needs setpriv: setpriv not installed" in said
    assert "broken" not in said
    assert "1 failed, 2 passed, 3 skipped, 1 xfailed, 4 errors" in said
