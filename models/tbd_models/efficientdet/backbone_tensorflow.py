"""The backbone of EfficientDet in TensorFlow: EfficientNet without its classifier."""

from __future__ import annotations

from typing import Any

import keras
from keras import layers

from tbd_models.efficientdet import Dimensions, Stage


def norm(x: Any, name: str) -> Any:
    """Return batch normalization with the constants of EfficientNet and EfficientDet."""
    return layers.BatchNormalization(momentum=0.99, epsilon=1e-3, name=name)(x)


def swish(x: Any, name: str) -> Any:
    """Return x times its sigmoid."""
    return layers.Activation("silu", name=name)(x)


def _initial() -> keras.initializers.Initializer:
    # He initialization. For depthwise filters Keras counts k x k as the fan-out.
    return keras.initializers.VarianceScaling(2.0, "fan_out", "untruncated_normal")


def _padding(x: Any, kernel: int, stride: int, name: str) -> tuple[Any, str]:
    # Keras pads strided convolutions on one side with "same"; PyTorch pads on both.
    if stride == 1:
        return x, "same"
    return layers.ZeroPadding2D(kernel // 2, name=f"{name}_pad")(x), "valid"


def _convolution(
    x: Any, channels: int, name: str, *, kernel: int = 1, stride: int = 1, active: bool = True
) -> Any:
    x, padding = _padding(x, kernel, stride, name)
    x = layers.Conv2D(
        channels,
        kernel,
        stride,
        padding,
        use_bias=False,
        kernel_initializer=_initial(),
        name=f"{name}_conv",
    )(x)
    x = norm(x, f"{name}_bn")
    return swish(x, f"{name}_swish") if active else x


def _depthwise(x: Any, kernel: int, stride: int, name: str) -> Any:
    x, padding = _padding(x, kernel, stride, name)
    x = layers.DepthwiseConv2D(
        kernel,
        stride,
        padding,
        use_bias=False,
        depthwise_initializer=_initial(),
        name=f"{name}_conv",
    )(x)
    return swish(norm(x, f"{name}_bn"), f"{name}_swish")


def _excited(x: Any, squeezed: int, name: str) -> Any:
    # Squeeze-and-excitation: scale each channel by a gate computed from the channel averages.
    gate = layers.GlobalAveragePooling2D(keepdims=True, name=f"{name}_pool")(x)
    gate = layers.Conv2D(squeezed, 1, name=f"{name}_reduce")(gate)
    gate = swish(gate, f"{name}_swish")
    gate = layers.Conv2D(x.shape[-1], 1, activation="sigmoid", name=f"{name}_expand")(gate)
    return layers.Multiply(name=f"{name}_scale")([x, gate])


def _block(x: Any, stage: Stage, *, stride: int, squeeze: float, drop: float, name: str) -> Any:
    # Inverted bottleneck (MBConv).
    inputs = x.shape[-1]
    y = x
    if stage.expansion != 1:
        y = _convolution(y, inputs * stage.expansion, f"{name}_expand")
    y = _depthwise(y, stage.kernel, stride, f"{name}_depthwise")
    y = _excited(y, max(1, int(inputs * squeeze)), f"{name}_excite")
    y = _convolution(y, stage.channels, f"{name}_project", active=False)
    if stride != 1 or inputs != stage.channels:
        return y
    if drop > 0:  # drops whole samples: stochastic depth
        y = layers.Dropout(drop, noise_shape=(None, 1, 1, 1), name=f"{name}_depth")(y)
    return layers.Add(name=f"{name}_add")([y, x])


def backbone(image: Any, d: Dimensions) -> list[Any]:
    """Return the outputs of the tapped stages, P3, P4 and P5, for images (N, H, W, 3)."""
    x = _convolution(image, d.stem, "stem", kernel=3, stride=2)
    total, done = sum(stage.blocks for stage in d.stages), 0
    maps = []
    for number, stage in enumerate(d.stages):
        for block in range(stage.blocks):
            x = _block(
                x,
                stage,
                stride=stage.stride if block == 0 else 1,
                squeeze=d.squeeze,
                drop=d.drop * done / total,
                name=f"stage{number}_block{block}",
            )
            done += 1
        if number in d.tapped:
            maps.append(x)
    return maps
