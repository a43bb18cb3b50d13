"""The parameter servers train as DistributedDataParallel does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ranks import collect
from tbd_collectors.rank_launch import launches

torch = pytest.importorskip("torch")

RANKS = 2
SCHEMES = ("ddp", "ps", "p3")
RESNET = ("resnet50", "--batch-size", "2", "--warmup", "1", "--iterations", "3")
CLIPPED = ("seq2seq", "--warmup", "0", "--iterations", "1")
REFUSED = "neither clips gradients nor accumulates them; use ddp"
# All runs of a rank are in one process, which imports PyTorch once.
RUNS = """
import json, os, sys
from tbd_models.__main__ import main
for environment, *words in json.loads(sys.argv.pop()):
    os.environ.update(environment)
    sys.argv = ["tbd_models", "run", "--scale", "small", "--device", "cpu", *words]
    main()
"""
Reports = dict[str, list[dict[str, Any]]]  # of the ranks, by run


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Reports:
    """Train with each scheme, and try to with one that the model does not allow."""
    # Another program may take a chosen port first.
    for attempt in ("first", "second"):
        folder = tmp_path_factory.mktemp(attempt)
        if (found := run(folder)) is not None:
            return found
    pytest.fail("a rank failed twice")


def run(folder: Path) -> Reports | None:
    """Run all on several ranks; return None if a rank failed. Rank 0 has the ports."""
    wanted = {scheme: (*RESNET, "--scheme", scheme) for scheme in SCHEMES}
    wanted["clipped"] = (*CLIPPED, "--scheme", "ps")
    files = {name: [folder / f"{name}{rank}.json" for rank in range(RANKS)] for name in wanted}
    running = []
    for launch in launches(RANKS, len(wanted)):
        asked = []
        for number, (name, words) in enumerate(wanted.items()):
            report = files[name][launch.rank]
            written = ("--report", str(report), "--layers", str(report.with_suffix(".layers")))
            asked.append([launch.environment(number), *words, *written])
        argv = [sys.executable, "-c", RUNS, json.dumps(asked)]
        running.append(subprocess.Popen(argv, env=os.environ | launch.environment(0)))
    try:
        if any(process.wait(300) for process in running):
            return None
    finally:
        for process in running:
            process.kill()
            process.wait()
    return {
        name: [json.loads(file.read_text(encoding="utf-8")) for file in rank_files]
        for name, rank_files in files.items()
    }


@pytest.mark.slow
def test_all_schemes_have_the_same_losses(reports: Reports) -> None:
    """Each rank has its own samples, so losses differ by rank, and by a lost gradient."""
    expected, *others = ([report["losses"] for report in reports[scheme]] for scheme in SCHEMES)
    assert expected[0] != expected[1]
    for scheme, losses in zip(SCHEMES[1:], others, strict=True):
        for found, wanted in zip(losses, expected, strict=True):
            assert found == pytest.approx(wanted, rel=1e-4), scheme


@pytest.mark.slow
def test_each_rank_refuses_to_clip_gradients(reports: Reports) -> None:
    refused = {"status": "unsupported", "reason": f"--scheme ps {REFUSED}"}
    assert reports["clipped"] == [refused] * RANKS


@pytest.mark.slow
@pytest.mark.nightly(
    covered_by="tests/integration/test_parameter_server.py::test_each_rank_refuses_to_clip_gradients"
)
def test_clipped_gradients_are_refused(tmp_path: Path) -> None:
    words = ("seq2seq", "--scale", "small", "--ranks", "2", "--scheme", "ps", "-o", tmp_path / "c")
    done = collect(*words, "--no-throughput", "--warmup", "0", "--iterations", "1")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].endswith(f"--scheme ps {REFUSED}")
