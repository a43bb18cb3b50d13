"""Decode and crop JPEG files with tf.data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tbd_models.decoded import failed, new_directory
from tbd_models.images import SIZE, crop, make_files
from tbd_models.settings import Settings

_CROPS = 4096  # after which they repeat


def decoded_batches(size: int, classes: int, settings: Settings) -> Callable[[int], Any]:
    """Make JPEG files, and return a function to the next batch of crops (N, size, size, 3).

    Crops are those of ``images.DecodedImages`` in whole pixels. Workers are threads; with 0, the
    caller decodes. Raises UnsupportedError, also later, if a file cannot be read.
    """
    directory = new_directory()
    files = make_files(directory, settings.seed, _save)
    numbers = np.arange(_CROPS) % len(files)
    boxes = [_in_pixels(settings.seed, number) for number in range(_CROPS)]
    crops = tf.data.Dataset.from_tensor_slices(
        ([str(files[number]) for number in numbers], boxes, numbers % classes)
    ).repeat()

    def load(path: Any, box: Any, label: Any) -> dict[str, Any]:
        pixels = tf.io.decode_and_crop_jpeg(tf.io.read_file(path), box, channels=3)
        return {"image": tf.image.resize(pixels, (size, size)) / 127.5 - 1, "label": label}

    workers = settings.loader_workers
    batches = crops.map(load, num_parallel_calls=workers or None, deterministic=True)
    batches = batches.batch(settings.batch_size, drop_remainder=True)
    if workers:
        batches = batches.prefetch(2)
    loaded: Iterator[Any] = iter(batches.with_options(_options(workers)))

    def following(_number: int) -> Any:
        try:
            return next(loaded)
        except tf.errors.OpError as error:
            # The first line names the cause; others name nodes of the graph.
            raise failed(directory, OSError(error.message.partition("\n")[0])) from None

    return following


def _options(workers: int) -> tf.data.Options:
    # Without threads and prefetching of TensorFlow's choice.
    options = tf.data.Options()
    options.autotune.enabled = False
    options.experimental_optimization.apply_default_optimizations = False
    options.experimental_optimization.inject_prefetch = False
    options.threading.private_threadpool_size = max(1, workers)
    return options


def _save(path: Path, pixels: NDArray[np.uint8]) -> None:
    path.write_bytes(tf.io.encode_jpeg(pixels, quality=90).numpy())


def _in_pixels(seed: int, number: int) -> list[int]:
    # Top, left, height, width; at least a pixel.
    left, top, right, bottom = map(int, crop(*SIZE, seed, number))
    return [top, left, max(1, bottom - top), max(1, right - left)]
