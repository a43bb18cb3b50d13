"""Give a training program batches of another size than it makes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten
from torch.utils.data import dataloader

from tbd_models.instrument.memory_request import FROM_LOADER

_CALL = "the first training call"


class Batches:
    """Find the batch size of a program, and replace it.

    A DataLoader delivers the samples of its batch again until there are enough. Without a loader,
    inputs of the training step whose first axis is the batch get another length there.

    Args:
        wanted: samples per batch; None leaves the batches as they are.
    """

    def __init__(self, wanted: int | None) -> None:
        self._wanted = wanted
        self.size: int | None = None  # of the program
        self.source: str | None = None
        self._original = dataloader._BaseDataLoaderIter.__next__
        self.while_loading: Any = None  # context manager around the loader's work
        batches, original = self, self._original

        def deliver(iterator: Any) -> Any:
            return batches._delivered(original, iterator)

        iterators: Any = dataloader._BaseDataLoaderIter
        iterators.__next__ = deliver

    @property
    def used(self) -> int | None:
        """Return the samples per batch of the training step."""
        return self._wanted if self.size is not None and self._wanted else self.size

    def note_call(self, arguments: Any) -> None:
        """Take the batch size from the inputs of the first training call, if none is known."""
        if self.source is None:
            size = _common_length(arguments)
            self.size, self.source = size, None if size is None else _CALL

    def shape(self, tensor: Tensor) -> torch.Size:
        """Return the shape of an input of the training step with the wanted batch."""
        if self._wanted is None or self.source != _CALL:
            return tensor.shape
        if tensor.dim() == 0 or len(tensor) != self.size:
            return tensor.shape
        return torch.Size((self._wanted, *tensor.shape[1:]))

    def _delivered(self, original: Any, iterator: Any) -> Any:
        if self.while_loading is None:
            batch = original(iterator)
        else:
            with self.while_loading():
                batch = original(iterator)
        size = _common_length(batch)
        if self.size is None and size is not None:
            self.size, self.source = size, FROM_LOADER
        if self._wanted is None or size is None or self.source != FROM_LOADER:
            return batch
        return _repeated(batch, size, self._wanted)


def _common_length(value: Any) -> int | None:
    # The most frequent length of the first axis; of equally frequent ones, that of the first.
    lengths = Counter(
        len(part) for part in tree_flatten(value)[0] if isinstance(part, Tensor) and part.dim() > 0
    )
    return lengths.most_common(1)[0][0] if lengths else None


def _repeated(value: Any, size: int, wanted: int) -> Any:
    if isinstance(value, Tensor):
        if value.dim() == 0 or len(value) != size:
            return value
        return value[torch.arange(wanted) % size]
    if isinstance(value, (list, tuple)):
        if len(value) == size and _common_length(value) != size:
            return type(value)(value[number % size] for number in range(wanted))
        parts = [_repeated(part, size, wanted) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    if isinstance(value, dict) or hasattr(value, "items"):
        for key in list(value):
            value[key] = _repeated(value[key], size, wanted)
    return value
