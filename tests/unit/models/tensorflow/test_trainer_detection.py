"""Mask R-CNN and EfficientDet in TensorFlow, beside the same in PyTorch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from interpreters.run import in_tensorflow

torch = pytest.importorskip("torch")

from tbd_models.pytorch import boxes  # noqa: E402
from tbd_models.registry import find, implementation  # noqa: E402

pytestmark = [pytest.mark.usefixtures("one_thread"), pytest.mark.needs("tensorflow")]


class Found:
    """What both frameworks say of a model."""

    def __init__(self, model: str, directory: Path) -> None:
        self.model, self.directory = find(model), directory
        self.pytorch = {"boxes": _box_functions(directory), "network": _NETWORKS[model](directory)}
        in_tensorflow("tensorflow_detection.py", model, directory)

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


def _regions(batch: dict[str, Any], anchors: int) -> dict[str, Any]:
    """Return regions beside the objects of a batch, and targets for them and for anchors of P6."""
    generator = torch.Generator().manual_seed(1)
    count = 12
    leading = (len(batch["box"]), count)
    matched = torch.randint(0, batch["box"].shape[1], leading, generator=generator)
    shift = 12 * torch.randn((*leading, 4), generator=generator)
    regions = boxes.clip(boxes.take(batch["box"], matched) + shift, 128, 160)
    regions[0, 0] = torch.tensor([3.0, 2.0, 150.0, 120.0])  # of the coarsest level
    label = torch.randint(0, 5, leading, generator=generator)
    kind = torch.randint(-1, 2, (leading[0], anchors), generator=generator)
    return {
        "boxes": regions,
        "label": label,
        "matched": matched,
        "delta": torch.randn((*leading, 4), generator=generator),
        "positive": label > 0,
        "used": torch.rand(leading, generator=generator) > 0.2,
        "objectness": (kind == 1).float(),
        "anchors_used": kind >= 0,
        "anchors_positive": kind == 1,
        "anchor_delta": torch.randn((leading[0], anchors, 4), generator=generator),
    }


def _maskrcnn(directory: Path) -> dict[str, Any]:
    """Return what the parts of the small network return in PyTorch, and leave what they are given.

    What it draws at random would not be the same, so its heads look at given regions.
    """
    from tbd_models.maskrcnn.pytorch import detection_loss
    from tbd_models.maskrcnn.rois_pytorch import Pyramid
    from tbd_models.maskrcnn.rpn_pytorch import Term

    torch.manual_seed(0)
    definition = find("maskrcnn")
    work = implementation(definition, "pytorch").workload(definition.variant(None).small)
    model = work.model
    heads = (model.rpn.conv, model.rpn.delta, model.rpn.objectness)
    for layer in (*heads, model.box_head.score, model.box_head.delta):
        torch.nn.init.normal_(layer.weight, std=0.2)  # so that what is predicted is not nearly 0
    batch = work.batch(2, np.random.default_rng(0))
    pyramid = model.fpn(model.backbone(batch["image"]))
    scores, deltas = model.rpn(pyramid)
    given = _regions(batch, scores[4].shape[1])
    _save(directory / "batch.npz", batch)
    _save(directory / "weights.npz", dict(model.named_parameters()))
    # At random, the largest boxes best: the best boxes of an untrained network hardly overlap.
    drawn = (
        [2 * n + torch.randn(score.shape) for n, score in enumerate(scores)],
        [0.1 * torch.randn(delta.shape) for delta in deltas],
    )
    given |= {f"drawn_score{n}": score for n, score in enumerate(drawn[0])}
    given |= {f"drawn_delta{n}": delta for n, delta in enumerate(drawn[1])}
    _save(directory / "regions.npz", given)
    found = {f"score{n}": score for n, score in enumerate(scores)}
    found |= {f"delta{n}": delta for n, delta in enumerate(deltas)}
    found["proposals"], found["valid"] = model.proposals(*drawn)
    rows = model.table(pyramid[:-1]).rows.detach().requires_grad_()
    table = Pyramid(rows, len(batch["image"]))
    score, delta = model.box_head(table, given["boxes"])
    masks = model.mask_head(table, given["boxes"])
    box, mask = model.of_class(delta, given["label"]), model.of_class(masks, given["label"])
    inside = model.mask_targets(batch["mask"], given["boxes"], given["matched"])
    anchors = (given["anchors_used"], given["anchors_positive"])
    loss = detection_loss(
        {
            "objectness": Term(scores[4].detach(), given["objectness"], anchors[0]),
            "anchor_box": Term(deltas[4].detach(), given["anchor_delta"], anchors[1]),
            "class": Term(score, given["label"], given["used"]),
            "box": Term(box, given["delta"], given["positive"]),
            "mask": Term(mask, inside, given["positive"]),
        },
        batch,
    )
    loss.backward()
    found |= {"rows": rows, "class": score.flatten(0, 1), "box": box, "mask": mask}
    found |= {"inside": inside, "loss": loss, "row_gradient": rows.grad}
    return {name: tensor.detach().numpy() for name, tensor in found.items()}


_NETWORKS = {"maskrcnn": _maskrcnn, "efficientdet": _efficientdet}


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
        slack = 2e-4 * float(np.abs(expected.astype(float)).max())
        np.testing.assert_allclose(ours[name], expected, rtol=0, atol=slack, err_msg=name)
