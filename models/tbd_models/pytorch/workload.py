"""What a PyTorch workload is: a model, its data, its loss and its optimizer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tbd_models import synthetic

# A batch is a dict of tensors, or of lists of tensors where samples differ in shape. The first axis
# (of the list, or of the tensor) is the batch.
Batch = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Workload:
    """A model and how it is trained.

    Attributes:
        model: the module, on the default device of the moment when it was built.
        batch: makes a batch of so many synthetic samples on the CPU (``tbd_models.synthetic``).
        forward: runs the model on a batch.
        loss: returns the scalar loss of what ``forward`` returned.
        optimizer: makes the published optimizer.
        clip_norm: largest norm of all gradients together, None for no clipping.
    """

    model: nn.Module
    batch: Callable[[int, np.random.Generator], Batch]
    forward: Callable[[nn.Module, Batch], Any]
    loss: Callable[[Any, Batch], Tensor]
    optimizer: Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]
    clip_norm: float | None = None


def image_classification(model: nn.Module, image_size: int, classes: int) -> Workload:
    """Return how a model that gives class scores of images (N, 3, H, W) is trained."""
    return Workload(
        model=model,
        batch=lambda size, rng: as_tensors(synthetic.image_batch(size, image_size, classes, rng)),
        forward=lambda module, batch: module(batch["image"]),
        loss=lambda scores, batch: cross_entropy(scores, batch["label"]),
        optimizer=lambda parameters: torch.optim.SGD(
            parameters, lr=0.01, momentum=0.9, weight_decay=1e-4
        ),
    )


def cross_entropy(scores: Tensor, label: Tensor) -> Tensor:
    """Return the mean cross entropy, computed in float32 whatever the scores are in.

    Args:
        scores: class scores, classes last.
        label: class per sample; -100 is left out.
    """
    return nn.functional.cross_entropy(scores.flatten(0, -2).float(), label.flatten())


def as_tensors(arrays: synthetic.Batch) -> Batch:
    """Return the arrays of a batch as tensors on the CPU."""
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


def to_device(batch: Batch, device: torch.device) -> Batch:
    """Return the batch on a device."""
    return {name: _moved(value, device) for name, value in batch.items()}


def _moved(value: Any, device: torch.device) -> Any:
    if isinstance(value, (list, tuple)):
        return [_moved(entry, device) for entry in value]
    return value.to(device, non_blocking=True)
