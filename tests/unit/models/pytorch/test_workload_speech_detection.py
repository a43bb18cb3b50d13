"""Inception-v3, Deep Speech 2, Mask R-CNN and EfficientDet in PyTorch."""

from __future__ import annotations

import functools
import math
from importlib import import_module

import numpy as np
import pytest

from corpus import reference_rows
from fast import one_in

torch = pytest.importorskip("torch")

from tbd_models.definition import Model, Variant  # noqa: E402
from tbd_models.instrument.layers_pytorch import Layer, measure  # noqa: E402
from tbd_models.pytorch.workload import to_device  # noqa: E402

CASES = [
    ("inception3", "v3"),
    ("deepspeech2", "7x1760"),
    ("deepspeech2", "7x1760-joined"),
    ("deepspeech2", "3x2560"),
    ("maskrcnn", "r50-fpn"),
    ("efficientdet", "d0"),
]
every_model = pytest.mark.parametrize(("name", "variant"), CASES, ids=[v for _, v in CASES])
one_model = pytest.mark.parametrize(
    ("name", "variant"), one_in(5, CASES), ids=[v for _, v in CASES]
)
META = torch.device("meta")


pytestmark = [pytest.mark.usefixtures("one_thread"), pytest.mark.slow]


def published(name: str, variant: str) -> Variant:
    model: Model = import_module(f"tbd_models.{name}").MODEL
    return model.variant(variant)


def workload(name: str, dimensions, device=None):
    torch.manual_seed(0)
    with torch.device(device or "cpu"):
        return import_module(f"tbd_models.{name}.pytorch").workload(dimensions)


@functools.cache
def full_size(name: str, variant: str) -> tuple[list[Layer], int]:
    """Return the layers of one training step on one sample, and the number of parameters."""
    work = workload(name, published(name, variant).dimensions, META)
    batch = to_device(work.batch(1, np.random.default_rng(0)), META)
    layers = measure(
        work.model, lambda: work.loss(work.forward(work.model, batch), batch).backward()
    )
    return layers, sum(p.numel() for p in work.model.parameters())


def golden(model: str) -> dict[str, str]:
    return next(row for row in reference_rows("flops_golden.csv") if row["model"] == model)


@one_model
def test_size_is_that_of_the_definition(name: str, variant: str) -> None:
    layers, _ = full_size(name, variant)
    definition = published(name, variant)
    assert sum(layer.parameters for layer in layers) == definition.parameters
    assert sum(layer.forward_flop for layer in layers) == definition.forward_flop


@every_model
def test_training_flop_are_those_of_the_definition(name: str, variant: str) -> None:
    layers, _ = full_size(name, variant)
    total = sum(layer.forward_flop + layer.backward_flop for layer in layers)
    assert total == published(name, variant).training_flop


def test_inception_is_the_golden_one() -> None:
    row, definition = golden("Inception-v3 (no aux head)"), published("inception3", "v3")
    assert definition.parameters == int(row["params"])
    assert definition.forward_flop == int(row["forward_flop"])
    assert definition.training_flop == int(row["training_flop"])


def test_deep_speech_is_the_golden_one() -> None:
    row = golden("Deep Speech 2 MXNet 7xGRU1760 as the suite runs it")
    definition = published("deepspeech2", "7x1760")
    assert definition.forward_flop == pytest.approx(int(row["forward_flop"]), rel=5e-5)  # 4 digits
    assert definition.dimensions.features == (785, 21 * 32)
    # The golden number has neither biases nor batch normalization.
    weights = workload("deepspeech2", definition.dimensions, META).model.parameters()
    assert sum(w.numel() for w in weights if w.dim() > 1) == int(row["params"])


def test_directions_of_deep_speech_meet_once() -> None:
    """An early state of the backward stack depends on all later steps, of the other on none."""
    model = workload("deepspeech2", published("deepspeech2", "7x1760").small).model.eval()
    features = 24
    x = torch.randn(4, 1, model.recurrent.ahead[0].gru.input_size)
    later = x.clone()
    later[-1] += 1
    with torch.no_grad():
        changed = model.recurrent(later) != model.recurrent(x)
    ahead, back = changed[:-1].split(features, -1)
    assert not ahead.any()
    assert back.any((1, 2)).all()


def test_joined_deep_speech_is_the_golden_one() -> None:
    row = golden("Deep Speech 2 MXNet 7xGRU1760")
    definition = published("deepspeech2", "7x1760-joined")
    assert definition.forward_flop == int(row["forward_flop"])
    # The golden number has a gradient for the spectrogram, which training does not compute.
    first_convolution = 2 * 800 * 81 * 32 * 11 * 41
    assert definition.training_flop == int(row["training_flop"]) - first_convolution
    assert definition.dimensions.seconds == 16
    assert definition.dimensions.features == (800, 41 * 32)


def test_deep_speech_by_hand() -> None:
    definition = published("deepspeech2", "3x2560")
    assert definition.dimensions.features == (785, 21 * 32)
    first = 2 * 795 * 61 * 32 * 11 * 41
    forward = first + 2 * 785 * 21 * 32 * 32 * 11 * 21
    forward += 2 * 785 * 3 * 2560 * ((672 + 2560) + 2 * (2560 + 2560))  # three gates per layer
    forward += 2 * 785 * 2560 * 29
    assert definition.forward_flop == forward
    assert definition.training_flop == 3 * forward - first


def test_mask_rcnn_by_hand() -> None:
    definition = published("maskrcnn", "r50-fpn")
    cells = [200 * 336, 100 * 168, 50 * 84, 25 * 42, 13 * 21]  # P2 to P6
    # ResNet-50 v1 without its classifier, on 150 / 7 times the pixels.
    forward = (7_715_946_496 - 2 * 2048 * 1000) * 150 // 7
    lateral = [2 * n * 256 * width for n, width in zip(cells, (256, 512, 1024, 2048), strict=False)]
    forward += sum(lateral) + 2 * sum(cells[:4]) * 256 * 256 * 9
    forward += 2 * sum(cells) * 256 * (256 * 9 + 3 * 5)
    forward += 2 * 512 * (7 * 7 * 256 * 1024 + 1024 * 1024 + 1024 * 81 * 5)
    forward += 2 * 128 * (14 * 14 * 256 * 256 * (4 * 9 + 4) + 28 * 28 * 256 * 81)
    assert definition.forward_flop == forward
    first_stage = 64 * 64 + 2 * 256 * 64 + 3 * (64 * 64 * 9 + 64 * 256) + 64 * 256
    frozen = 2 * 400 * 672 * 64 * 3 * 49 + 2 * cells[0] * first_stage
    # What reads the frozen features needs no gradient of them.
    no_gradient = 2 * cells[1] * 256 * (128 + 512) + lateral[0]
    assert definition.training_flop == 3 * forward - 2 * frozen - no_gradient


def test_mask_rcnn_has_the_parameters_of_torchvision_but_for_the_classes() -> None:
    _, parameters = full_size("maskrcnn", "r50-fpn")
    per_class = (1024 + 1) + 4 * (1024 + 1) + (256 + 1)  # score, box, mask
    assert parameters == 44_401_393 - 10 * per_class  # 91 classes there, 81 here
    first_stage = 64 * 64 + 2 * 256 * 64 + 3 * (64 * 64 * 9 + 64 * 256) + 64 * 256
    frozen = 64 * 3 * 49 + first_stage
    assert published("maskrcnn", "r50-fpn").parameters == parameters - frozen


def test_efficientdet_by_hand() -> None:
    definition = published("efficientdet", "d0")
    size = 256
    first = size**2 * 32 * 3 * 9
    total, channels = first, 32
    stages = [(1, 16, 1, 3, 1), (6, 24, 2, 3, 2), (6, 40, 2, 5, 2), (6, 80, 3, 3, 2)]
    stages += [(6, 112, 3, 5, 1), (6, 192, 4, 5, 2), (6, 320, 1, 3, 1)]
    for expansion, outputs, blocks, kernel, stride in stages:
        for block in range(blocks):
            inner = channels * expansion
            total += size**2 * channels * inner if expansion > 1 else 0
            size //= stride if block == 0 else 1
            total += size**2 * inner * (kernel**2 + outputs) + 2 * inner * (channels // 4)
            channels = outputs
    # P4 and P5 are brought to 64 channels for each of two nodes, P5 for P6 as well.
    total += 64 * (64**2 * 40 + 2 * 32**2 * 112 + 3 * 16**2 * 320)
    separable = 64 * 9 + 64 * 64
    total += 3 * separable * sum(n * n for n in (64, 32, 16, 8, 32, 16, 8, 4))
    cells = sum(n * n for n in (64, 32, 16, 8, 4))
    total += sum(cells * (3 * separable + 64 * 9 + 64 * 9 * each) for each in (90, 4))
    assert definition.forward_flop == 2 * total
    assert definition.training_flop == 2 * (3 * total - first)


@every_model
def test_batches_follow_from_the_seed(name: str, variant: str) -> None:
    work = workload(name, published(name, variant).small)
    first, again, other = (work.batch(3, np.random.default_rng(s)) for s in (7, 7, 8))
    assert all(len(value) == 3 for value in first.values())
    assert all(torch.equal(value, again[key]) for key, value in first.items())
    assert not all(torch.equal(value, other[key]) for key, value in first.items())


def test_shapes_of_batches() -> None:
    expected = {
        "inception3": {"image": (2, 3, 107, 107), "label": (2,)},
        "deepspeech2": {"spectrogram": (2, 64, 41), "transcript": (2, 8)},
        "maskrcnn": {
            "image": (2, 3, 128, 160),
            "box": (2, 4, 4),
            "label": (2, 4),
            "mask": (2, 4, 128, 160),
        },
        "efficientdet": {"image": (2, 3, 256, 256), "box": (2, 4, 4), "label": (2, 4)},
    }
    for name, shapes in expected.items():
        model: Model = import_module(f"tbd_models.{name}").MODEL
        batch = workload(name, model.variant(None).small).batch(2, np.random.default_rng(0))
        assert {key: tuple(value.shape) for key, value in batch.items()} == shapes


def test_objects_are_painted_in_the_colour_of_their_class() -> None:
    from tbd_models.pytorch.workload import as_tensors
    from tbd_models.synthetic import scene_batch

    scene = as_tensors(scene_batch(5, (96, 128), 8, 1, np.random.default_rng(0)))
    for image, box, label in zip(scene["image"], scene["box"][:, 0], scene["label"], strict=True):
        column, row = ((box[:2] + box[2:]) / 2).long().tolist()
        expected = torch.sin(label * torch.tensor([0.7, 1.9, 3.1]))
        torch.testing.assert_close(image[:, row, column], expected)
        outside = 0 if column > 64 else -1
        assert not torch.allclose(image[:, outside, outside], expected, atol=1e-3)


def test_masks_fill_their_boxes() -> None:
    from tbd_models.pytorch.workload import as_tensors
    from tbd_models.synthetic import scene_batch

    scene = as_tensors(scene_batch(6, (96, 128), 8, 4, np.random.default_rng(0), masks=True))
    objects = zip(
        scene["box"].flatten(0, 1),
        scene["label"].flatten(),
        scene["mask"].flatten(0, 1),
        strict=True,
    )
    kinds = set()
    for (left, top, right, bottom), label, mask in objects:
        kind = "none" if label == 0 else "rectangle" if label % 2 == 1 else "ellipse"
        kinds.add(kind)
        share = {"none": 0.0, "rectangle": 1.0, "ellipse": math.pi / 4}[kind]
        area = float((right - left) * (bottom - top))
        assert float(mask.sum()) == pytest.approx(share * area, rel=0.12)
        if kind != "none":
            rows, columns = mask.nonzero().unbind(1)
            assert float(rows.min()) == pytest.approx(float(top), abs=1.5)
            assert float(columns.max()) + 1 == pytest.approx(float(right), abs=1.5)
    assert kinds == {"none", "rectangle", "ellipse"}


@one_model
def test_loss_falls(name: str, variant: str) -> None:
    work = workload(name, published(name, variant).small)
    work.model.train()
    generator = np.random.default_rng(0)
    pool = [work.batch(2, generator) for _ in range(4)]
    optimizer = work.optimizer(work.model.parameters())
    losses = []
    for number in range(20):
        batch = pool[number % 4]
        loss = work.loss(work.forward(work.model, batch), batch)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(work.model.parameters(), work.clip_norm or 1e9)
        optimizer.step()
        losses.append(loss.item())
    assert sum(losses[-4:]) < 0.92 * sum(losses[:4]), losses


@every_model
def test_mixed_precision_gives_about_the_same_loss(name: str, variant: str) -> None:
    work = workload(name, published(name, variant).small)
    work.model.train()
    batch = work.batch(3, np.random.default_rng(0))
    losses = []
    for mixed in (False, True):
        torch.manual_seed(0)  # for what is dropped and drawn at random
        with torch.autocast("cpu", torch.bfloat16, enabled=mixed):
            outputs = work.forward(work.model, batch)
        loss = work.loss(outputs, batch)
        loss.backward()
        assert loss.dtype == torch.float32
        losses.append(loss.item())
    assert losses[0] != losses[1]
    assert losses[1] == pytest.approx(losses[0], rel=0.15)  # few values per batch normalization


@every_model
@pytest.mark.parametrize("size", [1, 3])
def test_any_batch_size_reaches_every_parameter(name: str, variant: str, size: int) -> None:
    work = workload(name, published(name, variant).small)
    work.model.train()
    batch = work.batch(size, np.random.default_rng(0))
    loss = work.loss(work.forward(work.model, batch), batch)
    loss.backward()
    assert loss.shape == () and bool(torch.isfinite(loss))
    for path, parameter in work.model.named_parameters():
        if parameter.requires_grad:
            assert parameter.grad is not None and bool(parameter.grad.isfinite().all()), path


@every_model
def test_no_operation_runs_outside_a_named_layer(name: str, variant: str) -> None:
    layers, _ = full_size(name, variant)
    root = type(workload(name, published(name, variant).small).model).__name__
    assert root not in [layer.name for layer in layers]


def test_unrolled_and_counted_recurrent_layers_are_of_one_size() -> None:
    from tbd_models.pytorch.recurrent import GRU

    with torch.device(META):
        counted = GRU(5, 7, bidirectional=True)(torch.empty(3, 2, 5))
    real = GRU(5, 7, bidirectional=True)(torch.zeros(3, 2, 5))
    assert [t.shape for t in counted] == [t.shape for t in real]
