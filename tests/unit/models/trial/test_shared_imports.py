"""Modules that the runs of a program can share: installed ones, unless it sets variables."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

BEFORE = "import os, json, own\n"
LISTED = """
from tbd_models.trial.shared_imports import SharedImports
imports = SharedImports()
{after}
print(json.dumps(imports.modules()))
"""


def modules(tmp_path: Path, *, before: str = "", after: str = "") -> list[str]:
    (tmp_path / "own.py").write_text("")
    (tmp_path / "site-packages").mkdir(exist_ok=True)
    sets = "import os\nos.environ['INSTALLED_SETS'] = '1'\n"
    (tmp_path / "site-packages" / "installed.py").write_text(sets)
    (tmp_path / "program.py").write_text(BEFORE + before + LISTED.format(after=after))
    path = os.pathsep.join(
        [str(tmp_path / "site-packages"), str(tmp_path), *map(os.path.abspath, sys.path)]
    )
    done = subprocess.run(
        [sys.executable, "program.py"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": path, "THERE": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    found: list[str] = json.loads(done.stdout)
    return found


def test_installed_modules_are_shared_and_own_ones_are_not(tmp_path: Path) -> None:
    found = modules(tmp_path, after="import installed")
    assert "installed" in found
    assert not {"own", "os", "json", "__main__", "tbd_models"} & set(found)


@pytest.mark.parametrize(
    "sets",
    ["os.environ['X'] = '1'", "os.environ.setdefault('X', '1')", "os.environ.pop('THERE')"],
)
@pytest.mark.parametrize("place", ["before", "after"])
def test_a_program_that_sets_variables_shares_none(sets: str, place: str, tmp_path: Path) -> None:
    assert modules(tmp_path, **{place: sets}) == []
