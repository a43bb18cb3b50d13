"""``tbd-trace collect`` of scripts that use torch.profiler themselves."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from collected_scripts import SCRIPTS, collect, document, labels, numbered

pytest.importorskip("torch")


def profiling_itself(kind: str, tmp_path: Path) -> Any:
    """Collect a script that profiles itself, and check that it prints the same as without."""
    command = (sys.executable, SCRIPTS / "own_profiler.py", kind, "40")
    alone = subprocess.run(command, capture_output=True, text=True, check=True)
    window = ("--warmup", "3", "--iterations", "12", "--keep-running")
    done = collect(*window, "-o", tmp_path / "c", "--", *command)
    printed = alone.stdout.splitlines()
    assert [line for line in done.stdout.splitlines() if line in printed] == printed, done.stderr
    return done


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "iterations", "said"),
    [
        ("middle", numbered(3, 6), "which ended the recording after 6 iterations"),
        ("autograd", numbered(3, 6), "which ended the recording after 6 iterations"),
        ("schedule", numbered(11, 12), "timeline: 12 iterations recorded"),
    ],
)
def test_a_script_may_profile_itself(
    kind: str, iterations: list[str], said: str, tmp_path: Path
) -> None:
    done = profiling_itself(kind, tmp_path)
    assert done.returncode == 0, done.stderr
    assert said in done.stderr
    assert labels(tmp_path / "c") == iterations
    content = document(tmp_path / "c")
    recorded = (len(iterations), int(iterations[0].split()[1]))
    assert (content["iterations"], content["warmup"]) == recorded


@pytest.mark.slow
def test_a_script_that_profiles_itself_as_a_whole(tmp_path: Path) -> None:
    done = profiling_itself("whole", tmp_path)
    assert done.returncode == 1
    why = "the program profiles itself with torch.profiler; use --profiler nsys"
    assert (why in done.stderr, "SIGSEGV" in done.stderr) == (True, False)
    assert not (tmp_path / "c").exists()
