"""What an MXNet workload is: a model, its data, its loss and its optimizer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import mxnet as mx
import numpy as np
from mxnet.gluon import HybridBlock

from tbd_models import synthetic

Array: TypeAlias = mx.nd.NDArray
Batch: TypeAlias = dict[str, Array]


@dataclass(frozen=True, slots=True)
class Workload:
    """A model and how it is trained.

    Attributes:
        model: the block, not initialized.
        batch: makes a batch of so many synthetic samples (``tbd_models.synthetic``).
        inputs: fields of the batch that the model takes, in order.
        loss: returns the scalar loss of what the model returned.
        optimizer: makes the published optimizer.
        initializer: of the weights.
        clip_norm: largest norm of all gradients together, None for no clipping.
    """

    model: HybridBlock
    batch: Callable[[int, np.random.Generator], synthetic.Batch]
    inputs: tuple[str, ...]
    loss: Callable[[Array, Batch], Array]
    optimizer: Callable[[], mx.optimizer.Optimizer]
    initializer: mx.init.Initializer = field(
        default_factory=lambda: mx.init.Xavier("gaussian", "in", magnitude=2)
    )
    clip_norm: float | None = None

    def forward(self, batch: Batch) -> Array:
        """Run the model on a batch."""
        return self.model(*(batch[name] for name in self.inputs))


def image_classification(model: HybridBlock, image_size: int, classes: int) -> Workload:
    """Return how a model that gives class scores of images (N, 3, H, W) is trained."""
    return Workload(
        model=model,
        batch=lambda size, rng: synthetic.image_batch(size, image_size, classes, rng),
        inputs=("image",),
        loss=lambda scores, batch: cross_entropy(scores, batch["label"]),
        optimizer=lambda: mx.optimizer.SGD(learning_rate=0.01, momentum=0.9, wd=1e-4),
    )


def cross_entropy(scores: Array, label: Array, smoothing: float = 0.0) -> Array:
    """Return the mean cross entropy, computed in float32 whatever the scores are in.

    Args:
        scores: class scores, classes last.
        label: class per sample.
        smoothing: probability that the labels give to all classes alike.
    """
    log = mx.nd.log_softmax(scores.astype("float32"), axis=-1)
    found = -mx.nd.pick(log, label, axis=-1).mean()
    return found if not smoothing else (1 - smoothing) * found - smoothing * log.mean()


def to_device(arrays: synthetic.Batch, device: mx.Context) -> Batch:
    """Return the arrays of a batch on a device, in float32 as MXNet has words and labels too."""
    return {name: mx.nd.array(array, ctx=device) for name, array in arrays.items()}
