"""The batches of a training: synthetic ones, or a data set of the user's own.

A data set is one array file per field of a batch.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from tbd_models.definition import UnsupportedError
from tbd_models.settings import Settings
from tbd_models.synthetic import Batch

# Batches that are made once and then taken in turn: making data up is not what is measured.
_POOL = 4

T = TypeVar("T")


def batches(
    make: Callable[[int, np.random.Generator], Batch],
    settings: Settings,
    convert: Callable[[Batch], T],
) -> Callable[[int], T]:
    """Return a function from the number of a step to its batch.

    Args:
        make: makes a batch of so many synthetic samples.
        settings: how to train: with which data, and how many samples at a time.
        convert: makes a framework's tensors of arrays.

    Raises:
        UnsupportedError: the data set does not fit the model.
    """
    rng = np.random.default_rng(settings.seed)
    if settings.data is not None:
        data = ArrayData(settings.data, make(1, rng))
        return lambda number: convert(data.batch(number, settings.batch_size))
    return in_turn(lambda: convert(make(settings.batch_size, rng)))


def in_turn(make: Callable[[], T]) -> Callable[[int], T]:
    """Make a few batches, and return a function from the number of a step to one of them."""
    pool = [make() for _ in range(_POOL)]
    return lambda number: pool[number % _POOL]


class ArrayData:
    """Batches read from ``FIELD.npy`` files, in order and again from the start at the end.

    The files are memory-mapped: a data set may be larger than memory.
    """

    def __init__(self, directory: Path, like: dict[str, NDArray[np.generic]]) -> None:
        """Open a data set.

        Args:
            directory: holds one file per field; the first axis of each is the sample.
            like: a batch as the model wants it, for names and shapes.

        Raises:
            UnsupportedError: a file is missing, or its shape or type is not what the model takes.
        """
        self._arrays = {name: _open(directory / f"{name}.npy", want) for name, want in like.items()}
        counts = {name: len(array) for name, array in self._arrays.items()}
        if len(set(counts.values())) != 1 or 0 in counts.values():
            said = ", ".join(f"{name}: {count}" for name, count in counts.items())
            raise UnsupportedError(f"{directory}: the files need equally many samples ({said})")
        self._count = next(iter(counts.values()))
        self._like = like

    def batch(self, number: int, size: int) -> dict[str, NDArray[np.generic]]:
        """Return batch ``number`` of ``size`` samples."""
        rows = np.arange(number * size, (number + 1) * size) % self._count
        return {
            name: np.asarray(array[rows]).astype(self._like[name].dtype, copy=False)
            for name, array in self._arrays.items()
        }


def _open(path: Path, like: NDArray[np.generic]) -> NDArray[np.generic]:
    wanted = "(samples, " + ", ".join(map(str, like.shape[1:])) + ")"
    try:
        array: NDArray[np.generic] = np.lib.format.open_memmap(path, mode="r")
    except FileNotFoundError:
        raise UnsupportedError(
            f"{path} is missing; it holds {like.dtype} of shape {wanted}"
        ) from None
    except (OSError, ValueError) as error:
        raise UnsupportedError(f"{path}: not a readable .npy file ({error})") from None
    if array.ndim != like.ndim or array.shape[1:] != like.shape[1:]:
        raise UnsupportedError(f"{path}: has shape {array.shape}, the model takes {wanted}")
    if not np.can_cast(array.dtype, like.dtype, "same_kind"):
        raise UnsupportedError(f"{path}: holds {array.dtype}, the model takes {like.dtype}")
    return array
