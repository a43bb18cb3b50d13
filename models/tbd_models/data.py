"""Provide training batches: synthetic ones, or a user's data set with one array file per field."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from tbd_models.corpus import PlannedBatch
from tbd_models.definition import UnsupportedError
from tbd_models.settings import Settings
from tbd_models.synthetic import Batch

# Batches are generated once and reused in turn: generation must not count as training time.
_POOL = 4

T = TypeVar("T")

# Makes a batch of samples of unequal size.
Sized = Callable[[PlannedBatch, np.random.Generator], Batch]


def batches(
    make: Callable[[int, np.random.Generator], Batch],
    settings: Settings,
    convert: Callable[[Batch], T],
    sized: Sized | None = None,
) -> Callable[[int], T]:
    """Return a function from a step number to its batch.

    ``make`` generates a batch of N synthetic samples, ``sized`` one of samples of unequal size, and
    ``convert`` makes a framework's tensors of NumPy arrays. Raises UnsupportedError if the user's
    data set does not fit the model, or if it needs samples of equal size.
    """
    rng = np.random.default_rng(settings.seed)
    if (plan := settings.lengths) is not None:
        if sized is None:
            raise UnsupportedError(
                "the model takes samples of one size in this framework; leave out --lengths, or "
                "use --framework pytorch"
            )
        made = [convert(sized(planned, rng)) for planned in plan.made]
        return lambda number: made[number % len(made)]
    if settings.data is not None:
        data = ArrayData(settings.data, make(1, rng))
        return lambda number: convert(data.batch(number, settings.batch_size))
    return in_turn(lambda: convert(make(settings.batch_size, rng)))


def in_turn(make: Callable[[], T]) -> Callable[[int], T]:
    """Make a few batches and return a function from a step number to one of them."""
    pool = [make() for _ in range(_POOL)]
    return lambda number: pool[number % _POOL]


class ArrayData:
    """Batches read from ``FIELD.npy`` files in order, starting over at the end."""

    def __init__(self, directory: Path, like: dict[str, NDArray[np.generic]]) -> None:
        """Open ``FIELD.npy`` for each field of ``like``, a batch that the model accepts.

        The first axis is the sample. Raises UnsupportedError for a missing or unsuitable file.
        """
        self._arrays = {name: _open(directory / f"{name}.npy", want) for name, want in like.items()}
        counts = {name: len(array) for name, array in self._arrays.items()}
        if len(set(counts.values())) != 1 or 0 in counts.values():
            listed = ", ".join(f"{name}: {count}" for name, count in counts.items())
            raise UnsupportedError(f"{directory}: the files need equally many samples ({listed})")
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
        # Memory-mapped, because a data set may be larger than memory.
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
