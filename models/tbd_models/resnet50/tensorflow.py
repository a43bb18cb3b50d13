"""ResNet-50 in TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
from keras import layers

from tbd_models.resnet50 import Dimensions
from tbd_models.tensorflow.workload import Workload, image_classification

_EPSILON = 1e-5  # PyTorch's and MXNet's; Keras defaults to 1e-3

# (features, layer name) -> features of the same shape.
Normalization = Callable[[Any, str], Any]


def _convolution(
    x: Any, width: int, size: int, stride: int, name: str, *, bias: bool = False
) -> Any:
    # Keras pads strided convolutions on one side with "same"; PyTorch and MXNet pad on both.
    if size > 1:
        x = layers.ZeroPadding2D(size // 2, name=f"{name}_pad")(x)
    initial = keras.initializers.VarianceScaling(2.0, "fan_out", "untruncated_normal")
    return layers.Conv2D(width, size, stride, use_bias=bias, kernel_initializer=initial, name=name)(
        x
    )


def _normalized(x: Any, name: str) -> Any:
    return layers.BatchNormalization(momentum=0.9, epsilon=_EPSILON, name=name)(x)


def _bottleneck(
    x: Any, width: int, stride: int, *, name: str, d: Dimensions, normalized: Normalization
) -> Any:
    outputs = width * d.expansion
    first, second = (1, stride) if d.version == "v1.5" else (stride, 1)
    shortcut = x
    if stride != 1 or x.shape[-1] != outputs:
        shortcut = _convolution(x, outputs, 1, stride, f"{name}_downsample_conv")
        shortcut = normalized(shortcut, f"{name}_downsample_bn")
    y = _convolution(x, width, 1, first, f"{name}_conv1")
    y = layers.ReLU(name=f"{name}_relu1")(normalized(y, f"{name}_bn1"))
    y = _convolution(y, width, 3, second, f"{name}_conv2")
    y = layers.ReLU(name=f"{name}_relu2")(normalized(y, f"{name}_bn2"))
    y = normalized(_convolution(y, outputs, 1, 1, f"{name}_conv3"), f"{name}_bn3")
    return layers.ReLU(name=f"{name}_relu")(layers.Add(name=f"{name}_add")([y, shortcut]))


def stem(image: Any, d: Dimensions, normalized: Normalization = _normalized) -> Any:
    """Return the input of the first stage for images (N, H, W, 3)."""
    x = normalized(_convolution(image, d.stem_width, 7, 2, "conv1"), "bn1")
    x = layers.ZeroPadding2D(1, name="maxpool_pad")(layers.ReLU(name="relu")(x))
    return layers.MaxPooling2D(3, 2, name="maxpool")(x)


def stage(x: Any, number: int, d: Dimensions, normalized: Normalization = _normalized) -> Any:
    """Return the output of a stage, numbered from 0."""
    for block, stride in enumerate(d.strides(number)):
        name = f"stage{number}_block{block}"
        x = _bottleneck(x, d.widths[number], stride, name=name, d=d, normalized=normalized)
    return x


def _normalized_relu(x: Any, name: str, number: int) -> Any:
    return layers.ReLU(name=f"{name}_relu{number}")(_normalized(x, f"{name}_bn{number}"))


def _pre_activation(x: Any, width: int, stride: int, name: str, d: Dimensions) -> Any:
    # A bottleneck that normalizes before each convolution (He et al. 2016, version 2).
    outputs, bias = width * d.expansion, d.is_slim
    active = _normalized_relu(x, name, 1)
    if x.shape[-1] != outputs:
        shortcut = _convolution(active, outputs, 1, stride, f"{name}_shortcut", bias=bias)
    else:
        shortcut = layers.MaxPooling2D(1, stride, name=f"{name}_shortcut")(x) if stride > 1 else x
    y = _convolution(active, width, 1, 1, f"{name}_conv1")
    y = _convolution(_normalized_relu(y, name, 2), width, 3, stride, f"{name}_conv2")
    y = _normalized_relu(y, name, 3)
    y = _convolution(y, outputs, 1, 1, f"{name}_conv3", bias=bias)
    return layers.Add(name=f"{name}_add")([y, shortcut])


def _version_2(d: Dimensions) -> keras.Model:
    image = keras.Input((d.image_size, d.image_size, 3))
    x = image if d.is_slim else _normalized(image, "bn_data")
    x = _convolution(x, d.stem_width, 7, 2, "conv1", bias=d.is_slim)
    x = x if d.is_slim else _normalized_relu(x, "stem", 1)
    x = layers.MaxPooling2D(3, 2, name="maxpool")(layers.ZeroPadding2D(1, name="maxpool_pad")(x))
    for number, width in enumerate(d.widths):
        for block, stride in enumerate(d.strides(number)):
            x = _pre_activation(x, width, stride, f"stage{number}_block{block}", d)
    x = layers.GlobalAveragePooling2D(name="avgpool")(_normalized_relu(x, "last", 1))
    return keras.Model(image, layers.Dense(d.classes, dtype="float32", name="fc")(x))


def _version_1(d: Dimensions) -> keras.Model:
    image = keras.Input((d.image_size, d.image_size, 3))
    x = stem(image, d)
    for number in range(len(d.widths)):
        x = stage(x, number, d)
    x = layers.GlobalAveragePooling2D(name="avgpool")(x)
    return keras.Model(image, layers.Dense(d.classes, dtype="float32", name="fc")(x))


def workload(d: Dimensions) -> Workload:
    """Return the workload with these dimensions."""
    network = _version_2(d) if d.version.startswith("v2") else _version_1(d)
    return image_classification(network, d.image_size, d.classes)
