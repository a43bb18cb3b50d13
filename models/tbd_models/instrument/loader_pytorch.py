"""Enclose the calls by which a program gets batches from a DataLoader of PyTorch."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from torch.utils.data import dataloader


class LoaderCalls:
    """Enclose the calls of all DataLoader iterators until ``remove``.

    Lightning, Accelerate and the Trainer of Hugging Face call the same iterators.
    """

    def __init__(self, enclose: Callable[[], AbstractContextManager[None]]) -> None:
        """Enclose calls from now on, each with the context that ``enclose`` returns."""
        iterator: Any = dataloader._BaseDataLoaderIter
        self._iterator = iterator
        self._next = original = iterator.__next__

        @functools.wraps(original)
        def enclosed_next(loading: Any) -> Any:
            with enclose():
                return original(loading)

        iterator.__next__ = enclosed_next

    def remove(self) -> None:
        """Restore the class of the iterators."""
        self._iterator.__next__ = self._next
