"""Memory of a Keras model, in an interpreter that has TensorFlow.

Usage: python tensorflow_memory.py FILE MODEL BATCH. Writes the file.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from tbd_models.settings import Settings
from tbd_models.tensorflow import prepare

prepare(Settings(1))

import keras  # noqa: E402
import tensorflow as tf  # noqa: E402
from keras import layers  # noqa: E402

from tbd_models.instrument.memory_tensorflow import Update, estimate  # noqa: E402


def cnn() -> Any:
    shape = {"kernel_size": 3, "padding": "same", "use_bias": False, "activation": "relu"}
    first = layers.Conv2D(16, **shape, name="first")
    second = layers.Conv2D(32, **shape, strides=2, name="second")
    rest = [layers.Flatten(), layers.Dense(10, name="scores")]
    return keras.Sequential([keras.Input((32, 32, 3)), first, second, *rest])


def transformer() -> Any:
    given = keras.Input((32, 64))
    x = layers.LayerNormalization()(given + layers.MultiHeadAttention(4, 16)(given, given))
    inner = layers.Dense(64)(layers.Dense(256, activation="relu")(x))
    x = layers.GlobalAveragePooling1D()(layers.LayerNormalization()(x + inner))
    return keras.Model(given, layers.Dense(10)(x))


def resnet50() -> Any:
    return keras.applications.ResNet50(weights=None, classifier_activation=None)


def lstm() -> Any:
    parts = [layers.LSTM(24, name="cells"), layers.Dense(10, name="scores")]
    return keras.Sequential([keras.Input((7, 5)), *parts])


def steep() -> Any:
    """Return a network whose loss below contains a gradient."""
    parts = [layers.Dense(16, activation="tanh", name="inner"), layers.Dense(1, name="scores")]
    return keras.Sequential([keras.Input((6,)), *parts])


def penalty(model: Any, x: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        scores = model(x, training=True)
    return tf.reduce_sum(tf.square(tape.gradient(scores, x)))


def main(path: Path, name: str, size: int) -> None:
    entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    builds = (cnn, transformer, resnet50, lstm, steep)
    model: Any = next(build for build in builds if build.__name__ == name)()
    optimizer = keras.optimizers.SGD(0.01, momentum=0.9)
    optimizer.build(model.trainable_variables)
    batch = {"x": tf.zeros((size, *model.input_shape[1:])), "y": tf.zeros(size, tf.int32)}

    def loss(given: Any) -> Any:
        if model.output_shape[-1] == 1:
            return penalty(model, given["x"])
        return entropy(given["y"], model(given["x"], training=True))

    update = Update(loss, model.trainable_variables, optimizer)
    estimate(model, [update], batch, size).write(path, iterations=2)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
