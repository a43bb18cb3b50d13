"""Rehearse the GPU check on a CPU, with the commands that run on a GPU machine."""

from __future__ import annotations

import csv
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from corpus import ROOT
from nsys_agent import until_served

pytestmark = pytest.mark.slow  # starts PyTorch four times: what is rehearsed are whole commands


def _rehearse(directory: Path, *steps: str) -> list[dict[str, str]]:
    sources = (ROOT / name for name in ("tools", "collectors", "pipeline", "models"))
    environ = os.environ | {
        "PYTHONPATH": os.pathsep.join(map(str, sources)),
        "OMP_NUM_THREADS": "1",
    }
    options = ["--device", "cpu", "--limit", "1000", "-o", str(directory)]
    argv = [sys.executable, "-m", "gpu_check", *options, *steps]

    def once(_: int) -> subprocess.CompletedProcess[str]:
        shutil.rmtree(directory)  # of an attempt before
        return subprocess.run(argv, env=environ, capture_output=True, text=True, check=False)

    done = until_served(once, lambda done: done.stdout + done.stderr)
    assert done.returncode == 0, done.stdout + done.stderr
    with (directory / "verdicts.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.nightly(covered_by="tests/integration/test_gpu_check_rehearsal.py::test_nsys_on_a_cpu")
def test_steps_on_a_cpu(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    rows = _rehearse(tmp_path, "doctor", "cuda-graph", "slow-loader", "memory-sweep")
    verdicts = {(row["step"], row["what"]): row for row in rows}
    lost = verdicts["slow-loader", "time lost by the fault, % of the step"]
    # The loader sleeps for 100 ms per step; the step itself takes about 2 on an idle core.
    assert 5 < float(lost["measured"]) < 100
    assert verdicts["memory-sweep", "the last batch size"]["measured"] == "out_of_memory"
    assert verdicts["cuda-graph", "can run"]["verdict"] == "not possible"
    archives = sorted(path.name for path in (tmp_path / "captures").iterdir())
    assert archives == [
        "slow-loader-after.tbd.zip",
        "slow-loader-before.tbd.zip",
    ]


@pytest.mark.needs("nsys")
def test_nsys_on_a_cpu(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (row,) = _rehearse(tmp_path, "nsys")
    # Each of 6 iterations has at least a forward and a backward pass of two layers.
    assert (row["what"], row["verdict"]) == ("ranges", "pass")
    assert float(row["measured"]) >= 6 * 4
