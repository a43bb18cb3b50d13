"""Define a PyTorch workload: model, data, loss and optimizer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tbd_models import images, synthetic
from tbd_models.corpus import PlannedBatch
from tbd_models.decoded import Decoded

# Tensors, or lists of tensors where samples differ in shape; the batch is the first axis.
Batch = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Workload:
    """A model and how to train it."""

    model: nn.Module  # on the device that was the default while it was built
    batch: Callable[[int, np.random.Generator], Batch]  # makes N synthetic samples on the CPU
    forward: Callable[[nn.Module, Batch], Any]
    loss: Callable[[Any, Batch], Tensor]  # scalar loss of the result of `forward`
    optimizer: Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]
    clip_norm: float | None = None  # maximum global norm of the gradients
    prefers_bf16: bool = False  # with mixed precision, BF16 rather than FP16 on GPUs that have it
    # Lets the model compute activations again in the backward pass; None if it cannot.
    checkpoint: Callable[[nn.Module], None] | None = None
    # Makes a batch of samples of unequal size on the CPU; None if all have the same.
    sized: Callable[[PlannedBatch, np.random.Generator], Batch] | None = None
    decoded: Decoded | None = None  # samples from files; None if it has no files


def image_classification(model: nn.Module, image_size: int, classes: int) -> Workload:
    """Return the workload of a model from images (N, 3, H, W) to class scores."""
    return Workload(
        model=model,
        batch=lambda size, rng: as_tensors(synthetic.image_batch(size, image_size, classes, rng)),
        forward=lambda module, batch: module(batch["image"]),
        loss=lambda scores, batch: cross_entropy(scores, batch["label"]),
        optimizer=lambda parameters: torch.optim.SGD(
            parameters, lr=0.01, momentum=0.9, weight_decay=1e-4
        ),
        decoded=images.decoded(image_size, classes),
    )


def cross_entropy(scores: Tensor, label: Tensor) -> Tensor:
    """Return the mean cross entropy of scores (..., classes), without labels of -100."""
    # In float32, as float16 is too coarse for sums of exponentials.
    return nn.functional.cross_entropy(scores.flatten(0, -2).float(), label.flatten())


def as_tensors(arrays: synthetic.Batch) -> Batch:
    """Return a batch of arrays as tensors on the CPU."""
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


def to_device(batch: Batch, device: torch.device) -> Batch:
    """Copy a batch to a device, asynchronously from pinned memory."""
    return {name: _moved(value, device) for name, value in batch.items()}


def _moved(value: Any, device: torch.device) -> Any:
    if isinstance(value, (list, tuple)):
        return [_moved(entry, device) for entry in value]
    return value.to(device, non_blocking=True)
