"""Files that are decoded in TensorFlow and MXNet, which run in interpreters of their own."""

from __future__ import annotations

import json
import math
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

import tbd_models
from corpus import ROOT
from requirements import require


def _seen(framework: str) -> dict[str, Any]:
    require(framework)
    python = os.environ[f"TBD_TRACE_{framework.upper()}_PYTHON"]
    models = Path(tbd_models.__file__).parents[1]
    found = subprocess.run(
        [python, ROOT / "tests" / "interpreters" / "decoded_images.py", framework],
        capture_output=True,
        text=True,
        timeout=300,
        env=os.environ
        | {
            "PYTHONPATH": os.pathsep.join([str(models), os.environ.get("PYTHONPATH", "")]),
            "PYTHONDONTWRITEBYTECODE": "1",
            "OMP_NUM_THREADS": "1",
        },
        check=False,
    )
    if "No module named 'PIL'" in found.stderr:
        pytest.skip(f"the interpreter with {framework} has no Pillow")
    assert found.returncode == 0, found.stderr
    seen: dict[str, Any] = json.loads(found.stdout.splitlines()[-1])
    return seen


def _is_one_line(error: str, file: str) -> bool:
    return error.startswith("UnsupportedError: decoding files of") and (
        file in error and "No such file" in error and "\n" not in error
    )


def test_tensorflow_decodes_crops_of_the_files() -> None:
    seen = _seen("tensorflow")
    assert seen["equal"]  # with and without workers
    assert seen["shape"] == [6, 32, 32, 3]
    assert seen["labels"] == [number % 5 for number in range(18)]
    # Of 255 levels; colours of a crop's borders are interpolated with fewer neighbours.
    assert seen["difference"] < 1
    assert _is_one_line(seen["vanished"], "20.jpg")


def test_mxnet_decodes_the_samples_in_order() -> None:
    seen = _seen("mxnet")
    for kind in ("jpg", "wav"):
        assert seen[kind]["equal"]
        assert _is_one_line(seen[kind]["vanished"], f"20.{kind}")
    for report in seen["runs"]:
        assert report["status"] == "ok"
        assert all(math.isfinite(loss) for loss in report["losses"])
