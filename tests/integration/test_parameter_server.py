"""The parameter servers train as DistributedDataParallel does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ranks import collect

torch = pytest.importorskip("torch", reason="PyTorch is not installed")


def losses(scheme: str, capture: Path, ranks: int) -> list[list[float]]:
    words = ("resnet50", "--scale", "small", "--batch-size", "2", "--no-throughput")
    window = ("--warmup", "1", "--iterations", "3", "--profiler", "torch", "-o", capture)
    done = collect(*words, *window, "--ranks", str(ranks), "--scheme", scheme)
    assert done.returncode == 0, done.stderr
    documents = [
        json.loads((capture / f"rank={rank}" / "capture.json").read_text(encoding="utf-8"))
        for rank in range(ranks)
    ]
    assert {document["world_size"] for document in documents} == {ranks}
    return [document["profiled"]["losses"] for document in documents]


@pytest.mark.slow
def test_all_schemes_have_the_same_losses(tmp_path: Path) -> None:
    """Each rank has its own samples, so losses differ by rank, and by a lost gradient."""
    expected = losses("ddp", tmp_path / "ddp", 2)
    assert expected[0] != expected[1]
    for scheme in ("ps", "p3"):
        for found, wanted in zip(losses(scheme, tmp_path / scheme, 2), expected, strict=True):
            assert found == pytest.approx(wanted, rel=1e-4), scheme


def test_clipped_gradients_are_refused(tmp_path: Path) -> None:
    words = ("seq2seq", "--scale", "small", "--ranks", "2", "--scheme", "ps", "-o", tmp_path / "c")
    done = collect(*words, "--no-throughput", "--warmup", "0", "--iterations", "1")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].endswith(
        "--scheme ps neither clips gradients nor accumulates them; use ddp"
    )
