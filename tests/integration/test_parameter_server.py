"""The parameter servers train as DistributedDataParallel does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ranks import collect
from tbd_collectors.rank_launch import launches

torch = pytest.importorskip("torch")


def losses(scheme: str, directory: Path, ranks: int) -> list[list[float]]:
    # Another program may take the chosen port first.
    for attempt in ("first", "second"):
        (directory / attempt).mkdir(parents=True)
        reports = [directory / attempt / f"{rank}.json" for rank in range(ranks)]
        if train(scheme, reports):
            return [json.loads(each.read_text(encoding="utf-8"))["losses"] for each in reports]
    pytest.fail(f"{scheme}: a rank failed twice")


def train(scheme: str, reports: list[Path]) -> bool:
    """Train on several ranks; return whether all succeeded. Rank 0 has the port."""
    model = ("resnet50", "--scale", "small", "--batch-size", "2", "--device", "cpu")
    window = ("--warmup", "1", "--iterations", "3", "--scheme", scheme)
    running = []
    for launch, report in zip(launches(len(reports), 1), reports, strict=True):
        argv = [sys.executable, "-m", "tbd_models", "run", *model, *window]
        argv += ["--report", str(report), "--layers", str(report.with_suffix(".layers"))]
        running.append(subprocess.Popen(argv, env=os.environ | launch.environment(0)))
    try:
        return all(process.wait(150) == 0 for process in running)
    finally:
        for process in running:
            process.kill()
            process.wait()


@pytest.mark.slow
def test_all_schemes_have_the_same_losses(tmp_path: Path) -> None:
    """Each rank has its own samples, so losses differ by rank, and by a lost gradient."""
    expected = losses("ddp", tmp_path / "ddp", 2)
    assert expected[0] != expected[1]
    for scheme in ("ps", "p3"):
        for found, wanted in zip(losses(scheme, tmp_path / scheme, 2), expected, strict=True):
            assert found == pytest.approx(wanted, rel=1e-4), scheme


@pytest.mark.slow
def test_clipped_gradients_are_refused(tmp_path: Path) -> None:
    words = ("seq2seq", "--scale", "small", "--ranks", "2", "--scheme", "ps", "-o", tmp_path / "c")
    done = collect(*words, "--no-throughput", "--warmup", "0", "--iterations", "1")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].endswith(
        "--scheme ps neither clips gradients nor accumulates them; use ddp"
    )
