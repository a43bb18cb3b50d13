"""Decode and crop JPEG files, as an input pipeline for images does."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from tbd_models.definition import UnsupportedError
from tbd_models.settings import Settings
from tbd_models.synthetic import image_batch

# Width and height of the files, about the average of ImageNet, and their number.
_SIZE = (500, 375)
_FILES = 64
# Random crops as published (Szegedy et al. 2015): share of the area, and width / height.
_AREA = (0.08, 1.0)
_RATIO = (3 / 4, 4 / 3)


class DecodedImages(Dataset[dict[str, Any]]):
    """Endless random crops of JPEG files; equal indices and seeds give equal crops."""

    def __init__(self, files: list[Path], size: int, classes: int, seed: int) -> None:
        self.files, self.size, self.classes, self.seed = files, size, classes, seed

    def __len__(self) -> int:
        return 2**40

    def __getitem__(self, index: int) -> dict[str, Any]:
        number = index % len(self.files)
        rng = np.random.default_rng((self.seed, index))
        with Image.open(self.files[number]) as image:
            box = _crop(*image.size, rng)
            resized = image.resize((self.size, self.size), Image.Resampling.BILINEAR, box)
        pixels = np.asarray(resized, np.float32).transpose(2, 0, 1) / 127.5 - 1
        return {"image": torch.from_numpy(pixels), "label": number % self.classes}


def decoded_batches(
    size: int, classes: int, settings: Settings
) -> Callable[[int], dict[str, Tensor]]:
    """Make JPEG files, and return a function to the next batch of crops, pinned for a GPU.

    Raises UnsupportedError, also later, if a file cannot be read or a worker ends.
    """
    directory = tempfile.TemporaryDirectory(prefix="tbd-trace-images-")
    files = make_files(Path(directory.name), settings.seed)
    images: DataLoader[dict[str, Any]] = DataLoader(
        DecodedImages(files, size, classes, settings.seed),
        settings.batch_size,
        num_workers=settings.loader_workers,
        pin_memory=settings.device == "cuda",
    )
    loaded: Iterator[dict[str, Tensor]] = iter(images)

    def following(_number: int) -> dict[str, Tensor]:
        # The function keeps the directory, which is removed with the program's end.
        try:
            return next(loaded)
        except (OSError, RuntimeError) as error:
            # The last line names the cause; lines before it are the worker's traceback.
            reason = str(error).strip().splitlines()[-1]
            raise UnsupportedError(f"decoding files of {directory.name}: {reason}") from None

    return following


def make_files(directory: Path, seed: int) -> list[Path]:
    """Write JPEG files of patterns under noise."""
    rng = np.random.default_rng(seed)
    width, height = _SIZE
    files = []
    for number in range(_FILES):
        pattern = image_batch(1, width, _FILES, rng)["image"][0, :, :height].transpose(1, 2, 0)
        pixels = np.clip(128 + 40 * pattern, 0, 255).astype(np.uint8)
        files.append(directory / f"{number}.jpg")
        Image.fromarray(pixels).save(files[-1], quality=90)
    return files


def _crop(width: int, height: int, rng: np.random.Generator) -> tuple[float, float, float, float]:
    area = width * height * rng.uniform(*_AREA)
    ratio = np.exp(rng.uniform(*np.log(_RATIO)))
    across = min(float(np.sqrt(area * ratio)), width)
    down = min(float(np.sqrt(area / ratio)), height)
    left, top = rng.uniform(0, width - across), rng.uniform(0, height - down)
    return left, top, left + across, top + down
