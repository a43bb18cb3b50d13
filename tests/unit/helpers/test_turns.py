"""Each slow test runs in one of the turns, every other test in all of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from corpus import ROOT

SOURCE = """
import pytest

def test_fast(): pass
@pytest.mark.slow
@pytest.mark.parametrize("number", [1, 2])
def test_slow(number): pass
"""
MODULES = [f"test_{name}.py" for name in "abcde"]


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    (tmp_path / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())
    for module in MODULES:
        (tmp_path / module).write_text(SOURCE)
    return tmp_path


def collected(suite: Path, *options: str) -> subprocess.CompletedProcess[str]:
    paths = os.pathsep.join(path for path in sys.path if path)
    # Options of the run that this test is part of do not apply to the suite.
    environment = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--collect-only"]
    return subprocess.run(
        [*command, *options, suite], cwd=suite, capture_output=True, text=True,
        env={**environment, "PYTHONPATH": paths}, check=False,
    )  # fmt: skip


@pytest.mark.slow
def test_turns_divide_the_slow_tests(suite: Path) -> None:
    def tests(*options: str) -> list[str]:
        found = collected(suite, *options).stdout.splitlines()
        return [line.rpartition("/")[2] for line in found if "::" in line]

    everything = tests()
    assert len(everything) == 3 * len(MODULES)
    first, second = tests("--turn=1/2"), tests("--turn=2/2")
    assert set(first) & set(second) == {f"{module}::test_fast" for module in MODULES}
    assert set(first) | set(second) == set(everything)
    assert (len(first), len(second)) == (5 + 2 * 2, 5 + 2 * 3)
    assert tests("--turn=1001/2") == first


@pytest.mark.slow
@pytest.mark.parametrize("turn", ["1", "1/0", "a/2"])
def test_turns_that_are_none(suite: Path, turn: str) -> None:
    done = collected(suite, f"--turn={turn}")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert f"--turn {turn}: not K/N" in done.stderr
