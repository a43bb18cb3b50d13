"""Training a workload in PyTorch: data sets, seeds, precisions, and memory that runs out."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from tbd_models.data import ArrayData  # noqa: E402
from tbd_models.definition import UnsupportedError  # noqa: E402
from tbd_models.instrument.marks import PHASES, NoMarks  # noqa: E402
from tbd_models.loop import Window, measure  # noqa: E402
from tbd_models.pytorch.trainer import (  # noqa: E402
    PyTorchTrainer,
    _autocast_type,
    is_out_of_memory,
)
from tbd_models.pytorch.workload import (  # noqa: E402
    Workload,
    as_tensors,
    cross_entropy,
    to_device,
)
from tbd_models.settings import Settings, refuse_pytorch_options  # noqa: E402
from tbd_models.synthetic import image_batch  # noqa: E402

CLASSES = 5


pytestmark = pytest.mark.usefixtures("one_thread")


def _workload(clip_norm: float | None = None) -> Workload:
    return Workload(
        model=nn.Sequential(nn.Flatten(), nn.Dropout(0.2), nn.Linear(3 * 4 * 4, CLASSES)),
        batch=lambda size, rng: as_tensors(image_batch(size, 4, CLASSES, rng)),
        forward=lambda model, batch: model(batch["image"]),
        loss=lambda scores, batch: cross_entropy(scores, batch["label"]),
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1),
        clip_norm=clip_norm,
    )


def _trainer(dimensions: float | None = None, **settings: Any) -> PyTorchTrainer:
    return PyTorchTrainer(_workload, dimensions, Settings(**{"batch_size": 4} | settings))


def _losses(trainer: PyTorchTrainer, steps: int = 5) -> list[float]:
    found = []
    for _ in range(steps):
        trainer.step(NoMarks())
        found.append(trainer.loss())
    return found


def test_equal_seeds_give_equal_losses_and_others_others() -> None:
    first, again, other = (_losses(_trainer(seed=seed)) for seed in (3, 3, 4))
    assert first == again
    assert first != other


def test_losses_fall_in_every_precision() -> None:
    for precision in ("fp32", "mixed"):
        losses = _losses(_trainer(precision=precision), 40)
        assert losses[-1] < losses[0] / 2


class Phases(NoMarks):
    def __init__(self) -> None:
        self.seen: list[str] = []

    def push(self, text: str) -> None:
        self.seen.append(text)


def test_phases_are_marked_in_order() -> None:
    marks = Phases()
    _trainer().step(marks)
    assert marks.seen == [f"phase:{phase}" for phase in PHASES]


def test_an_iteration_of_several_passes_is_one_optimizer_step() -> None:
    trainer = _trainer(batch_size=6, gradient_accumulation=3)
    stepped: list[int] = []
    trainer.optimizer.register_step_post_hook(lambda *_: stepped.append(1))
    marks = Phases()
    found = measure(trainer, Window(iterations=4, warmup=2), marks)
    assert len(stepped) == 6
    assert len(found.iteration_ns) == 4
    assert sum(found.iteration_ns) == pytest.approx(found.seconds * 1e9)
    named = [text for text in marks.seen if text.startswith("iteration")]
    assert named == [f"iteration {number}" for number in range(6)]
    data, *passes, optimizer = PHASES
    phases = [text.removeprefix("phase:") for text in marks.seen if text.startswith("phase")]
    assert phases == [*[data, *passes] * 3, optimizer] * 6


def test_passes_share_the_batch() -> None:
    trainer = _trainer(batch_size=6, gradient_accumulation=3)
    sizes: list[int] = []
    trainer.model.register_forward_hook(lambda _module, _inputs, out: sizes.append(len(out)))
    trainer.step(NoMarks())
    assert sizes == [2, 2, 2]
    # FLOP stay those of a sample.
    (layer,) = [entry for entry in trainer.layers() if entry["type"] == "Linear"]
    assert layer["forward_flop"] == 2 * 48 * CLASSES


def test_passes_read_a_data_set_in_order(tmp_path: Path) -> None:
    data = _write(tmp_path)
    seen: list[Any] = []
    trainer = _trainer(batch_size=4, gradient_accumulation=2, data=data)
    trainer.model.register_forward_pre_hook(lambda _module, inputs: seen.append(inputs[0].clone()))
    _losses(trainer, 2)
    images = np.load(data / "image.npy")[[0, 1, 2, 3, 4, 5, 0, 1]]
    assert torch.equal(torch.cat(seen), torch.tensor(images))


def test_passes_that_do_not_divide_the_batch_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="batch of 4 cannot be divided among 3 passes"):
        _trainer(gradient_accumulation=3)


def test_checkpointing_is_refused_where_a_model_has_none() -> None:
    with pytest.raises(UnsupportedError, match="leave out --activation-checkpointing"):
        _trainer(activation_checkpointing=True)


@pytest.mark.parametrize(
    "asked", [{"gradient_accumulation": 2}, {"activation_checkpointing": True}]
)
def test_other_frameworks_refuse_both(asked: dict[str, Any]) -> None:
    refuse_pytorch_options(Settings(batch_size=4), "MXNet")
    option = "--" + next(iter(asked)).replace("_", "-")
    with pytest.raises(UnsupportedError, match=f"{option} is for .* not for MXNet"):
        refuse_pytorch_options(Settings(batch_size=4, **asked), "MXNet")


@pytest.mark.parametrize(
    ("on_gpu", "prefers", "capability", "expected"),
    [
        (False, False, None, torch.bfloat16),
        (True, False, (9, 0), torch.float16),
        (True, True, (8, 0), torch.bfloat16),
        (True, True, (7, 5), torch.float16),
    ],
)
def test_mixed_precision_is_bf16_where_it_is_preferred_and_supported(
    monkeypatch: pytest.MonkeyPatch,
    on_gpu: bool,
    prefers: bool,
    capability: tuple[int, int] | None,
    expected: torch.dtype,
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: capability)
    work = dataclasses.replace(_workload(), prefers_bf16=prefers)
    assert _autocast_type(work, on_gpu) is expected


def test_gradients_are_clipped_together() -> None:
    moves = []
    for norm in (None, 1e-3):
        trainer = _trainer(norm)
        before = [p.detach().clone() for p in trainer.model.parameters()]
        trainer.step(NoMarks())
        moved = [p.detach() - b for p, b in zip(trainer.model.parameters(), before, strict=True)]
        moves.append(float(torch.cat([m.flatten() for m in moved]).norm()))
    assert moves[0] > 1e-2
    assert moves[1] == pytest.approx(0.1 * 1e-3, rel=1e-2)


def test_tf32_and_a_gpu_that_is_not_there_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnsupportedError, match="--precision fp32"):
        _trainer(precision="tf32")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UnsupportedError, match="--device cpu"):
        _trainer(device="cuda")


def test_layers_and_description_of_a_trainer() -> None:
    trainer = _trainer()
    assert math.isnan(trainer.loss())
    (layer,) = [entry for entry in trainer.layers() if entry["type"] == "Linear"]
    assert layer["forward_flop"] == 2 * 48 * CLASSES
    assert all(p.grad is None for p in trainer.model.parameters())
    said = trainer.describe()
    assert said["parameters"] == 48 * CLASSES + CLASSES
    assert (said["framework"], said["gpu"], said["autocast"]) == ("pytorch", None, None)
    assert _trainer(precision="mixed").describe()["autocast"] == "bfloat16"
    assert (trainer.reserved_bytes(), trainer.peak_bytes()) == (None, None)


# Data sets.


def _write(directory: Path, count: int = 6, **other: Any) -> Path:
    arrays = {
        "image": np.random.default_rng(0).random((count, 3, 4, 4), np.float32),
        "label": np.arange(count) % CLASSES,
    }
    for name, array in (arrays | other).items():
        if array is not None:
            np.save(directory / f"{name}.npy", array)
    return directory


def test_training_reads_a_data_set(tmp_path: Path) -> None:
    trainer = _trainer(data=_write(tmp_path), seed=7)
    losses = _losses(trainer, 3)
    torch.manual_seed(7)
    model = _workload().model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    images, labels = (np.load(tmp_path / f"{name}.npy") for name in ("image", "label"))
    expected = []
    for rows in ([0, 1, 2, 3], [4, 5, 0, 1], [2, 3, 4, 5]):  # six samples, four at a time
        scores = model(torch.tensor(images[rows]))
        loss = nn.functional.cross_entropy(scores, torch.tensor(labels[rows]))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        expected.append(float(loss.detach()))
    assert losses == pytest.approx(expected, rel=1e-6)


def test_a_batch_larger_than_the_data_set_repeats_it(tmp_path: Path) -> None:
    data = ArrayData(_write(tmp_path, 3), {"label": np.zeros(1, np.int64)})
    assert data.batch(0, 7)["label"].tolist() == [0, 1, 2, 0, 1, 2, 0]
    assert data.batch(1, 7)["label"].tolist() == [1, 2, 0, 1, 2, 0, 1]


def test_types_become_those_of_the_model(tmp_path: Path) -> None:
    image = np.full((6, 3, 4, 4), 200, np.uint8)
    trainer = _trainer(data=_write(tmp_path, image=image, label=np.arange(6, dtype=">i2") % 5))
    assert all(math.isfinite(loss) for loss in _losses(trainer, 2))


class Pickled:
    """Loading it would run code of the data set's author."""

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return (pytest.fail, ("a pickle was loaded",))


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"image": np.zeros((6, 3, 5, 4), np.float32)}, r"shape \(6, 3, 5, 4\).*\(samples, 3, 4"),
        ({"label": np.zeros((6, 1), np.int64)}, "shape"),
        ({"label": np.array(3)}, "shape"),
        ({"label": None}, r"label.npy is missing; it holds int64 of shape \(samples"),
        ({"label": np.zeros(5, np.int64)}, r"equally many samples \(image: 6, label: 5\)"),
        ({"image": np.zeros((0, 3, 4, 4), np.float32), "label": np.zeros(0, int)}, "equally many"),
        ({"label": np.zeros(6)}, "holds float64, the model takes int64"),
        ({"label": np.array(["a"] * 6)}, "holds <U1"),
        ({"label": np.array([Pickled()] * 6)}, "not a readable .npy"),
    ],
)
def test_data_sets_that_do_not_fit_are_refused(
    tmp_path: Path, other: dict[str, Any], message: str
) -> None:
    with pytest.raises(UnsupportedError, match=message) as caught:
        _trainer(data=_write(tmp_path, **other))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY", b"text", b"PK\x03\x04 not an archive"])
def test_files_that_are_no_arrays_are_refused(tmp_path: Path, content: bytes) -> None:
    (_write(tmp_path) / "label.npy").write_bytes(content)
    with pytest.raises(UnsupportedError, match=r"label\.npy"):
        _trainer(data=tmp_path)


def test_an_archive_is_refused(tmp_path: Path) -> None:
    with (_write(tmp_path) / "label.npy").open("wb") as file:
        np.savez(file, label=np.arange(6))
    with pytest.raises(UnsupportedError, match=r"not a readable \.npy"):
        _trainer(data=tmp_path)


def test_samples_of_several_shapes_take_no_data_set(tmp_path: Path) -> None:
    def build(_dimensions: Any) -> Workload:
        plain = _workload()
        return Workload(
            plain.model,
            lambda size, _generator: {"boxes": [torch.zeros(n, 4) for n in range(size)]},
            plain.forward,
            plain.loss,
            plain.optimizer,
        )

    with pytest.raises(UnsupportedError, match="only synthetic data"):
        PyTorchTrainer(build, None, Settings(batch_size=2, data=tmp_path))


# Parts.


def test_images_of_a_class_share_a_pattern() -> None:
    batch = as_tensors(image_batch(200, 8, 2, np.random.default_rng(0)))
    assert batch["image"].shape == (200, 3, 8, 8)
    assert batch["image"].dtype == torch.float32
    assert set(batch["label"].tolist()) == {0, 1}
    mean = [batch["image"][batch["label"] == label].mean(0) for label in (0, 1)]
    assert float((mean[0] - mean[1]).abs().mean()) > 0.5  # noise alone: about 0.1


def test_cross_entropy_is_in_single_precision_and_leaves_out() -> None:
    scores = torch.randn(2, 3, CLASSES)
    label = torch.tensor([[0, 1, -100], [4, -100, 2]])
    logs = scores.double().log_softmax(-1)
    kept = [(0, 0, 0), (0, 1, 1), (1, 0, 4), (1, 2, 2)]
    expected = -sum(float(logs[place]) for place in kept) / 4
    assert float(cross_entropy(scores, label)) == pytest.approx(expected, rel=1e-6)
    assert cross_entropy(scores.bfloat16(), label).dtype == torch.float32


def test_batches_move_with_everything_in_them() -> None:
    batch = {"a": torch.zeros(1), "b": [torch.zeros(2), (torch.zeros(3),)]}
    moved = to_device(batch, torch.device("meta"))
    assert moved["a"].is_meta
    assert moved["b"][0].is_meta
    assert moved["b"][1][0].is_meta


def test_out_of_memory_is_distinguished_from_other_errors() -> None:
    with pytest.raises(RuntimeError) as real:
        torch.empty(2**50, dtype=torch.uint8)  # more than the address space
    said = [
        real.value,
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"),
        MemoryError(),
        RuntimeError("CUDA error: out of memory"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"),
    ]
    assert all(is_out_of_memory(error) for error in said)
    for error in (RuntimeError("shapes cannot be multiplied"), ValueError("out of memory")):
        assert not is_out_of_memory(error)
