"""Define an MXNet workload: model, data, loss and optimizer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import mxnet as mx
import numpy as np
from mxnet.gluon import HybridBlock

from tbd_models import images, synthetic
from tbd_models.data import Sized
from tbd_models.decoded import Decoded

Array: TypeAlias = mx.nd.NDArray
Batch: TypeAlias = dict[str, Array]

# Added to the scores of masked positions before a softmax.
HIDDEN = -1e9


@dataclass(frozen=True, slots=True)
class Workload:
    """A model and how to train it."""

    model: HybridBlock  # not initialized
    batch: Callable[[int, np.random.Generator], synthetic.Batch]  # makes N synthetic samples
    inputs: tuple[str, ...]  # fields of the batch that the model takes, in order
    loss: Callable[[Array, Batch], Array]  # scalar loss of the model's output
    optimizer: Callable[[], mx.optimizer.Optimizer]
    # He initialization.
    initializer: mx.init.Initializer = field(
        default_factory=lambda: mx.init.Xavier("gaussian", "in", magnitude=2)
    )
    clip_norm: float | None = None  # maximum global norm of the gradients
    sized: Sized | None = None  # makes samples of unequal size; None if all have the same
    decoded: Decoded | None = None  # samples from files; None if it has no files
    unrolled: bool = False  # its graph has an operation per step, so a graph has one length

    def forward(self, batch: Batch) -> Array:
        """Run the model on a batch, and on the padding of samples of unequal size."""
        padding = [batch["padding"]] if "padding" in batch else []
        return self.model(*(batch[name] for name in self.inputs), *padding)


def image_classification(model: HybridBlock, image_size: int, classes: int) -> Workload:
    """Return the workload of a model from images (N, 3, H, W) to class scores."""
    return Workload(
        model=model,
        batch=lambda size, rng: synthetic.image_batch(size, image_size, classes, rng),
        inputs=("image",),
        loss=lambda scores, batch: cross_entropy(scores, batch["label"]),
        optimizer=lambda: mx.optimizer.SGD(learning_rate=0.01, momentum=0.9, wd=1e-4),
        decoded=images.decoded(image_size, classes),
    )


def cross_entropy(
    scores: Array, label: Array, smoothing: float = 0.0, *, padded: bool = False
) -> Array:
    """Return the mean cross entropy; ``smoothing`` is spread evenly over all classes.

    If the batch is padded, labels of padding are below 0.
    """
    # In float32, as float16 is too coarse for sums of exponentials.
    log = mx.nd.log_softmax(scores.astype("float32"), axis=-1)
    if padded:
        real = label >= 0
        log = log * (real / real.mean()).expand_dims(-1)
    entropy = -mx.nd.pick(log, label, axis=-1).mean()
    return entropy if not smoothing else (1 - smoothing) * entropy - smoothing * log.mean()


def to_device(arrays: synthetic.Batch, device: mx.Context) -> Batch:
    """Return a batch on a device, in float32: MXNet's operators take words and labels so too."""
    return {name: mx.nd.array(array, ctx=device) for name, array in arrays.items()}
