"""Write files once and decode their samples during training, as an input pipeline does."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import numpy as np

from tbd_models.definition import UnsupportedError
from tbd_models.settings import Settings
from tbd_models.synthetic import Batch


class Samples(Protocol):
    """Endless samples; equal numbers and seeds give equal samples."""

    def __len__(self) -> int: ...

    def __getitem__(self, number: int) -> Batch:
        """Decode a sample; fields have no axis of samples."""


# Writes files into a directory by a seed, and returns their samples.
Decoded = Callable[[Path, int], Samples]

ENDLESS = 2**40  # samples


def in_new_directory(decoded: Decoded | None, settings: Settings) -> tuple[Samples, Path]:
    """Write the files of a workload; they are removed when the program ends.

    Raises UnsupportedError if the workload has none.
    """
    if decoded is None:
        raise UnsupportedError(
            "the model has no files in this framework; leave out --input decode, or use resnet50, "
            "inception3, or deepspeech2 in PyTorch or MXNet"
        )
    directory = new_directory()
    return decoded(directory, settings.seed), directory


def new_directory() -> Path:
    """Make a directory that is removed when the program ends."""
    directory = tempfile.TemporaryDirectory(prefix="tbd-trace-files-")
    _alive.append(directory)
    return Path(directory.name)


_alive: list[tempfile.TemporaryDirectory[str]] = []


def failed(directory: Path, error: Exception) -> UnsupportedError:
    """Return the error of a file that was not decoded, in one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    # After a traceback of a worker, the last line names the cause.
    reason = lines[-1] if lines else type(error).__name__
    return UnsupportedError(f"decoding files of {directory}: {reason}")


def stacked(samples: list[Batch]) -> Batch:
    """Return samples as a batch."""
    return {name: np.stack([sample[name] for sample in samples]) for name in samples[0]}
