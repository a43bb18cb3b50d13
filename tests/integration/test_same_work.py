"""Does diff see whether two trainings do the same work? Two models of PyTorch, trained on a CPU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import tbd_trace
from tbd_trace.analysis.diff import SameWork, Work
from tbd_trace.analysis.diff.comparison import compare

pytest.importorskip("torch")

SCRIPTS = Path(__file__).parents[1] / "interpreters" / "same_work"
sys.path.insert(0, str(SCRIPTS))
import variants  # noqa: E402

HONEST = [(model, name) for model in variants.MODELS for name in variants.names(model)[0]]
FAKES = [(model, name) for model in variants.MODELS for name in variants.names(model)[1]]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _recorded(tmp_path_factory.mktemp("shapes"))


@pytest.fixture(scope="module")
def without_shapes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    few = ("base", "again", "fused_qkv", "half_batch", "half_backward", "evaluation")
    return _recorded(tmp_path_factory.mktemp("plain"), "--without-shapes", *few)


def _recorded(directory: Path, *options: str) -> Path:
    subprocess.run(
        [sys.executable, SCRIPTS / "variants.py", directory, *options],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        check=True,
        capture_output=True,
        timeout=600,
    )
    return directory


def _work(directory: Path, model: str, a: str, b: str) -> Work:
    sides = (tbd_trace.open(directory / f"{model}_{name}.json") for name in (a, b))
    return compare(*sides).work


@pytest.mark.slow
@pytest.mark.parametrize(("model", "name"), HONEST)
def test_honest_changes_are_the_same_work(recorded: Path, model: str, name: str) -> None:
    for sides in (("base", name), (name, "base")):
        work = _work(recorded, model, *sides)
        assert work.verdict is SameWork.SAME, work


@pytest.mark.slow
@pytest.mark.parametrize(("model", "name"), FAKES)
def test_fakes_are_less_work(recorded: Path, model: str, name: str) -> None:
    work = _work(recorded, model, "base", name)
    assert work.verdict is SameWork.LESS
    _, words = variants.FAKES[name]
    assert {what for what, _, _ in work.differs} & set(words.split()), work


@pytest.mark.slow
@pytest.mark.parametrize("model", variants.MODELS)
def test_without_shapes_no_work_is_certified(without_shapes: Path, model: str) -> None:
    for name in ("again", "half_batch", "half_backward"):
        assert _work(without_shapes, model, "base", name).verdict is SameWork.UNKNOWN
    work = _work(without_shapes, model, "base", "evaluation")
    assert work.verdict is SameWork.LESS
    assert {what for what, _, _ in work.differs} == {"backward", "optimizer"}
