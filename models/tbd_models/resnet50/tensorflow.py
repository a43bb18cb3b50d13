"""ResNet-50 in TensorFlow."""

from __future__ import annotations

from typing import Any

import keras
from keras import layers

from tbd_models.resnet50 import Dimensions
from tbd_models.synthetic import image_batch
from tbd_models.tensorflow.workload import Workload, channels_last, cross_entropy, one_turn

_EPSILON = 1e-5


def _convolution(x: Any, width: int, size: int, stride: int, name: str) -> Any:
    """Return a convolution without bias; padding is on both sides, whatever the stride."""
    if size > 1:
        x = layers.ZeroPadding2D(size // 2, name=f"{name}_pad")(x)
    initial = keras.initializers.VarianceScaling(2.0, "fan_out", "untruncated_normal")
    return layers.Conv2D(
        width, size, stride, use_bias=False, kernel_initializer=initial, name=name
    )(x)


def _normalized(x: Any, name: str) -> Any:
    return layers.BatchNormalization(momentum=0.9, epsilon=_EPSILON, name=name)(x)


def _bottleneck(x: Any, width: int, stride: int, d: Dimensions, name: str) -> Any:
    """Return 1x1, 3x3 and 1x1 convolutions around a shortcut."""
    outputs = width * d.expansion
    first, second = (1, stride) if d.stride_in_3x3 else (stride, 1)
    shortcut = x
    if stride != 1 or x.shape[-1] != outputs:
        shortcut = _convolution(x, outputs, 1, stride, f"{name}_downsample_conv")
        shortcut = _normalized(shortcut, f"{name}_downsample_bn")
    y = _convolution(x, width, 1, first, f"{name}_conv1")
    y = layers.ReLU(name=f"{name}_relu1")(_normalized(y, f"{name}_bn1"))
    y = _convolution(y, width, 3, second, f"{name}_conv2")
    y = layers.ReLU(name=f"{name}_relu2")(_normalized(y, f"{name}_bn2"))
    y = _normalized(_convolution(y, outputs, 1, 1, f"{name}_conv3"), f"{name}_bn3")
    return layers.ReLU(name=f"{name}_relu")(layers.Add(name=f"{name}_add")([y, shortcut]))


def network(d: Dimensions) -> keras.Model:
    """Return a residual network for images of shape (N, H, W, 3)."""
    image = keras.Input((d.image_size, d.image_size, 3))
    x = _normalized(_convolution(image, d.stem_width, 7, 2, "conv1"), "bn1")
    x = layers.ZeroPadding2D(1, name="maxpool_pad")(layers.ReLU(name="relu")(x))
    x = layers.MaxPooling2D(3, 2, name="maxpool")(x)
    for stage, (width, blocks) in enumerate(zip(d.widths, d.blocks, strict=True)):
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            name = f"stage{stage}_block{block}"
            x = _bottleneck(x, width, stride, d, name)
    x = layers.GlobalAveragePooling2D(name="avgpool")(x)
    return keras.Model(image, layers.Dense(d.classes, dtype="float32", name="fc")(x))


def workload(d: Dimensions) -> Workload:
    """Return the workload of these dimensions."""
    model = network(d)
    return Workload(
        model=model,
        batch=lambda size, rng: image_batch(size, d.image_size, d.classes, rng),
        convert=channels_last,
        turns=one_turn(
            model,
            forward=lambda batch: model(batch["image"], training=True),
            loss=lambda scores, batch: cross_entropy(scores, batch["label"]),
            optimizer=keras.optimizers.SGD(0.01, momentum=0.9, weight_decay=1e-4),
        ),
    )
