"""Running the scripts of this directory in interpreters of frameworks."""

from __future__ import annotations

import atexit
import json
import os
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from corpus import ROOT

TENSORFLOW = os.environ.get("TBD_TRACE_TENSORFLOW_PYTHON")
MXNET = os.environ.get("TBD_TRACE_MXNET_PYTHON")
_SECONDS = 300  # that a program may take


def in_tensorflow(
    script: str, *words: str | Path, code: int = 0, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a script where TensorFlow is, on one thread; it must end with an exit code.

    Each run is a fork of one process that has imported TensorFlow.
    """
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
    environment = os.environ | {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"} | threads
    run = _forked if python == TENSORFLOW else _alone
    done = run(str(python), list(map(str, words)), environment | variables)
    assert done.returncode == code, done.stderr[-3000:]
    return done


def _alone(
    python: str, words: list[str], environment: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [python, *words],
        env=environment,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )


def _forked(
    python: str, words: list[str], environment: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    server = _server(python)
    assert server.stdin is not None
    assert server.stdout is not None
    with NamedTemporaryFile("r") as out, NamedTemporaryFile("r") as errors:
        asked = {
            "words": words,
            "environment": environment,
            "folder": str(Path.cwd()),
            "output": [out.name, errors.name],
            "seconds": _SECONDS,
        }
        print(json.dumps(asked), file=server.stdin, flush=True)
        code = int(server.stdout.readline())
        return subprocess.CompletedProcess(words, code, out.read(), errors.read())


@cache
def _server(python: str) -> subprocess.Popen[str]:
    # MXNet chooses its engine while it is imported, so that it cannot be imported before.
    script = str(Path(__file__).with_name("forks.py"))
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT / "models"), str(ROOT / "tests")]),
        "PYTHONDONTWRITEBYTECODE": "1",
        "TF_CPP_MIN_LOG_LEVEL": "2",  # as tbd_models.tensorflow.prepare
    }
    server = subprocess.Popen(
        [python, script, "tensorflow", "keras"],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    atexit.register(server.wait)
    atexit.register(server.stdin.close)  # runs first, and ends the server
    return server
