"""Running the scripts of this directory in interpreters of frameworks."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from corpus import ROOT

TENSORFLOW = os.environ.get("TBD_TRACE_TENSORFLOW_PYTHON")
MXNET = os.environ.get("TBD_TRACE_MXNET_PYTHON")


def in_tensorflow(
    script: str, *words: str | Path, code: int = 0, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a script where TensorFlow is, on one thread; it must end with an exit code."""
    return _run(TENSORFLOW, [Path(__file__).with_name(script), *words], code, variables)


def in_mxnet(script: str, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a script where MXNet is, on one thread; it must succeed."""
    return _run(MXNET, [Path(__file__).with_name(script), *words], 0, {})


def run_small(framework: str, model: str, *words: str | Path) -> None:
    """Train a model of the suite at small scale for two iterations; it must succeed."""
    small = ["--framework", framework, "--scale", "small", "--device", "cpu", "--warmup", "0"]
    program = ["-m", "tbd_models", "run", model, *small, "--iterations", "2", *words]
    _run(TENSORFLOW if framework == "tensorflow" else MXNET, program, 0, {})


def counted_in(python: str, framework: str, *models: str) -> dict[tuple[str, str], dict[str, Any]]:
    """Return what ``tbd_models count`` counts of each model and variant."""
    done = _run(python, ["-m", "tbd_models", "count", *models, "--framework", framework], 0, {})
    lines = (json.loads(line) for line in done.stdout.splitlines() if line.startswith("{"))
    return {(line["model"], line["variant"]): line for line in lines}


def _run(
    python: str | None, words: Sequence[str | Path], code: int, variables: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(ROOT / "models"), str(ROOT / "tests")])
    threads = {"TF_NUM_INTRAOP_THREADS": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [str(python), *map(str, words)],
        env=os.environ | {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"} | threads | variables,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == code, done.stderr[-3000:]
    return done
