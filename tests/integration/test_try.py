"""``tbd-trace try``: apply a change to unedited scripts, and measure it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tbd_trace

pytest.importorskip("torch")

SCRIPTS = Path(__file__).parents[1] / "interpreters" / "trials"


def tried(directory: Path, *words: str | Path, script: str, arguments: tuple[str, ...] = ()) -> Any:
    # The script lies in the directory where the command runs.
    (directory / script).write_bytes((SCRIPTS / script).read_bytes())
    return subprocess.run(
        [
            *(sys.executable, "-m", "tbd_trace", "try", "--device", "cpu", "--pairs", "4"),
            *("-o", str(directory / "captures"), *map(str, words), "--"),
            *(sys.executable, script, *arguments),
        ],
        cwd=directory,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )


@pytest.mark.slow
def test_the_change_that_why_tries_first_is_measured(tmp_path: Path) -> None:
    """Four workers load four times as fast: batches take 6 ms in place of 24."""
    done = tried(tmp_path, script="waits_for_input.py")
    assert done.returncode == 0, done.stderr
    found = re.match(
        r"workers=4: ×([\d.]+) \(([\d.]+) … ([\d.]+)\) at the same work; ", done.stdout
    )
    assert found is not None, done.stdout + done.stderr
    factor, low, high = map(float, found.groups())
    assert 2 < factor < 6
    assert low < factor < high
    assert "keep it with: DataLoader(…, num_workers=4, persistent_workers=True)" in done.stdout
    captures = tmp_path / "captures"
    shown = tbd_trace.open(captures / "before").diff(tbd_trace.open(captures / "after"))
    assert str(shown.verdict.word) == "faster"
    assert {path.name for path in tmp_path.iterdir()} == {"captures", "waits_for_input.py"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cheat", "said"),
    [
        ("batch", r"no_gc: refused: not the same work: .*rows 32 → 16, .*FLOP × 0\.5"),
        ("crop", r"no_gc: refused: not the same work: .*FLOP × 0\.5"),
        ("frozen", r"no_gc: refused: not the same work: .*trained values"),
        ("backward", r"no_gc: refused: not the same work: .*backward"),
        ("loss", r"no_gc: refused: its losses differ more from those of the program"),
        ("nothing", r"^no_gc: (?:no difference shown|the machine is too busy|×)"),
    ],
)
def test_only_the_same_work_and_losses_are_compared(tmp_path: Path, cheat: str, said: str) -> None:
    (tmp_path / "shared").mkdir()
    done = tried(tmp_path, "--change", "no_gc", script="cheats.py", arguments=(cheat,))
    assert f"note: each run also writes {tmp_path}/shared/log.txt\n" in done.stderr
    assert re.search(said, done.stdout + done.stderr, re.MULTILINE), done.stdout + done.stderr
    assert done.returncode == (0 if cheat == "nothing" else 1)
    assert "Traceback" not in done.stderr
    # Runs write into directories of their own.
    assert {path.name for path in tmp_path.iterdir()} == {"captures", "cheats.py", "shared"}


@pytest.mark.slow
def test_a_change_that_cannot_act_is_not_measured(tmp_path: Path) -> None:
    arguments = ("nothing",)
    done = tried(tmp_path, "--change", "workers", script="cheats.py", arguments=arguments)
    assert done.returncode == 3
    assert done.stderr.endswith("error: workers=4 changes nothing in this program\n")
    assert not (tmp_path / "captures").exists()


@pytest.mark.slow
def test_several_changes_are_tried_one_by_one(tmp_path: Path) -> None:
    words = ("--change", "workers", "--change", "no_gc")
    done = tried(tmp_path, *words, script="cheats.py", arguments=("nothing",))
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first.startswith("no_gc: ")
    assert second == "workers=4 changes nothing in this program"
    captures = tmp_path / "captures"
    assert f"next: tbd-trace diff {captures}/before {captures}/after-no_gc\n" in done.stderr
