"""Ranks of MXNet exchange gradients through servers beside them."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from corpus import ROOT
from interpreters.run import MXNET
from tbd_collectors.rank_launch import launches

RANKS = 2


@pytest.mark.needs("mxnet")
def test_gradients_are_averaged_and_marked() -> None:
    """Two steps of 0.5 × 2 from weights of 1; the servers end with the ranks."""
    script = Path(ROOT) / "tests" / "interpreters" / "mxnet_shared_store.py"
    path = {"PYTHONPATH": str(ROOT / "models"), "OMP_NUM_THREADS": "1"}
    running = [
        subprocess.Popen(
            [str(MXNET), str(script)],
            env=os.environ | path | launch.environment(0),
            stdout=subprocess.PIPE,
            text=True,
        )
        for launch in launches(RANKS, 1)
    ]
    try:
        found = [json.loads(process.communicate(timeout=100)[0]) for process in running]
    finally:
        for process in running:
            process.kill()
            process.wait()
    assert [process.returncode for process in running] == [0] * RANKS
    step = [f"{word}, bytes = {n}, layer = 0" for n in (8, 4) for word in ("push", "pull")]
    for rank in found:
        assert rank["weights"] == [[[0.0, 0.0]], [[-1.0, -1.0]]]
        assert rank["texts"] == 2 * step
