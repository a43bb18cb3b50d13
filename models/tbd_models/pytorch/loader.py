"""Load samples from files in PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from torch import Tensor
from torch.utils.data import DataLoader

from tbd_models.decoded import Decoded, failed, in_new_directory
from tbd_models.settings import Settings


def decoded_batches(decoded: Decoded | None, settings: Settings) -> Callable[[int], Any]:
    """Return a function to the next batch, pinned for a GPU.

    Raises UnsupportedError, also later, if a file cannot be read or a worker ends.
    """
    samples, directory = in_new_directory(decoded, settings)
    loader: DataLoader[Any] = DataLoader(
        samples,  # type: ignore[arg-type]  # a Dataset in all but its base class
        settings.batch_size,
        num_workers=settings.loader_workers,
        pin_memory=settings.device == "cuda",
    )
    loaded: Iterator[dict[str, Tensor]] = iter(loader)

    def following(_number: int) -> dict[str, Tensor]:
        try:
            return next(loaded)
        except (ConnectionError, EOFError):
            # A worker that ends while it hands over a batch only closes its socket.
            ended = RuntimeError("a worker of the DataLoader exited unexpectedly")
            raise failed(directory, ended) from None
        except (OSError, RuntimeError) as error:
            raise failed(directory, error) from None

    return following
