"""JPEG files that are decoded and cropped during training."""

from __future__ import annotations

import multiprocessing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("PIL")

from tbd_models import __main__ as program  # noqa: E402
from tbd_models.definition import UNSUPPORTED, UnsupportedError  # noqa: E402
from tbd_models.pytorch import images  # noqa: E402
from tbd_models.settings import Settings  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")


def _batches(**asked: Any) -> Any:
    return images.decoded_batches(32, 5, Settings(**{"batch_size": 6, "input": "decode"} | asked))


def test_workers_change_no_batch() -> None:
    alone, shared = _batches(), _batches(loader_workers=2)
    for number in range(3):
        ours, theirs = alone(number), shared(number)
        assert ours["image"].shape == (6, 3, 32, 32)
        assert ours["image"].dtype == torch.float32
        assert ours["label"].tolist() == [index % 5 for index in range(6 * number, 6 * number + 6)]
        assert torch.equal(ours["image"], theirs["image"])


def test_crops_are_parts_of_the_image(tmp_path: Path) -> None:
    # Red grows from left to right, green from top to bottom: colours are coordinates.
    across, down = np.meshgrid(np.arange(200), np.arange(150))
    pixels = np.stack([across, down, np.zeros_like(across)], -1).astype(np.uint8)
    file = tmp_path / "a.jpg"
    images.Image.fromarray(pixels).save(file, quality=95)
    crops = images.DecodedImages([file], 16, 5, seed=1)
    shares = []
    for index in range(60):
        red, green, _ = np.asarray((crops[index]["image"] + 1) * 127.5)
        for axis, (values, extent) in enumerate([(red.mean(0), 200), (green.mean(1), 150)]):
            assert values.min() > -6, axis
            assert values.max() < extent + 6, axis
        # First and last samples are half a cell inside the crop.
        width, height = (np.ptp(v) * 16 / 15 for v in (red.mean(0), green.mean(1)))
        shares.append(width * height / (200 * 150))
    assert min(shares) == pytest.approx(0.08, abs=0.06)
    assert 0.7 < max(shares) < 1.1


@pytest.mark.parametrize("workers", [0, 1])
def test_files_that_vanish_are_an_error_of_one_line(
    workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = images.make_files

    def vanishing(directory: Path, seed: int) -> list[Path]:
        files = make(directory, seed)
        files[7].unlink()
        return files

    monkeypatch.setattr(images, "make_files", vanishing)
    following = _batches(loader_workers=workers)
    with pytest.raises(UnsupportedError, match=r"No such file.*7\.jpg") as raised:
        for number in range(2):
            following(number)
    assert "\n" not in str(raised.value)


def test_a_worker_that_dies_is_an_error_of_one_line() -> None:
    before = set(multiprocessing.active_children())
    following = _batches(loader_workers=1)
    (worker,) = set(multiprocessing.active_children()) - before
    following(0)
    worker.kill()
    with pytest.raises(UnsupportedError, match="exited unexpectedly") as raised:
        for number in range(1, 10):
            following(number)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["resnet50", "--loader-workers=2"], "--loader-workers needs --input decode"),
        (["resnet50", "--input=decode", "--data=d"], "--data and --input decode exclude"),
        (["resnet50", "--input=decode", "--framework=mxnet"], "--input decode is for the PyTorch"),
        (["seq2seq", "--input=decode", "--scale=small"], "--input decode is for resnet50 and"),
    ],
)
def test_what_has_no_files_is_refused(
    arguments: list[str],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sys.argv", ["tbd_models", "run", *arguments, "--device=cpu"])
    assert program.main() == UNSUPPORTED
    assert capsys.readouterr().err.startswith(f"error: {said}")
