"""Inception-v3 in TensorFlow."""

from __future__ import annotations

from typing import Any

import keras
from keras import layers

from tbd_models.inception3 import Conv, Dimensions, Pool, Step, network
from tbd_models.tensorflow.workload import Tensors, Workload, image_classification, label_loss


def _apply(step: Step, x: Any, name: str) -> Any:
    # Features are (N, H, W, C), which Keras needs on a CPU.
    if isinstance(step, Conv):
        initial = keras.initializers.VarianceScaling(2.0, "fan_out", "untruncated_normal")
        height, width = step.kernel
        if step.same and step.kernel != (1, 1):
            x = layers.ZeroPadding2D((height // 2, width // 2), name=f"{name}_pad")(x)
        x = layers.Conv2D(
            step.channels,
            step.kernel,
            step.stride,
            use_bias=False,
            kernel_initializer=initial,
            name=f"{name}_conv",
        )(x)
        x = layers.BatchNormalization(momentum=0.9, epsilon=0.001, name=f"{name}_bn")(x)
        return layers.ReLU(name=f"{name}_relu")(x)
    if isinstance(step, Pool):
        if step.kind == "max":
            return layers.MaxPooling2D(3, 2, name=f"{name}_pool")(x)
        x = layers.ZeroPadding2D(1, name=f"{name}_pad")(x)  # the zeros count in the average
        return layers.AveragePooling2D(3, 1, name=f"{name}_pool")(x)
    joined = []
    for number, steps in enumerate(step.branches):
        branch = x
        for position, inner in enumerate(steps):
            branch = _apply(inner, branch, f"{name}_branch{number}_{position}")
        joined.append(branch)
    return layers.Concatenate(name=f"{name}_join")(joined)


def _auxiliary_scores(x: Any, d: Dimensions) -> Any:
    x = layers.AveragePooling2D(5, 3, name="aux_pool")(x)
    x = _apply(Conv(128 // d.narrowing), x, "aux_1")
    kernel = (min(5, x.shape[1]), min(5, x.shape[2]))  # small images leave fewer cells
    x = _apply(Conv(768 // d.narrowing, kernel, same=False), x, "aux_2")
    return layers.Dense(d.classes, dtype="float32", name="aux_fc")(
        layers.Flatten(name="aux_features")(x)
    )


def inception(d: Dimensions) -> keras.Model:
    """Return Inception-v3 for images (N, H, W, 3)."""
    image = keras.Input((d.image_size, d.image_size, 3))
    x = image
    scores = []
    for name, step in network(d).items():
        x = _apply(step, x, name)
        if name == "mixed_6e" and d.auxiliary_weight:
            scores.append(_auxiliary_scores(x, d))
    x = layers.GlobalAveragePooling2D(name="avgpool")(x)
    x = layers.Dropout(d.dropout, name="dropout")(x)
    scores.insert(0, layers.Dense(d.classes, dtype="float32", name="fc")(x))
    return keras.Model(image, scores if d.auxiliary_weight else scores[0])


def workload(d: Dimensions) -> Workload:
    """Return the workload with these dimensions."""

    def loss(outputs: Any, batch: Tensors) -> Any:
        if not d.auxiliary_weight:
            return label_loss(outputs, batch)
        scores, auxiliary = outputs
        return label_loss(scores, batch) + d.auxiliary_weight * label_loss(auxiliary, batch)

    return image_classification(inception(d), d.image_size, d.classes, loss)
