"""Mask R-CNN and EfficientDet in TensorFlow, beside the same in PyTorch."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corpus import ROOT

torch = pytest.importorskip("torch")

from tbd_models.pytorch import boxes  # noqa: E402
from tbd_models.registry import find, implementation  # noqa: E402

VARIABLE = "TBD_TRACE_TENSORFLOW_PYTHON"
pytestmark = [
    pytest.mark.usefixtures("one_thread"),
    pytest.mark.skipif(
        VARIABLE not in os.environ,
        reason=f"set {VARIABLE} to an interpreter that has TensorFlow",
    ),
]


class Found:
    """What both frameworks say of a model."""

    def __init__(self, model: str, directory: Path) -> None:
        self.model, self.directory = find(model), directory
        self.pytorch = {"boxes": _box_functions(directory), "network": _NETWORKS[model](directory)}
        script = ROOT / "tests" / "interpreters" / "tensorflow_detection.py"
        done = subprocess.run(
            [os.environ[VARIABLE], script, model, directory],
            env=os.environ | {"PYTHONPATH": str(ROOT / "models"), "TF_NUM_INTRAOP_THREADS": "1"},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]

    def tensorflow(self, name: str) -> dict[str, Any]:
        """Return the arrays that TensorFlow left."""
        with np.load(self.directory / f"{name}.npz") as arrays:
            return dict(arrays)


def _save(path: Path, tensors: dict[str, Any]) -> None:
    np.savez(path, **{name: tensor.detach().numpy() for name, tensor in tensors.items()})


def _random_boxes(shape: tuple[int, ...], generator: Any) -> Any:
    start = torch.rand((*shape, 2), generator=generator) * torch.tensor([80.0, 60.0])
    size = 4 + torch.rand((*shape, 2), generator=generator) * 40
    return torch.cat([start, start + size], -1)


def _box_functions(directory: Path) -> dict[str, Any]:
    """Return what the functions of boxes return in PyTorch, and leave what they were given."""
    generator = torch.Generator().manual_seed(0)
    proposals, objects = _random_boxes((2, 200), generator), _random_boxes((2, 5), generator)
    present = torch.tensor([[True, True, True, False, False], [True] * 5])
    deltas = torch.randn(2, 200, 4, generator=generator) * 8
    draw = torch.rand((2, 200), generator=generator)
    given = {"proposals": proposals, "objects": objects, "present": present}
    _save(directory / "boxes.npz", given | {"deltas": deltas, "draw": draw})
    overlap = boxes.iou(proposals, objects)
    found = {"overlap": overlap}
    for force in (False, True):
        matched, kind = boxes.assign(overlap, present, 0.5, 0.3, force)
        found |= {f"matched_{force}": matched, f"kind_{force}": kind}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "rand", lambda *_, **__: draw)
        drawn = boxes.sample(kind, 24, 6)
    found |= dict(zip(("index", "positive", "used"), drawn, strict=True))
    found["decoded"] = boxes.clip(boxes.decode(deltas, proposals, (10.0, 5.0)), 90, 120)
    aim = boxes.take(objects, found["matched_True"])
    found["encoded"] = boxes.encode(aim, proposals, (10.0, 5.0))
    for threshold in (0.3, 0.7):
        valid = overlap[..., 0] >= 0
        found[f"kept_{threshold}"] = boxes.keep_mask(proposals, valid, threshold)
    found["anchors"] = boxes.grid_anchors(3, 5, 8, [16.0, 20.0], [0.5, 1.0, 2.0])
    return {name: tensor.numpy() for name, tensor in found.items()}


def _efficientdet(directory: Path) -> dict[str, Any]:
    """Return what the small network returns in PyTorch, and leave its weights and its batch."""
    torch.manual_seed(0)
    model = find("efficientdet")
    # What is dropped at random would not be the same.
    work = implementation(model, "pytorch").workload(replace(model.variant(None).small, drop=0.0))
    batch = work.batch(2, np.random.default_rng(0))
    _save(directory / "batch.npz", batch)
    _save(directory / "weights.npz", dict(work.model.named_parameters()))
    work.model.train()
    found = work.forward(work.model, batch)
    loss = work.loss(found, batch)
    loss.backward()
    gradient = torch.nn.utils.clip_grad_norm_(work.model.parameters(), 1e9)
    arrays = {"score": found.score, "delta": found.delta, "loss": loss, "gradient": gradient}
    return {name: tensor.detach().numpy() for name, tensor in arrays.items()}


_NETWORKS = {"efficientdet": _efficientdet}


@pytest.fixture(scope="module", params=list(_NETWORKS))
def found(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Found:
    return Found(request.param, tmp_path_factory.mktemp(request.param))


def test_functions_of_boxes_are_those_of_pytorch(found: Found) -> None:
    ours = found.tensorflow("boxes_tensorflow")
    assert ours.keys() == found.pytorch["boxes"].keys()
    for name, expected in found.pytorch["boxes"].items():
        np.testing.assert_allclose(ours[name], expected, rtol=1e-5, atol=1e-5, err_msg=name)
    kept = found.pytorch["boxes"]["kept_0.3"]
    assert 0 < kept.sum() < kept.size


def test_network_with_equal_weights_is_that_of_pytorch(found: Found) -> None:
    ours = found.tensorflow("tensorflow")
    assert ours.keys() == found.pytorch["network"].keys()
    for name, expected in found.pytorch["network"].items():
        np.testing.assert_allclose(ours[name], expected, rtol=2e-3, atol=2e-4, err_msg=name)
