"""Samples of unequal size in TensorFlow and MXNet, which run in interpreters of their own."""

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
from tbd_models.transformer import Dimensions

# imports a framework and traces graphs: 10 to 20 s
pytestmark = [pytest.mark.slow, pytest.mark.nightly]

SMOOTHING = Dimensions().label_smoothing


@pytest.fixture(scope="module", params=["tensorflow", "mxnet"])
def seen(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Return what ``padded_batches.py`` saw in a framework."""
    require(request.param)
    python = os.environ[f"TBD_TRACE_{request.param.upper()}_PYTHON"]
    done = subprocess.run(
        [python, ROOT / "tests" / "interpreters" / "padded_batches.py", request.param],
        capture_output=True,
        text=True,
        timeout=600,
        env=os.environ
        | {
            "PYTHONPATH": str(Path(tbd_models.__file__).parents[1]),
            "PYTHONDONTWRITEBYTECODE": "1",
            "OMP_NUM_THREADS": "1",
        },
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_padding_changes_no_score(seen: dict[str, Any]) -> None:
    found = seen["translation"]
    for beside, alone in zip(found["beside"], found["alone"], strict=True):
        assert beside == pytest.approx(alone, abs=1e-5)


def test_padding_has_no_loss(seen: dict[str, Any]) -> None:
    found = seen["translation"]
    losses = []
    for scores, labels in zip(found["scores"], found["label"], strict=True):
        for row, label in zip(scores, labels, strict=True):
            if label >= 0:
                total = math.log(sum(math.exp(score) for score in row))
                logs = [score - total for score in row]
                smooth = math.fsum(logs) / len(logs)
                losses.append(-(1 - SMOOTHING) * logs[label] - SMOOTHING * smooth)
    assert len(losses) == 3 + 5
    assert found["loss"] == pytest.approx(math.fsum(losses) / 8, rel=1e-5)


def test_an_utterance_has_the_loss_of_its_own_steps(seen: dict[str, Any]) -> None:
    first, second = seen["speech"]["alone"]
    assert abs(first - second) > 1
    assert seen["speech"]["both"] == pytest.approx((first + second) / 2, rel=1e-5)


def test_a_run_trains_the_planned_batches(seen: dict[str, Any]) -> None:
    assert seen["run"]["code"] == 0
    report = seen["run"]["report"]
    assert all(math.isfinite(loss) for loss in report["losses"])
    facts = report["lengths"]
    # Small models have a fifth of the length: 2 and 3 words, never in a batch together.
    assert facts["padding_pct"] == facts["corpus_padding_pct"] == 0
    assert (facts["samples"], facts["unit"], facts["histogram"]) == (15, "words", "two")
    assert set(facts["work"]) == {6, 9}
    assert sum(facts["work"]) == facts["real_units"]
    # Half of the batches have 6 words, the others 9.
    assert facts["corpus_work_variation_pct"] == pytest.approx(100 * 1.5 / 7.5, rel=0.01)
    layers = seen["run"]["layers"]
    assert sum(layer["parameters"] for layer in layers) == report["parameters"]
    assert all("forward_flop" not in layer for layer in layers)


def test_images_of_any_size_have_one_graph(seen: dict[str, Any]) -> None:
    if (found := seen.get("detection")) is None:
        pytest.skip("Mask R-CNN is not in MXNet")
    assert found["anchors"] == [True] * 4
    for known, unknown in zip(found["of_size"], found["of_any"], strict=True):
        assert unknown == pytest.approx(known, rel=1e-4)
        assert all(math.isfinite(value) for value in known)


def test_a_run_trains_upright_and_wide_images(seen: dict[str, Any]) -> None:
    if (found := seen.get("images")) is None:
        pytest.skip("Mask R-CNN is not in MXNet")
    assert found["code"] == 0
    report = found["report"]
    assert all(math.isfinite(loss) for loss in report["losses"])
    facts = report["lengths"]
    # A short side of 128 and a long one of 171 or 170 pixels, padded to 192.
    assert facts["work"] == [3 * 128 * 192] * 5
    wide, rest = divmod(facts["real_units"] - 5 * 3 * 128 * 170, 3 * 128)
    assert rest == 0
    assert 0 < wide < 5
