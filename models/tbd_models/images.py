"""Decode and crop JPEG files, as an input pipeline for images does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tbd_models.decoded import ENDLESS, Decoded
from tbd_models.synthetic import Batch, image_batch

# Width and height of the files, about the average of ImageNet, and their number.
SIZE = (500, 375)
_FILES = 64
# Random crops as published (Szegedy et al. 2015): share of the area, and width / height.
_AREA = (0.08, 1.0)
_RATIO = (3 / 4, 4 / 3)

Box = tuple[float, float, float, float]  # left, top, right, bottom in pixels


class DecodedImages:
    """Endless random crops of JPEG files; equal numbers and seeds give equal crops."""

    def __init__(self, files: list[Path], size: int, classes: int, seed: int) -> None:
        self.files, self.size, self.classes, self.seed = files, size, classes, seed

    def __len__(self) -> int:
        return ENDLESS

    def __getitem__(self, number: int) -> Batch:
        # Only this input needs Pillow.
        from PIL import Image  # noqa: PLC0415

        at = number % len(self.files)
        with Image.open(self.files[at]) as file:
            box = crop(*file.size, self.seed, number)
            resized = file.resize((self.size, self.size), Image.Resampling.BILINEAR, box)
        pixels = np.asarray(resized, np.float32).transpose(2, 0, 1) / 127.5 - 1
        return {"image": pixels, "label": np.array(at % self.classes)}


def decoded(size: int, classes: int) -> Decoded:
    """Return a function that writes JPEG files and returns their crops, with Pillow."""

    def write(directory: Path, seed: int) -> DecodedImages:
        from PIL import Image  # noqa: PLC0415

        def save(path: Path, pixels: NDArray[np.uint8]) -> None:
            Image.fromarray(pixels).save(path, quality=90)

        return DecodedImages(make_files(directory, seed, save), size, classes, seed)

    return write


def make_files(
    directory: Path, seed: int, save: Callable[[Path, NDArray[np.uint8]], None]
) -> list[Path]:
    """Write files of patterns under noise; ``save`` encodes pixels (H, W, 3)."""
    rng = np.random.default_rng(seed)
    width, height = SIZE
    files = [directory / f"{number}.jpg" for number in range(_FILES)]
    for file in files:
        pattern = image_batch(1, width, _FILES, rng)["image"][0, :, :height].transpose(1, 2, 0)
        save(file, np.clip(128 + 40 * pattern, 0, 255).astype(np.uint8))
    return files


def crop(width: int, height: int, seed: int, number: int) -> Box:
    """Draw the crop of a sample from an image of this size."""
    rng = np.random.default_rng((seed, number))
    area = width * height * rng.uniform(*_AREA)
    ratio = np.exp(rng.uniform(*np.log(_RATIO)))
    across = min(float(np.sqrt(area * ratio)), width)
    down = min(float(np.sqrt(area / ratio)), height)
    left, top = rng.uniform(0, width - across), rng.uniform(0, height - down)
    return left, top, left + across, top + down
