"""Running the scripts of this directory in interpreters of frameworks."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from corpus import ROOT

TENSORFLOW = os.environ.get("TBD_TRACE_TENSORFLOW_PYTHON")
needs_tensorflow = pytest.mark.skipif(
    TENSORFLOW is None,
    reason="TBD_TRACE_TENSORFLOW_PYTHON names no interpreter with TensorFlow",
)


def in_tensorflow(
    script: str, *words: str | Path, code: int = 0, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a script where TensorFlow is, on one thread; it must end with an exit code."""
    path = os.pathsep.join([str(ROOT / "models"), str(ROOT / "tests")])
    done = subprocess.run(
        [str(TENSORFLOW), str(Path(__file__).with_name(script)), *map(str, words)],
        env=os.environ | {"PYTHONPATH": path, "TF_NUM_INTRAOP_THREADS": "1"} | variables,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == code, done.stderr[-3000:]
    return done
