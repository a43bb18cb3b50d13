"""What killed queries leave on disk is removed, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tbd_trace.scratch import spill_directory


def test_only_old_leftovers_of_dead_processes_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    names = {
        "dead and old": f"tbd-trace-{done.pid}",
        "dead, just now": f"tbd-trace-{done.pid}0000000000000",
        "alive": f"tbd-trace-{os.getpid()}",
        "another's": "tbd-trace-1",
        "no process": "tbd-trace-abc",
        "other": "other-1",
    }
    for name in names.values():
        (tmp_path / name).mkdir()
        (tmp_path / name / "spill").touch()
        if name != names["dead, just now"]:
            old = time.time() - 2 * 24 * 3600
            os.utime(tmp_path / name, (old, old))
    assert spill_directory() == tmp_path / names["alive"]
    left = {path.name for path in tmp_path.iterdir()}
    assert left == set(names.values()) - {names["dead and old"]}
