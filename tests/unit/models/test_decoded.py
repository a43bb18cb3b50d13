"""Files of images and speech that are decoded during training."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest

torch = pytest.importorskip("torch")
Image = pytest.importorskip("PIL.Image")

from tbd_models import __main__ as program  # noqa: E402
from tbd_models import audio, images  # noqa: E402
from tbd_models.decoded import Decoded  # noqa: E402
from tbd_models.definition import UNSUPPORTED, UnsupportedError  # noqa: E402
from tbd_models.pytorch.loader import decoded_batches  # noqa: E402
from tbd_models.settings import Settings  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")

# 34 frames of 10 ms, 41 bins (4 kHz), 7 characters of 5 labels.
DECODED = {"jpg": images.decoded(32, 5), "wav": audio.decoded(34, 41, 5, 7)}


def _batches(decoded: Decoded = DECODED["jpg"], **asked: Any) -> Any:
    return decoded_batches(decoded, Settings(**{"batch_size": 6, "input": "decode"} | asked))


@pytest.mark.slow
def test_workers_change_no_batch() -> None:
    alone, shared = _batches(), _batches(loader_workers=2)
    for number in range(3):
        ours, theirs = alone(number), shared(number)
        assert ours["image"].shape == (6, 3, 32, 32)
        assert ours["image"].dtype == torch.float32
        assert ours["label"].tolist() == [index % 5 for index in range(6 * number, 6 * number + 6)]
        assert torch.equal(ours["image"], theirs["image"])


def test_spectrograms_are_computed_by_workers() -> None:
    alone, shared = _batches(DECODED["wav"]), _batches(DECODED["wav"], loader_workers=2)
    for number in range(3):
        ours, theirs = alone(number), shared(number)
        assert ours["spectrogram"].shape == (6, 34, 41)
        assert ours["spectrogram"].dtype == torch.float32
        assert ours["transcript"].shape == (6, 7)
        assert 1 <= ours["transcript"].min() <= ours["transcript"].max() <= 4
        assert torch.equal(ours["spectrogram"], theirs["spectrogram"])


def test_a_spectrogram_has_the_pitch_of_its_tone() -> None:
    # 1,250 Hz are bin 25 of windows of 20 ms; twice as loud in the second half.
    rate, seconds = 16_000, 1
    time = np.arange(rate * seconds) / rate
    loudness = np.where(time < 0.5, 4000, 8000)
    found = audio.spectrogram((loudness * np.sin(2 * np.pi * 1250 * time)).astype(np.int16), rate)
    assert found.shape == (99, 161)
    assert set(found.argmax(1)) == {25}
    assert found.mean() == pytest.approx(0, abs=1e-5)
    assert found.std() == pytest.approx(1, abs=1e-5)
    logs = np.log1p(_magnitudes(loudness * np.sin(2 * np.pi * 1250 * time)))
    # A tone's magnitude is a quarter of its amplitude per sample of a Hann window.
    assert logs[10, 25] == pytest.approx(np.log1p(4000 / 2**15 * 319 / 4), rel=1e-3)
    assert logs[90, 25] == pytest.approx(np.log1p(8000 / 2**15 * 319 / 4), rel=1e-3)
    assert found == pytest.approx((logs - logs.mean()) / logs.std(), abs=2e-3)


def _magnitudes(signal: Any) -> Any:
    # Torch's transform as the oracle.
    scaled = torch.from_numpy(signal / 2**15)
    window = torch.hann_window(320, periodic=False, dtype=torch.float64)
    found = torch.stft(scaled, 320, 160, window=window, center=False, return_complex=True)
    return found.abs().T.numpy()


def test_crops_are_parts_of_the_image(tmp_path: Path) -> None:
    # Red grows from left to right, green from top to bottom: colours are coordinates.
    across, down = np.meshgrid(np.arange(200), np.arange(150))
    pixels = np.stack([across, down, np.zeros_like(across)], -1).astype(np.uint8)
    file = tmp_path / "a.jpg"
    Image.fromarray(pixels).save(file, quality=95)
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


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("kind", DECODED)
def test_files_that_vanish_are_an_error_of_one_line(kind: str, workers: int) -> None:
    def vanishing(directory: Path, seed: int) -> Any:
        samples = DECODED[kind](directory, seed)
        (directory / f"7.{kind}").unlink()
        return samples

    following = _batches(vanishing, loader_workers=workers)
    with pytest.raises(UnsupportedError, match=rf"No such file.*7\.{kind}") as raised:
        for number in range(2):
            following(number)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(("kept", "said"), [(0, "the file is empty"), (1000, "truncated")])
def test_a_damaged_file_is_an_error_of_one_line(kept: int, said: str) -> None:
    def damaged(directory: Path, seed: int) -> Any:
        samples = DECODED["wav"](directory, seed)
        file = directory / "3.wav"
        file.write_bytes(file.read_bytes()[:kept])
        return samples

    with pytest.raises(UnsupportedError, match=rf"3\.wav.*{said}") as raised:
        _batches(damaged)(0)
    assert "\n" not in str(raised.value)


# In a process of its own: after the death of a worker, PyTorch raises an error whenever another
# child of the process ends. Without its handler of SIGCHLD, only the loader notices.
DYING_WORKER = """
import multiprocessing, signal, sys
from pathlib import Path
from tbd_models import images
from tbd_models.definition import UnsupportedError
from tbd_models.pytorch.loader import decoded_batches
from tbd_models.settings import Settings

settings = Settings(batch_size=6, input="decode", loader_workers=1)
following = decoded_batches(images.decoded(32, 5), settings)
signal.signal(signal.SIGCHLD, signal.SIG_DFL)
(worker,) = multiprocessing.active_children()
following(0)
worker.kill()
try:
    for number in range(1, 10):
        following(number)
except UnsupportedError as error:
    print(error)
"""


@pytest.mark.slow
def test_a_worker_that_dies_is_an_error_of_one_line() -> None:
    argv = [sys.executable, "-c", DYING_WORKER]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=100, check=True)
    (line,) = done.stdout.splitlines()
    assert "exited unexpectedly" in line


@pytest.mark.parametrize(
    "error", [ConnectionResetError(104, "Connection reset by peer"), EOFError()]
)
def test_a_worker_that_dies_while_it_sends_a_batch_is_named(error: Exception) -> None:
    samples = MagicMock(**{"__len__.return_value": 6, "__getitem__.side_effect": error})
    following = _batches(lambda *_: samples)
    with pytest.raises(UnsupportedError, match="a worker of the DataLoader exited unexpectedly"):
        following(0)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["resnet50", "--loader-workers=2"], "--loader-workers needs --input decode"),
        (["resnet50", "--input=decode", "--data=d"], "--data and --input decode exclude"),
        (["seq2seq", "--input=decode", "--scale=small"], "the model has no files in this"),
        (["deepspeech2", "--input=decode", "--lengths=corpus"], "--lengths and --input decode"),
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
